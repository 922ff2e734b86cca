"""Tiny data sets and experiments, and a package of somebody's own parts."""

from own_parts import somebody  # noqa: F401
from tiny_data import experiment, same, tiny  # noqa: F401
