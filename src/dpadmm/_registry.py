"""Parts by name: `box:0.1` is the member `box` of a registry, made with the number 0.1."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, TypeVar

from dpadmm.errors import InputError, unknown

Part = TypeVar("Part")


_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:.*)?")


def is_import_path(text: str, registry: Container[str]) -> bool:
    """Whether a text is like `mypackage.module:Name`; names of the registry come first."""
    return _PATH.fullmatch(text) is not None and text.split(":")[0] not in registry


def build(kind: str, registry: Mapping[str, Callable[..., Part]], text: str | Part) -> Part:
    """Makes the part that `text` names: a registry name, then its numbers, separated by colons; `1,2,3` is a list.

    A part that is given by value is returned as it is.
    """
    if not isinstance(text, str):
        return text
    name, *numbers = text.split(":")
    if name not in registry:
        refuse_import_path(kind, text)
        raise unknown(kind, name, registry)
    values = numbers_in(kind, text, numbers)
    try:
        return registry[name](*values)
    except TypeError:
        raise InputError(f"{kind} {text!r}: {name!r} does not take {len(values)} number(s) after its name.") from None


def refuse_import_path(kind: str, text: str) -> None:
    """Says of a text that is no registry name, but like an import path, where such paths are accepted."""
    if is_import_path(text, ()):
        raise InputError(
            f"{kind} {text!r} is an import path, which is for simulations: the terms of a federation hold registry "
            f"names only, so that they mean the same for every owner."
        )


def numbers_in(kind: str, text: str, numbers: Sequence[str]) -> list[Any]:
    """What stands after a name: numbers, and lists of them with commas in between."""
    try:
        return [tuple(map(float, number.split(","))) if "," in number else float(number) for number in numbers]
    except ValueError:
        name = text.split(":")[0]
        raise InputError(f"{kind} {text!r}: what follows the colon must be a number, as in '{name}:0.5'.") from None
