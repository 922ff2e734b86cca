"""What a margin loss is to a kernel: three functions of (margin, target), chosen by the type of the loss's tag.

The bodies stand with the losses (`losses/*.py`, `compiled.implements`); these are the names the kernels call.
"""

from __future__ import annotations

from typing import Any


def value(loss: Any, margin: float, target: float) -> float:
    """The loss at a margin."""
    raise NotImplementedError("called only from compiled code")


def derivative(loss: Any, margin: float, target: float) -> float:
    """Its derivative in the margin."""
    raise NotImplementedError("called only from compiled code")


def curvature(loss: Any, margin: float, target: float) -> float:
    """Its second derivative in the margin."""
    raise NotImplementedError("called only from compiled code")
