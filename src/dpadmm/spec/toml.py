"""Spec files: an experiment as TOML, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomli_w

from dpadmm import _limits
from dpadmm._fields import names
from dpadmm._files import parse_toml, read_text
from dpadmm.errors import InputError, unknown
from dpadmm.spec.declare import TABLES, Experiment, FederationSpec
from dpadmm.spec.part import Part
from dpadmm.spec.sequences import FIELDS, from_file

REMOVED = {("run", "precision"): "rows are integers since 0.2.0, and there is one precision; delete the line"}
"""Keys that there were, and why they are gone."""


def dumps(experiment: Experiment) -> str:
    """As a spec file; what is left to the recipe is left out.

    Raises:
        InputError: a part was given by value and has no import path.
    """
    tables = {
        table: _values(getattr(experiment, table))
        for table in TABLES
        if table != "federation" or experiment.federation != FederationSpec()
    }
    return tomli_w.dumps(tables)


def _values(part: Any) -> dict[str, Any]:
    values = asdict(part)
    return {name: _written(values[name]) for name in names(part) if values[name] is not None and values[name] != ()}


def _written(value: Any) -> Any:
    return value.written if isinstance(value, Part) else value


def loads(text: str, where: str = "the spec", ended: bool = False, base: Path | None = None) -> Experiment:
    """An experiment from the text of a spec file.

    Args:
        text: The file's.
        where: Names it in errors.
        ended: It is of a run that was begun earlier, and is only reported: keys that are gone since are passed over.
        base: The folder that files of numbers (`rho_schedule = "@penalties.csv"`) are looked for in; None: no file is.
    """
    tables = parse_toml(text, where)
    result = Experiment()
    for table, values in tables.items():
        if table not in TABLES:
            raise unknown(f"table in {where}", table, TABLES)
        if not isinstance(values, Mapping):
            raise InputError(f"{where}: {table} must be a table, [{table}], with keys below it.")
        for name, value in values.items():
            if (table, name) in REMOVED:
                if not ended:
                    raise InputError(f"key {name!r} in [{table}] of {where}: {REMOVED[table, name]}.")
                continue
            if name not in names(TABLES[table]):
                raise unknown(f"key in [{table}] of {where}", name, names(TABLES[table]))
            if base is not None and name in FIELDS and isinstance(value, str):
                value = from_file(name, value, base)
            result = result.changed(where, **{name: value})
    return result


def read(path: Path) -> Experiment:
    """An experiment from a spec file."""
    return loads(read_text(path, "spec file", limit=_limits.SPEC), where=str(path), base=Path(path).parent)
