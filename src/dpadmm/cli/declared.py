"""Flags made of declared fields: what `spec/declare.py` says about a field is what the help says about its flag."""

from __future__ import annotations

from typing import Any

import typer

from dpadmm._fields import Declaration, declarations
from dpadmm.spec.declare import PANELS, TABLES

FIELDS: dict[str, Declaration] = {
    field.name: field for table in ("data", "run", "simulation") for field in declarations(TABLES[table])
}
"""The fields that a simulation has, by name."""

_TYPES = {"str": str, "int": int, "float": float, "bool": bool, "tuple[float, ...]": str}


def declared(name: str, **changes: Any) -> Any:
    """The option of a field; `changes` are arguments of `typer.Option` for verbs where something differs."""
    field = FIELDS[name]
    flags = field.flag if field.off_flag is None else f"{field.flag}/{field.off_flag}"
    given = {"help": field.help, "rich_help_panel": field.panel, "show_default": field.shown or False}
    return typer.Option(flags, **(given | changes))


def in_order() -> list[Declaration]:
    """The fields that have a flag: those people need first, then panel by panel."""
    flagged = [field for field in FIELDS.values() if field.flag]
    return sorted(flagged, key=lambda field: -1 if field.first else PANELS.index(field.panel))


def kind(field: Declaration) -> Any:
    """The type of what is written after the flag; a list of numbers is a text until it is read."""
    return _TYPES[field.type.removesuffix(" | None")]
