"""Networks by name or by file."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path

import numpy as np

from dpadmm.applications.power_flow.building import build
from dpadmm.applications.power_flow.matpower import read_matpower
from dpadmm.applications.power_flow.network import Network
from dpadmm.applications.power_flow.tables import Case, Table
from dpadmm.errors import InputError, unknown

NAMES = ("case14", "case118", "case300")  # of pypower, which ships the IEEE cases


def load(case: str | Path) -> Network:
    """A network of pypower by its name, or any other from a MATPOWER case file (.m)."""
    if str(case) in NAMES:
        return _from_pypower(str(case))
    path = Path(case)
    if path.suffix.lower() == ".m":
        return read_matpower(path)
    if path.exists():
        raise InputError(f"cannot read {path}: the name of a MATPOWER case file ends in .m.")
    error = unknown("case", str(case), NAMES)
    raise InputError(f"{error} Other networks are read from MATPOWER case files (.m).")


def _from_pypower(name: str) -> Network:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old code on a new NumPy; only numbers are taken from it
            tables = getattr(importlib.import_module(f"pypower.{name}"), name)()
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "pypower":
            raise
        raise InputError(
            f"{name!r} is read from the package pypower, which is not installed; run "
            "pip install 'dpadmm[power]', or give the path of a MATPOWER case file (.m)."
        ) from None

    def table(field: str) -> Table:
        values = np.asarray(tables[field], dtype=np.float64)
        return Table(f"pypower's {name}", field, values, np.arange(1, len(values) + 1), counted="row")

    return build(Case(name, float(tables["baseMVA"]), table("bus"), table("gen"), table("branch"), table("gencost")))
