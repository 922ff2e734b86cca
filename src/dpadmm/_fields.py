"""Fields that are declared once, and values from files and flags in the types of those fields."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from numbers import Real
from typing import Any, TypeVar

from dpadmm._ranges import RANGE, PublicRange
from dpadmm.errors import InputError, unknown

Table = TypeVar("Table")

_TABLE = "Mapping[str,"  # as the annotation of a field begins
_EXPECTED = {
    "float": "a finite number",
    "int": "a whole number",
    "bool": "true or false",
    "str": "a text",
    _TABLE: "a table",
}
_PLAIN: dict[str, type] = {"bool": bool, "str": str}
_MEMBERS: dict[str, type] = {"tuple[str": str, "tuple[float": float, "tuple": Mapping}


FILE_ONLY = ""  # the flag of a field that only a spec file or Python can set


def option(
    default: Any,
    *,
    help: str,
    panel: str,
    flag: str | None = None,
    off_flag: str | None = None,
    shown: str | None = None,
    first: bool = False,
    part: str | None = None,
    within: PublicRange | None = None,
) -> Any:
    """A field of a dataclass with all that is said about it, from which flags, types and reference pages are made.

    Args:
        default: The field's value where nobody says otherwise.
        help: What it means, in one sentence.
        panel: The group of options it is shown in.
        flag: Its flag, where that is not the field's name; `FILE_ONLY` for none.
        off_flag: The flag that sets a bool to False.
        shown: The default as people read it, where that is not the value itself.
        first: Whether it is among the options people need first.
        part: The kind of part the field names, such as "loss"; in Python such a part can be given as it is.
        within: The public range of its numbers; `_ranges.check_ranges` enforces it.
    """
    facts = {"help": help, "panel": panel, "flag": flag, "off_flag": off_flag, "shown": shown, "first": first}
    limits = {} if within is None else {RANGE: within}
    return field(default=default, metadata={**facts, "part": part, **limits})


@dataclass(frozen=True)
class Declaration:
    """A field that was declared by `option`."""

    name: str
    type: str  # as it is written in files and flags, which name parts and hold none
    default: Any
    help: str
    panel: str
    flag: str
    off_flag: str | None
    shown: str | None
    first: bool
    part: str | None

    @classmethod
    def of(cls, entry: Field[Any]) -> Declaration:
        """What was declared, with the flag that follows from the name where no other is given."""
        facts = {name: fact for name, fact in entry.metadata.items() if name != RANGE}
        if facts["flag"] is None:
            facts["flag"] = f"--{entry.name.replace('_', '-')}"
        if facts["shown"] is None and entry.default not in (None, ()) and not isinstance(entry.default, bool):
            facts["shown"] = str(entry.default)
        return cls(entry.name, written_type(entry), entry.default, **facts)


def written_type(entry: Field[Any]) -> str:
    """The type of a field's value in files and flags: parts and classes that Python may give are named there."""
    return re.sub(r" \| (Part|type\[\w+\])", "", str(entry.type))


def declarations(owner: Any) -> list[Declaration]:
    """The declared fields of a dataclass, in the order of its signature."""
    return [Declaration.of(entry) for entry in _in_order(owner) if is_option(entry)]


def is_option(entry: Field[Any]) -> bool:
    """Whether a field was declared by `option`; others may have metadata as well."""
    return "help" in entry.metadata


def names(owner: Any) -> list[str]:
    """The fields of a dataclass, or of one's instance, in the order of its signature."""
    return [entry.name for entry in _in_order(owner)]


def _in_order(owner: Any) -> list[Field[Any]]:
    return sorted(fields(owner), key=lambda entry: bool(entry.kw_only))


def from_table(owner: type[Table], entries: Any, where: str) -> Table:
    """A dataclass from a table of a file: keys are names of fields, and those without a default must be there.

    `where` names the table in messages, as in "policy.toml".
    """
    return owner(**table_values(owner, entries, where))


def table_values(owner: Any, entries: Any, where: str) -> dict[str, Any]:
    """What `from_table` makes a dataclass of: for those who have something to add to what the dataclass refuses."""
    if not isinstance(entries, Mapping):
        raise InputError(f"{where} must hold an object, that is names with values.")
    known = {entry.name: entry for entry in fields(owner) if entry.init}
    values = {}
    for name, value in entries.items():
        if name not in known:
            raise unknown(f"key in {where}", str(name), known)
        values[name] = typed(owner, name, value, where)
    required = [name for name, entry in known.items() if entry.default is MISSING and entry.default_factory is MISSING]
    missing = [name for name in required if name not in values]
    if missing:
        raise InputError(f"{where} lacks {', '.join(missing)}.")
    return values


def typed(owner: Any, name: str, value: Any, where: str) -> Any:
    """The value as its field wants it, or an `InputError` that says where it came from and what it must be.

    A whole number where a fraction is expected is fine; a string is not. None is fine where the field may be None.
    Numbers must lie in the public range of their field, where it has one.
    """
    entry = next(entry for entry in fields(owner) if entry.name == name)
    found = _of_kind(str(entry.type), name, value, where)
    if RANGE in entry.metadata and found is not None:
        for number in found if isinstance(found, tuple) else (found,):
            entry.metadata[RANGE].check(where, name, number)
    return found


def _of_kind(text: str, name: str, value: Any, where: str) -> Any:
    """The value in the type that a field's annotation says."""
    if value is None and text.endswith("| None"):
        return None
    kind, number = text.split(" ")[0], _is_number(value)
    if kind == "float" and number and math.isfinite(value):
        return float(value)
    if kind == "int" and number and float(value).is_integer():
        return int(value)
    if type(value) is _PLAIN.get(kind):  # the type itself: NumPy's truth value is called bool too, and no JSON
        return value
    if kind == _TABLE and isinstance(value, Mapping):
        return value
    if kind.startswith("tuple") and isinstance(value, list | tuple):
        member = next(found for start, found in _MEMBERS.items() if kind.startswith(start))
        if member is not float and all(isinstance(entry, member) for entry in value):
            return tuple(value)
        if member is float and all(_is_number(entry) and math.isfinite(entry) for entry in value):
            return tuple(float(entry) for entry in value)
    lists = {str: "a list of texts", float: "a list of finite numbers", Mapping: "a list of tables"}
    expected = _EXPECTED.get(kind) or next(lists[_MEMBERS[start]] for start in _MEMBERS if kind.startswith(start))
    raise InputError(f"{where}: {name} = {value!r} must be {expected}.")


def listed(owner: Any, name: str, value: Any) -> Any:
    """One number where a field holds a list of numbers, as a list of one; anything else as it is."""
    kind = str(next(entry.type for entry in fields(owner) if entry.name == name))
    return (value,) if kind.startswith("tuple[float") and _is_number(value) else value


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return type(value) is int and abs(value) < 2**63  # TOML's own range; bool is no int
    return isinstance(value, Real)  # NumPy's numbers are registered as such
