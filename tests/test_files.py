"""Files appear whole or not at all, and what cannot be read says which file it was."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dpadmm._files import atomic_open, atomic_write, csv_text, read_json, read_text, read_toml, write_json
from dpadmm.errors import InputError


def test_write_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    atomic_write(path, "a long first text")
    atomic_write(path, "short", durable=True)
    assert path.read_text() == "short"
    assert list(tmp_path.iterdir()) == [path]


def test_text_is_written_byte_for_byte(tmp_path: Path) -> None:
    atomic_write(tmp_path / "rows.csv", "a,b\r\n1,ü\r\n")
    assert (tmp_path / "rows.csv").read_bytes() == "a,b\r\n1,ü\r\n".encode()


def test_failure_keeps_the_old_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("old")

    def fail() -> None:
        with atomic_open(path) as file:
            file.write(b"half of the new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_visible_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    with atomic_open(path) as file:
        file.write(b"half")
        assert not path.exists()
    assert path.read_bytes() == b"half"


def test_json_comes_back(tmp_path: Path) -> None:
    write_json(tmp_path / "facts.json", {"rounds": 3})
    assert read_json(tmp_path / "facts.json", "facts") == {"rounds": 3}


def test_nobody_reads_half_a_json_file(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    write_json(path, [1, 2])
    assert json.loads(path.read_text()) == [1, 2]
    assert [found.name for found in tmp_path.iterdir()] == ["value.json"]


def test_rows_become_csv() -> None:
    assert csv_text([["a", "b"], [1, "x,y"]]) == 'a,b\r\n1,"x,y"\r\n'
    assert csv_text([["ü", 0.1]], end="\n") == "ü,0.1\n"


@pytest.mark.parametrize("read", [read_text, read_json, read_toml])
def test_missing_file_is_named(tmp_path: Path, read) -> None:
    with pytest.raises(InputError, match=r"^policy '.*absent.toml' cannot be read: No such file"):
        read(tmp_path / "absent.toml", "policy")


@pytest.mark.parametrize(("read", "kind"), [(read_json, "JSON"), (read_toml, "TOML")])
def test_malformed_file_is_named(tmp_path: Path, read, kind: str) -> None:
    path = tmp_path / "broken"
    path.write_text("= {")
    with pytest.raises(InputError, match=rf"policy '.*broken' is not {kind}: "):
        read(path, "policy")


@pytest.mark.parametrize(("read", "kind", "start"), [(read_json, "JSON", ""), (read_toml, "TOML", "x = ")])
def test_too_deeply_nested_file_is_named(tmp_path: Path, read, kind: str, start: str) -> None:
    path = tmp_path / "deep"
    path.write_text(start + "[" * 100_000)
    with pytest.raises(InputError, match=rf"policy '.*deep' is not {kind}: "):
        read(path, "policy")


def test_binary_file_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not TOML: it is not text in UTF-8"):
        read_toml(tmp_path / "noise", "policy")


def test_nobody_can_know_the_name_that_a_file_has_before_its_end(tmp_path: Path) -> None:
    """In a folder of several users, a link by that name would lead to another file, which would be lost."""
    path, victim = tmp_path / "card.json", tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".{path.name}.{os.getpid()}.partial").symlink_to(victim)
    names = set()
    for _ in range(2):
        with atomic_open(path) as file:
            names.add(Path(file.name))
            file.write(b"card")
    assert (victim.read_text(), path.read_bytes(), len(names)) == ("mine", b"card", 2)
