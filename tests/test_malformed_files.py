"""Whatever bytes a file has, a reader answers with what it holds or with an `InputError` of one line; nothing else."""

from __future__ import annotations

import gzip
import io
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpadmm._files import read_json, read_text, read_toml
from dpadmm.admm.topology.graph import parse_topology
from dpadmm.admm.topology.text import read_topology
from dpadmm.applications.curves.model import CurveModel
from dpadmm.applications.power_flow.build import build
from dpadmm.applications.power_flow.cases import read_case
from dpadmm.datasets import read_idx, read_npz, read_table
from dpadmm.datasets.files import read_cells
from dpadmm.engine.output import checkpoint
from dpadmm.engine.output.model import Model
from dpadmm.errors import InputError, Refused
from dpadmm.owner.policy import Policy
from dpadmm.privacy.events import Relation
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify
from dpadmm.problems.sets.text import parse as parse_set
from dpadmm.report.tables import read_history, read_nodes
from dpadmm.spec.columns import Schema
from dpadmm.spec.toml import read as read_spec

CASE = b"""function mpc = small
mpc.version = '2';
mpc.baseMVA = 100;
%{
a block
%}
mpc.bus = [1 3 0 0 0 0 1 1 0 230 1 1.1 0.9; 2 1 50 10 0 0 1 1 0 230 1 1.1 0.9;];
mpc.gen = [1 0 0 30 -30 1 100 1 100 0];
mpc.branch = [1 2 0.01 0.1 0 100 100 100 0 0 1 -30 30];
mpc.gencost = [2 0 0 2 10 0];
"""
MODEL = b"""{"encoder": {"columns": [{"name": "a", "low": 0, "high": 1}]}, "coefficients": [0.5], "tau": [],
"loss": "logistic", "classes": ["a", "b"], "norm_bound": 1.0, "intercept": false, "private": true,
"simulated": true, "algorithm": "x", "guarantee": "y"}"""

CURVES = b"""{"encoder": {"curve": {"smoothing": 0}}, "coefficients": [0.5, 1, 1, 2, 3], "tau": [0.5],
"loss": "quantile:0.5", "classes": null, "norm_bound": 1.0, "intercept": true, "private": true, "simulated": true,
"algorithm": "x", "guarantee": "y", "basis": "bspline:4"}"""


def _parquet() -> bytes:
    raw = io.BytesIO()
    parquet.write_table(pa.table({"a": [1.0, 2.0, None], "b": ["x", "y", "x"], "c": [[1], [], [2]]}), raw)
    return raw.getvalue()


def _npz() -> bytes:
    raw = io.BytesIO()
    np.savez(raw, X=np.arange(12.0).reshape(3, 4), digest=np.array("d"), series=np.array(2))
    return raw.getvalue()


def _ledger() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.ledger"
        SqliteLedger.create(path, "d", "0" * 64, Relation.parse("replace")).close()
        return path.read_bytes()


def _model(path: Path) -> None:
    path.rename(path.with_name("model.json"))
    Model.load(path.parent).predict(_records(path.parent))


def _records(folder: Path) -> Path:
    (folder / "new.csv").write_text("a\n0.5\n")
    return folder / "new.csv"


def _opened(path: Path) -> None:
    ledger = SqliteLedger.open(path, reading=True)
    try:
        verify(ledger)
        ledger.refusals()
    except (sqlite3.Error, Refused, ValueError, KeyError, TypeError):
        pass  # which `dpadmm ledger` puts into a line (tests/cli/test_hostile_folders.py)
    finally:
        ledger.close()


def _curves(path: Path) -> None:
    path.rename(path.with_name("model.json"))
    CurveModel.load(path.parent).slope(np.linspace(0.0, 1.0, 5))


