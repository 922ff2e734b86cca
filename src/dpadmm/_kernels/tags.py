"""Which functions the tag of a loss selects, and how losses from outside the library are told apart."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import overload

from dpadmm._kernels.loss_digest import OWN, digest

_BODIES: dict[type, dict[Callable[..., Any], Callable[..., Any]]] = {}
_STUBS: set[Callable[..., Any]] = set()
_DEFINED: Counter[str] = Counter()  # how often a class of this name has been defined in this process
_FIRST: dict[type, str | None] = {}  # the digest with which compiled code first met a tag from outside


def own(tag: type) -> bool:
    """Whether a tag stands in one of the rooms whose sources name the library's own cache folder."""
    return tag.__module__.startswith(OWN)


def register(stub: Callable[..., Any], tag: type, body: Callable[..., Any]) -> None:
    """Makes `body` what `stub` does for a tag.

    Raises:
        ValueError: The tag has a body for this stub already, and kernels may have been compiled with it.
    """
    if tag not in _BODIES and not own(tag):
        tag.__name__ = _unique_name(tag)
    bodies = _BODIES.setdefault(tag, {})
    if stub in bodies and (own(tag) or tag in _FIRST):
        raise ValueError(
            f"{tag.__qualname__} has a body for '{stub.__name__}' that compiled code may contain already; "
            f"define the class {tag.__qualname__} again before giving it another."
        )
    bodies[stub] = body
    if stub not in _STUBS:
        _STUBS.add(stub)

        @overload(stub, strict=False)
        def choose(loss: types.Type, margin: types.Type, target: types.Type) -> Callable[..., Any] | None:
            tag = getattr(loss, "instance_class", type(None))
            _first(tag)
            return _BODIES.get(tag, {}).get(stub)


def kept_as(tag: type) -> str | None:
    """The name under which kernels of a tag from outside may be kept on disk: the digest of its loss.

    Returns:
        None where there is no digest, or the loss has changed since compiled code first met it: a function that was
        compiled before the change would then be called from a kernel that is kept as compiled after it.
    """
    first = _first(tag)
    return first if first is not None and first == digest(tag, _BODIES[tag]) else None


def _first(tag: type) -> str | None:
    if tag in _BODIES and tag not in _FIRST and not own(tag):
        _FIRST[tag] = digest(tag, _BODIES[tag])
    return _FIRST.get(tag)


def _unique_name(tag: type) -> str:
    """A name that no other tag of this process has, and the same in every process that defines the tag once.

    Numba tells named tuples apart by the names of their class and fields only: when it is called, and when it looks for
    machine code in the process. One of two tags of the same name would run the other's code, also where a notebook
    defines its tag anew.
    """
    full = f"{tag.__module__}:{tag.__qualname__}"
    _DEFINED[full] += 1
    again = f"_{_DEFINED[full]}" if _DEFINED[full] > 1 else ""
    return f"{tag.__name__}_{hashlib.sha256(full.encode()).hexdigest()[:8]}{again}"
