"""Files as strangers send them: small, and asking for much. Each is what a script of the second attack wrote."""

from __future__ import annotations

import gzip
import io
import sqlite3
import struct
import zipfile
from pathlib import Path

import numpy as np


def recursive_view(path: Path) -> Path:
    """A ledger whose table of facts is a view that never ends."""
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE VIEW meta AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r) "
        "SELECT CASE WHEN n<0 THEN 'schema' ELSE 'x' END AS name, n AS value FROM r"
    )
    connection.commit()
    connection.close()
    return path


def gzip_bomb(path: Path, parts: int = 80) -> Path:
    """An idx file of zeros, 64 MB for each of the parts, in 65 kB each."""
    path.write_bytes(gzip.compress(b"\0" * (1 << 26), 9) * parts)
    return path


def promised_idx(path: Path, megabytes: int) -> Path:
    """The same with a header that promises what is there."""
    path.write_bytes(gzip.compress(struct.pack(">BBBBI", 0, 0, 8, 1, megabytes << 20) + b"\0" * (megabytes << 20), 9))
    return path


def sparse_history(path: Path, rows: int = 40_000) -> Path:
    """A table that has a run and a round of its own in every row: 600 kB, and places for 12 GiB."""
    path.write_text("run,round,loss\n" + "".join(f"{row},{row},1.0\n" for row in range(rows)))
    return path


def npz(members: dict[str, bytes], compressed: bool) -> bytes:
    """An archive of members whatever they hold."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return raw.getvalue()


def npy(shape: tuple[int, ...], data: bytes, kind: str = "<f8") -> bytes:
    """An array whose header says what it likes."""
    raw = io.BytesIO()
    np.lib.format.write_array_header_1_0(raw, {"descr": kind, "fortran_order": False, "shape": shape})
    return raw.getvalue() + data


def database_with_journal(path: Path, victim: Path) -> None:
    """An SQLite file, and beside it a journal that a crash seems to have left, of a change to several databases."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
    connection.commit()
    connection.close()
    magic, name, page = bytes.fromhex("d9d505f920a163d7"), str(victim).encode(), 4096
    head = magic + struct.pack(">5I", 0, 0, path.stat().st_size // page, 512, page)
    end = struct.pack(">I", (1 << 30) // page + 1) + name + struct.pack(">2I", len(name), sum(name)) + magic
    Path(f"{path}-journal").write_bytes(head.ljust(512, b"\0") + end)
