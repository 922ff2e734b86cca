"""Sets in writing, from people who may be wrong or worse: `parse` answers with a set or an `InputError`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from typing import Any, NoReturn

import numpy as np

from dpadmm._files import json_value
from dpadmm._registry import build
from dpadmm.errors import InputError, unknown
from dpadmm.problems.sets import SETS, WRITTEN
from dpadmm.problems.sets.base import ConvexSet
from dpadmm.problems.sets.cone_programme import ConeProgramme
from dpadmm.problems.sets.each import Each
from dpadmm.problems.sets.intersection import Intersection, simplest

DEEPEST = 8  # sets within sets
LONGEST = 10_000_000  # characters


def parse(text: str) -> ConvexSet:
    """`box:0.1`; several with commas between them, which is their intersection; or JSON: an object whose one key is the
    kind of set, as in {"polyhedron": {"rows": [[1, 1]], "limits": [1]}} or {"each": ["box:1", {"ball": {}}]}."""
    if not isinstance(text, str):
        raise InputError(f"set: a text is needed, not {type(text).__name__}.")
    if len(text) > LONGEST:
        raise InputError(f"set: a text of {len(text)} characters; {LONGEST} are the most.")
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return _short(text)
    try:
        found = json_value(text, object_pairs_hook=_once, parse_constant=_constant)
    except ValueError as error:
        raise error if isinstance(error, InputError) else InputError(f"set {_cut(text)}: not JSON ({error}).") from None
    return _set(found, 0)


def written(domain: ConvexSet) -> str | None:
    """The JSON that `parse` reads as this set; None for a set that is not the library's own, or not made of numbers."""
    try:
        text = json.dumps(_content(domain), allow_nan=False)
        return text if parse(text) == domain else None
    except (TypeError, ValueError, KeyError):
        return None


def _content(domain: Any) -> dict[str, Any]:
    name = {kind: name for name, kind in (SETS | WRITTEN).items()}[type(domain)]
    if isinstance(domain, Intersection | Each):
        return {name: [_content(member) for member in domain.members]}
    return {name: {entry.name: _numbers(getattr(domain, entry.name)) for entry in fields(domain) if entry.init}}


def _numbers(value: Any) -> Any:
    """As JSON has them: lists, and null where there is no limit."""
    found = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(found, list | tuple):
        return [_numbers(entry) for entry in found]
    return None if isinstance(found, float) and math.isinf(found) else found


def _short(text: str) -> ConvexSet:
    members = [build("set", SETS, part.strip()) for part in text.split(",")]
    return members[0] if len(members) == 1 else simplest(Intersection(members))


def _set(found: Any, depth: int) -> ConvexSet:
    if depth > DEEPEST:
        raise InputError(f"set: more than {DEEPEST} sets within each other; an intersection of intersections is one.")
    if isinstance(found, str):
        return _short(found)
    if not isinstance(found, dict) or len(found) != 1:
        raise InputError(f'set {_cut(found)}: a name or an object with one key is needed, as in {{"ball": {{}}}}.')
    [(name, content)] = found.items()
    if name not in SETS and name not in WRITTEN:
        raise unknown("set", name[:100], [*SETS, *WRITTEN])
    if name in ("intersection", "each"):
        if not isinstance(content, list):
            raise InputError(f"set {name!r}: a list of sets is needed, not {_cut(content)}.")
        members = [_set(member, depth + 1) for member in content]
        return Each(members) if name == "each" else simplest(Intersection(members))
    kind: Any = SETS.get(name) or WRITTEN[name]
    return _made(name, ConeProgramme.written if kind is ConeProgramme else kind, content)


def _made(name: str, maker: Callable[..., ConvexSet], content: Any) -> ConvexSet:
    known = signature(maker).parameters
    if not isinstance(content, dict):
        raise InputError(f"set {name!r}: an object with {', '.join(known) or 'nothing in it'} is needed.")
    for key, value in content.items():
        if key not in known:
            raise unknown(f"key of set {name!r}:", key[:100], known)
        _plain(value, f"set {name!r}: {key}")
    missing = [key for key, asked in known.items() if asked.default is asked.empty and key not in content]
    if missing:
        raise InputError(f"set {name!r}: {', '.join(missing)} missing.")
    return maker(**content)


def _plain(value: Any, what: str) -> None:
    """Numbers, lists of them, tables of them; nothing that NumPy might take for a number."""
    rows = value if isinstance(value, list) else [value]
    for row in rows:
        for entry in row if isinstance(row, list) else [row]:
            if isinstance(entry, bool) or not (entry is None or isinstance(entry, int | float)):
                raise InputError(f"{what}: {_cut(entry)} is not a number.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise InputError(f"set: a key appears twice among {_cut([key for key, _ in pairs])}.")
    return dict(pairs)


def _constant(word: str) -> NoReturn:
    raise InputError(f"set: {word} is not a number that can be used; where there is no limit, write null.")


def _cut(value: Any) -> str:
    text = repr(value) if not isinstance(value, dict | list) else f"{type(value).__name__} of {len(value)}"
    return text if len(text) <= 60 else text[:57] + "..."
