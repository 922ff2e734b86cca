"""Parts by name: `box:0.1` is the member `box` of a registry, made with the number 0.1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from dpadmm.errors import InputError, unknown

Part = TypeVar("Part")


def build(kind: str, registry: Mapping[str, Callable[..., Part]], text: str) -> Part:
    """Makes the part that `text` names: a registry name, then its numbers, separated by colons; `1,2,3` is a list."""
    name, *numbers = text.split(":")
    if name not in registry:
        raise unknown(kind, name, registry)
    try:
        values = [
            tuple(float(part) for part in number.split(",")) if "," in number else float(number) for number in numbers
        ]
    except ValueError:
        raise InputError(f"{kind} {text!r}: what follows the colon must be a number, as in '{name}:0.5'.") from None
    try:
        return registry[name](*values)
    except TypeError:
        raise InputError(f"{kind} {text!r}: {name!r} does not take {len(values)} number(s) after its name.") from None
