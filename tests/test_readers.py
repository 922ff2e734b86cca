"""Every place of the library that opens a file or parses what others wrote is one of the readers with limits, or stands
here with the reason why it needs none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpadmm

ROOT = Path(dpadmm.__file__).parent
READERS = {"_files.py", "_archives.py", "_databases.py", "_tables.py", "_private_files.py"}

# Functions and methods, by the last names of how they are called.
SUSPECTS = {
    *("json.load", "json.loads", "json.JSONDecoder", "tomllib.load", "tomllib.loads", "ast.literal_eval"),
    *("pickle.load", "pickle.loads", "marshal.loads", "eval", "exec", "shelve.open"),
    *("np.load", "np.loadtxt", "np.genfromtxt", "np.fromfile", "np.memmap", "npy.read_magic", "mmap.mmap"),
    *("gzip.open", "gzip.decompress", "zlib.decompress", "lzma.decompress", "lzma.open", "bz2.decompress", "bz2.open"),
    *("zipfile.ZipFile", "ZipFile", "tarfile.open", "gzip.GzipFile"),
    *("sqlite3.connect", "csv.reader", "csv.DictReader", "csv.read_csv", "parquet.ParquetFile", "parquet.read_table"),
    *("open", "os.open", "io.open", "io.FileIO", "urlopen", "parse_adjlist"),
}
METHODS = {"read_text", "read_bytes", "open"}  # of a path
NO_FILES = {"SqliteLedger", "Federation", "Folder", "Agent", "cls", "os", "webbrowser", "_OldLedger", "RunFolder"}

ALLOWED = {
    ("_kernels/compiled.py", "read_bytes"): "the library's own sources",
    ("_kernels/loss_digest.py", "read_bytes"): "sources of a loss whose code this process runs anyway",
    ("_kernels/kernel_cache.py", "read_bytes"): "the user's own cache of compiled code, with a checksum",
    ("_kernels/kernel_cache.py", "pickle.loads"): "likewise; whoever can write there can run code as this user",
    ("datasets/adult.py", "read_bytes"): "ships with the package",
    ("datasets/adult.py", "lzma.decompress"): "ships with the package",
    ("datasets/adult.py", "csv.read_csv"): "ships with the package",
    ("datasets/lines.py", "csv.reader"): "one line, of a file that `_files.opened` has opened",
    ("datasets/folder/parquet.py", "parquet.ParquetFile"): "in blocks: records of a data folder may exceed memory",
    ("datasets/folder/parquet.py", "open"): "a StoredFile, which was checked",
    ("datasets/folder/writing.py", "open"): "writes",
    ("problems/array_files.py", "open"): "in blocks; sizes are checked against the header before anything is read",
    ("problems/array_files.py", "npy.read_magic"): "reads a header, and no objects",
    ("problems/array_files.py", "mmap.mmap"): "maps a file whose size was checked",
    ("engine/executors/dask/actor.py", "read_bytes"): "the library's own sources",
    ("engine/output/status.py", "open"): "writes",
    ("engine/output/status.py", "read_text"): "the kernel's own files in /proc",
    ("federation/server/run_folder.py", "open"): "writes",
    ("report/page.py", "read_text"): "ships with the package",
    ("reproducing/results.py", "csv.reader"): "a text that `_files.read_text` has read",
    ("reproducing/results.py", "csv.DictReader"): "a text that `_files.read_text` has read",
    ("admm/topology/text.py", "parse_adjlist"): "a text that `_files.read_text` has read; it makes edges of lines",
    ("testing/interface.py", "pickle.loads"): "what it has pickled itself, to see whether a part can be",
    ("_private_checks.py", "os.open"): "opens a folder for `_private_files`",
    ("privacy/ledger/hash_chain.py", "os.open"): "makes a new file",
    ("privacy/ledger/record.py", "json.loads"): "a line of the owner's own log, in its private state",
    ("privacy/ledger/recovery.py", "json.loads"): "an event as the same process has just written it",
    ("privacy/ledger/registry.py", "json.loads"): "a text that `_private_files.read_private` has read",
    ("privacy/ledger/registry.py", "os.open"): "makes the registry's lock, in its private folder",
    ("privacy/ledger/restore.py", "os.open"): "makes a new file",
    ("privacy/ledger/migrate.py", "os.open"): "makes a new file",
}


def _called(node: ast.Call) -> str:
    """How a function is called: its name, with that of what it belongs to."""
    target = node.func
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, ast.Attribute):
        owner = target.value
        return f"{owner.id}.{target.attr}" if isinstance(owner, ast.Name) else target.attr
    return ""


def _suspects(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _called(node)
        owner, _, method = name.rpartition(".")
        if name in SUSPECTS:
            yield name
        elif method in METHODS and owner not in NO_FILES and (owner or isinstance(node.func, ast.Attribute)):
            yield method
    for node in ast.walk(tree):  # a function that is handed on is called elsewhere
        if isinstance(node, ast.ImportFrom) and node.module in ("json", "tomllib", "pickle", "sqlite3", "gzip", "zlib"):
            yield f"from {node.module} import"


def _found() -> set[tuple[str, str]]:
    files = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).as_posix() not in READERS]
    return {
        (path.relative_to(ROOT).as_posix(), name)
        for path in files
        for name in _suspects(ast.parse(path.read_text(encoding="utf-8")))
    }


def test_every_place_that_opens_a_file_is_a_reader_with_limits_or_has_a_reason() -> None:
    found = _found()
    assert found - ALLOWED.keys() == set(), "use _files, _archives, _tables or _databases, or say why not"
    assert ALLOWED.keys() - found == set(), "these are gone"


@pytest.mark.parametrize(
    "line",
    [
        "json.loads(text)",
        "open(name)",
        "Path(name).read_text()",
        "(folder / 'x').open('rb')",
        "path.read_bytes()",
        "sqlite3.connect(path)",
        "np.load(path)",
        "tomllib.loads(text)",
        "gzip.decompress(raw)",
        "csv.reader(file)",
        "from json import loads",
    ],
)
def test_a_new_place_would_be_noticed(line: str) -> None:
    assert list(_suspects(ast.parse(line)))
