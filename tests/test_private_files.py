"""Private files: what is opened is ours alone, whoever has put what into its place."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from other_user import NOBODY, as_nobody, needs_root, reachable_folder

from dpadmm._private_files import (
    append_private,
    locked,
    move_private,
    private_folder,
    read_own,
    read_private,
    state_folder,
    write_private,
)
from dpadmm.errors import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return private_folder(tmp_path / "state" / "agents")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folder_and_the_parents_it_makes_are_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = private_folder(tmp_path / "a" / "b" / "c")
        write_private(made / "key", b"x")
        append_private(made / "log", b"line\n", 100)
    finally:
        os.umask(before)
    assert [mode(path) for path in (made, made.parent, made.parent.parent)] == [0o700] * 3
    assert (mode(made / "key"), mode(made / "log")) == (0o600, 0o600)


def test_folder_that_is_there_is_checked_and_not_changed(folder: Path) -> None:
    folder.chmod(0o750)
    for call in (
        lambda: private_folder(folder),
        lambda: write_private(folder / "key", b"x"),
        lambda: read_private(folder / "key"),
    ):
        with pytest.raises(InputError, match=f"others have rights to the folder .*'chmod 700 {folder}'"):
            call()
    assert mode(folder) == 0o750
    assert not any(folder.iterdir())


@pytest.mark.parametrize("kind", ["link", "file"])
def test_folder_that_is_a_link_or_a_file_is_refused(tmp_path: Path, kind: str) -> None:
    elsewhere = private_folder(tmp_path / "elsewhere")
    write_private(elsewhere / "key", b"x")
    place = tmp_path / "place"
    place.symlink_to(elsewhere) if kind == "link" else place.touch()
    with pytest.raises(InputError, match="must be a folder"):
        private_folder(place)
    with pytest.raises(InputError, match="must be a folder"):
        read_private(place / "key")


def test_folder_below_one_that_everybody_can_write_to_is_refused(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    shared = _shared_group()
    if shared is not None:
        os.chown(open_to_all, -1, shared)
    for rights in (0o777, 0o707, *([0o775] if shared is not None else [])):
        open_to_all.chmod(rights)
        with pytest.raises(InputError, match=f"others can replace .* 'chmod go-w {open_to_all}'"):
            private_folder(open_to_all / "state")
    open_to_all.chmod(0o1777)  # as /tmp is
    private_folder(open_to_all / "state")


def _shared_group() -> int | None:
    """A group that is not this user's own, if there is one."""
    mine = os.getegid()
    return next((group for group in os.getgroups() if group != mine), NOBODY if os.geteuid() == 0 else None)


def test_what_is_written_is_read_again(folder: Path) -> None:
    write_private(folder / "key", b"one")
    write_private(folder / "key", "zwölf")
    assert read_private(folder / "key").decode() == "zwölf"
    assert [path.name for path in folder.iterdir()] == ["key"]


def test_new_file_never_replaces_one(folder: Path) -> None:
    write_private(folder / "key", b"one", new=True)
    with pytest.raises(FileExistsError):
        write_private(folder / "key", b"two", new=True)
    assert read_private(folder / "key") == b"one"
    assert [path.name for path in folder.iterdir()] == ["key"]


@pytest.mark.parametrize("rights", [0o640, 0o604, 0o660, 0o666, 0o601])
def test_file_that_others_have_rights_to_is_refused_with_the_remedy(folder: Path, rights: int) -> None:
    path = folder / "key"
    write_private(path, b"x")
    path.chmod(rights)
    for call in (lambda: read_private(path), lambda: append_private(path, b"y", 100)):
        with pytest.raises(InputError, match=f"others have rights to the file .*'chmod 600 {path}'"):
            call()
    assert path.read_bytes() == b"x"


