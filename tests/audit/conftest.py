"""A package of somebody's own parts."""

from own_parts import somebody  # noqa: F401