READERS: dict[str, tuple[str, Callable[[Path], Any], bytes]] = {
    "toml": (
        "a.toml",
        lambda path: read_toml(path, "policy"),
        b"a.b = [1, {c = 'x'}]\n[d]\ne = 1979-05-27T07:32:00Z\n",
    ),
    "json": ("a.json", lambda path: read_json(path, "file"), b'{"a": [1, 2.5e3, null, "\\u00fc"], "b": {"c": true}}'),
    "spec": ("a.toml", read_spec, b"[run]\nalgorithm = 'dp-admm'\nrounds = 3\n[data]\nsource = 'adult'\n"),
    "policy": ("a.toml", Policy.read, b"dataset = 'a'\nepsilon = 1.0\ndelta = 1e-6\nlosses = ['logistic']\n"),
    "columns": (
        "a.toml",
        Schema.read,
        b"target = 't'\nclasses = ['a', 'b']\n[[columns]]\nname = 'x'\nlow = 0\nhigh = 1\n",
    ),
    "graph": ("a.json", lambda path: parse_topology(read_topology(path)), b'{"edges": [[0, 1], [1, 2], [2, 0]]}'),
    "edges": ("a.txt", lambda path: parse_topology(read_topology(path)), b"0 1\n1 2 # x\n2,0\n"),
    "lists": ("a.adjlist", lambda path: parse_topology(read_topology(path)), b"0 1 2\n1 2\n2\n"),
    "set": (
        "a.json",
        lambda path: parse_set(read_text(path, "set")),
        b'{"polyhedron": {"rows": [[1, 1]], "limits": [1]}}',
    ),
    "case": ("a.m", lambda path: build(read_case(path)), CASE),
    "idx": ("a", read_idx, b"\0\0\x0b\x02\0\0\0\x02\0\0\0\x02abcdefgh"),
    "gzip": ("a", read_idx, gzip.compress(b"\0\0\x08\x01\0\0\0\x20" + bytes(range(32)))),
    "npz": ("a.npz", lambda path: read_npz(path, ["X"]), _npz()),
    "checkpoint": ("a.npz", lambda path: checkpoint.load(path, "d", lambda state, arrays: None), _npz()),
    "csv": ("a.csv", read_table, b'a,b\n1,x\n2,"y,z"\n'),
    "cells": ("a.csv", read_cells, b'a,b\n1,x\n2,"y,z"\n'),
    "parquet": ("a.parquet", read_table, _parquet()),
    "history": ("a.csv", read_history, b"run,round,loss\n0,1,0.5\n0,2,0.25\n"),
    "nodes": ("a.csv", read_nodes, b"run,round,node,disagreement\n0,1,0,0.5\n0,1,1,0.25\n"),
    "model": ("a.json", _model, MODEL),
    "curves": ("a.json", _curves, CURVES),
    "ledger": ("a.ledger", _opened, _ledger()),
}


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """A good file with bytes changed, cut out, repeated or put in; or any bytes at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    found = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        place, length = draw(st.integers(0, len(found))), draw(st.integers(0, 8))
        piece = draw(
            st.one_of(
                st.binary(max_size=8),
                st.sampled_from(
                    [b"[" * 60, b"9" * 400, b"\0\0", b"\xff\xff\xff\xff", b"1e999", b"NaN", b"-", b"\n", b"]", b'"']
                ),
                st.just(bytes(found[place : place + length]) * 3),
            )
        )
        found[place : place + draw(st.sampled_from([0, len(piece), length]))] = piece
    return bytes(found)


@pytest.mark.parametrize("kind", READERS)
@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(data=st.data())
def test_any_bytes_are_read_or_refused_in_a_line(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    name, read, good = READERS[kind]
    path = tmp_path_factory.mktemp("file", numbered=True) / name
    path.write_bytes(data.draw(damaged(good)))
    with suppress(InputError):
        read(path)


@pytest.mark.parametrize("kind", [kind for kind in READERS if kind not in ("checkpoint", "ledger")])
def test_the_good_ones_are_read(tmp_path: Path, kind: str) -> None:
    name, read, good = READERS[kind]
    (tmp_path / name).write_bytes(good)
    read(tmp_path / name)
