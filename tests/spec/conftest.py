"""Tiny data sets and experiments."""

from tiny_data import experiment, same, tiny  # noqa: F401
