"""Runs rounds of many agents on one machine: the loop, what is measured, checkpoints, results."""