def test_links_are_neither_read_nor_appended_to(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / ".bashrc"
    victim.write_text("mine")
    victim.chmod(0o600)
    (folder / "log").symlink_to(victim)
    for call in (lambda: read_private(folder / "log"), lambda: append_private(folder / "log", b"y", 100)):
        with pytest.raises(InputError, match="is a link"):
            call()
    write_private(folder / "log", b"x")  # replaces the link itself
    assert victim.read_text() == "mine"
    assert not (folder / "log").is_symlink()


def test_file_with_a_second_name_is_refused(folder: Path, tmp_path: Path) -> None:
    write_private(folder / "key", b"x")
    os.link(folder / "key", tmp_path / "other")
    with pytest.raises(InputError, match="hard link"):
        read_private(folder / "key")


def test_pipes_and_folders_are_no_files(folder: Path) -> None:
    os.mkfifo(folder / "pipe", 0o600)
    (folder / "sub").mkdir(mode=0o700)
    with pytest.raises(InputError, match="is not a file"):
        read_private(folder / "pipe")
    with pytest.raises(InputError, match=r"cannot be opened|is not a file"):
        append_private(folder / "pipe", b"x", 100)
    with pytest.raises(InputError, match="is not a file"):
        read_private(folder / "sub")


def test_long_files_are_not_read_to_the_end(folder: Path) -> None:
    write_private(folder / "key", b"x" * 101)
    with pytest.raises(InputError, match="longer than 100 bytes"):
        read_private(folder / "key", limit=100)
    assert len(read_private(folder / "key", limit=101)) == 101
    assert not append_private(folder / "key", b"y", limit=100)
    assert append_private(folder / "key", b"y", limit=101)


def test_missing_files_are_told_from_bad_ones(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_private(folder / "key")
    with pytest.raises(InputError, match="cannot be opened"):
        read_private(folder / "nowhere" / "key")


def test_move_replaces_nothing(folder: Path) -> None:
    used = private_folder(folder / "used")
    write_private(folder / "word", b"x")
    move_private(folder / "word", used / "word")
    assert read_private(used / "word") == b"x"
    with pytest.raises(FileNotFoundError):
        move_private(folder / "word", used / "word")
    write_private(folder / "word", b"again")
    with pytest.raises(FileExistsError):
        move_private(folder / "word", used / "word")
    assert read_private(used / "word") == b"x"


def test_lock_is_held_once_and_ends_with_its_process(folder: Path) -> None:
    with locked(folder / "lock") as mine, locked(folder / "lock") as second:
        assert (mine, second) == (True, False)
    holder = (
        f"from pathlib import Path; from dpadmm._private_files import locked; import os\n"
        f"lock = locked(Path({str(folder / 'lock')!r})); assert lock.__enter__(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", holder], check=False).returncode == -9
    with locked(folder / "lock") as mine:
        assert mine


def test_own_file_may_be_read_by_others_but_not_written(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("epsilon = 1\n")
    path.chmod(0o644)
    assert read_own(path) == b"epsilon = 1\n"
    (tmp_path / "link").symlink_to(path)
    assert read_own(tmp_path / "link") == b"epsilon = 1\n"  # configuration is often linked; what it leads to is checked
    path.chmod(0o646)
    with pytest.raises(InputError, match=f"others can write .*'chmod go-w {path}'"):
        read_own(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_own(tmp_path / "none")


def test_state_folder_is_the_users_choice_or_the_platforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("DPADMM_STATE", raising=False)
    assert state_folder() == tmp_path / "xdg" / "dpadmm"
    monkeypatch.setenv("DPADMM_STATE", str(tmp_path / "mine"))
    assert state_folder() == tmp_path / "mine"


# -- another user ------------------------------------------------------------------------------------------------------


@needs_root
def test_another_user_can_neither_read_nor_write() -> None:
    with reachable_folder() as home:
        folder = private_folder(home / "state")
        write_private(folder / "key", b"secret")
        assert as_nobody(lambda: home.stat().st_mode & 0o777) == str(0o711)
        for call in (
            lambda: (folder / "key").read_bytes(),
            lambda: (folder / "new").write_bytes(b""),
            lambda: list(folder.iterdir()),
        ):
            assert as_nobody(call) == "PermissionError"


@needs_root
def test_what_another_user_has_put_there_is_refused(folder: Path, tmp_path: Path) -> None:
    write_private(folder / "word", b"yes")
    os.chown(folder / "word", NOBODY, NOBODY)
    with pytest.raises(InputError, match="belongs to another user"):
        read_private(folder / "word")
    theirs = private_folder(tmp_path / "theirs")
    os.chown(theirs, NOBODY, NOBODY)
    with pytest.raises(InputError, match="belongs to another user"):
        private_folder(theirs)
    parent = tmp_path / "parent"
    parent.mkdir()
    os.chown(parent, NOBODY, NOBODY)
    with pytest.raises(InputError, match="another user can replace"):
        private_folder(parent / "state")
    policy = tmp_path / "policy.toml"
    policy.write_text("epsilon = 9\n")
    os.chown(policy, NOBODY, NOBODY)
    with pytest.raises(InputError, match="belongs to another user"):
        read_own(policy)
