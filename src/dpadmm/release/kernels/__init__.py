"""Compiled loops over integer rows: the sums that are released, one pass over an agent's records each."""
