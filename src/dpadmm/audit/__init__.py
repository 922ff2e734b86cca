"""Attacks that measure what leaks."""
