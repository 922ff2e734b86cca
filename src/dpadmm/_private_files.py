"""Files that only one user may read and nobody else may have put there: an owner's keys, settings and approvals.

Every opening checks what it opened, not what lay at the path a moment before: the last folder and the file are opened
without following links, and their owner, mode and kind are read from what was opened. A folder that passes is ours and
closed to others, so nobody else can change what lies in it between a check and a use.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from dpadmm._private_checks import CLOSED
from dpadmm._private_checks import check_file as _check_file
from dpadmm._private_checks import contents as _contents
from dpadmm._private_checks import make_folder as _make
from dpadmm._private_checks import opened_folder as _opened_folder
from dpadmm._private_checks import others_write as _others_write
from dpadmm.errors import InputError

LARGEST = 1 << 20  # bytes of a file, unless told otherwise
_FILE = CLOSED | getattr(os, "O_NONBLOCK", 0)  # a named pipe must not keep us waiting


def state_folder() -> Path:
    """Where dpadmm keeps what belongs to this user: `DPADMM_STATE`, or the platform's folder for state."""
    told = os.environ.get("DPADMM_STATE")
    if told:
        return Path(told).absolute()
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return (Path(home) / "dpadmm").absolute()


def private_folder(path: Path) -> Path:
    """A folder that only this user can use: made where there is none, with its parents, or checked.

    Args:
        path: The folder. Parents that exist are left as they are, but one that others may write to is refused.

    Returns:
        The same path.

    Raises:
        InputError: Something else lies there, or others have rights to it; the message says what to do.
    """
    for parent in reversed(path.parents):
        try:
            found = parent.stat()
        except FileNotFoundError:
            _make(parent)
            continue
        except OSError as error:
            raise InputError(f"folder {str(parent)!r} cannot be used: {error.strerror}.") from None
        if found.st_uid not in (os.geteuid(), 0):
            raise InputError(f"another user can replace what lies in {str(parent)!r}; use a folder of your own.")
        if _others_write(found) and not found.st_mode & stat.S_ISVTX:
            raise InputError(f"others can replace what lies in {str(parent)!r}: 'chmod go-w {parent}', or use another.")
    if not os.path.lexists(path):
        _make(path)
    os.close(_opened_folder(path))
    return path


@contextmanager
def _inside(path: Path) -> Iterator[int]:
    """The folder of a file, opened and checked."""
    folder = _opened_folder(path.parent)
    try:
        yield folder
    finally:
        os.close(folder)


def read_private(path: Path, limit: int = LARGEST) -> bytes:
    """What a private file in a private folder holds.

    Args:
        path: The file.
        limit: The most bytes that it may have.

    Returns:
        Its bytes.

    Raises:
        FileNotFoundError: There is none.
        InputError: It is a link, no file, too long, not ours, or open to others; or its folder is.
    """
    with _inside(path) as folder:
        file = _open(path, os.O_RDONLY, folder)
        try:
            _check_file(file, path)
            return _contents(file, path, limit)
        finally:
            os.close(file)


def check_folder(path: Path, what: str) -> None:
    """Checks the folder of a file beside which another library makes files by names that everybody knows.

    Args:
        path: The file, which need not be there.
        what: Its role in messages, as in "ledger".

    Raises:
        InputError: Others can make files in the folder, also where they cannot remove those of others (as in /tmp).
    """
    folder = Path(os.path.realpath(path)).parent
    try:
        found = folder.stat()
    except OSError as error:
        raise InputError(f"folder {str(folder)!r} cannot be used: {error.strerror}.") from None
    if found.st_uid not in (os.geteuid(), 0) or _others_write(found):
        raise InputError(
            f"others can put files beside the {what} {str(path)!r}, and read what is written to them: move it to a "
            f"folder that only you can write to."
        )


def check_private(path: Path) -> None:
    """Checks a file that another library opens by its name, such as a ledger; for its folder there is `check_folder`.

    Args:
        path: The file, which exists.

    Raises:
        InputError: It is a link, no file, not ours, or open to others.
    """
    try:
        file = os.open(path, os.O_RDONLY | _FILE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{str(path)!r} is a link; remove it.") from None
        raise InputError(f"file {str(path)!r} cannot be opened: {error.strerror}.") from None
    try:
        _check_file(file, path)
    finally:
        os.close(file)


def read_own(path: Path, limit: int = LARGEST) -> bytes:
    """What a file holds that others may read but not change, such as a policy.

    Args:
        path: The file, in any folder.
        limit: The most bytes that it may have.

    Returns:
        Its bytes.

    Raises:
        InputError: It cannot be read, is too long, belongs to another user (root excepted), or others can write to it.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(f"file {str(path)!r} cannot be read: {error.strerror}.") from None
    try:
        _check_file(file, path, private=False)
        return _contents(file, path, limit)
    finally:
        os.close(file)


def _open(path: Path, flags: int, folder: int) -> int:
    try:
        return os.open(path.name, flags | _FILE, 0o600, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{str(path)!r} is a link; remove it.") from None
        if error.errno in (errno.ENOENT, errno.EEXIST):
            raise
        raise InputError(f"file {str(path)!r} cannot be opened: {error.strerror}.") from None


def write_private(path: Path, data: bytes | str, *, new: bool = False) -> None:
    """Writes a whole private file into a private folder; it is on disk when this returns.

    Args:
        path: The file.
        data: Its contents; text is written in UTF-8.
        new: Whether a file that is there already stays, and is an error.

    Raises:
        FileExistsError: With `new`, there is one.
        InputError: The folder is not ours alone, or cannot be written to.
    """
    content = data.encode() if isinstance(data, str) else data
    beside = f".{path.name}.{secrets.token_hex(8)}.partial"
    with _inside(path) as folder:
        file = _open(path.with_name(beside), os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder)
        try:
            try:
                os.fchmod(file, 0o600)
                _write_all(file, content)
                os.fsync(file)
            finally:
                os.close(file)
            if new:
                _check_free(path, folder)
            os.rename(beside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(beside, dir_fd=folder)
            if isinstance(error, OSError) and not isinstance(error, FileExistsError):
                raise InputError(f"file {str(path)!r} cannot be written: {error.strerror}.") from None
            raise
        os.fsync(folder)


def _check_free(path: Path, folder: int) -> None:
    """Raises where something has this name. Nobody but this user can give it one before the next step."""
    with suppress(FileNotFoundError):
        os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _write_all(file: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]


def opened_private(path: Path) -> AbstractContextManager[int]:
    """A private file that is there, opened to be read and written in place.

    Args:
        path: The file, in a private folder.

    Returns:
        A context whose value is the file's descriptor, and which closes it.

    Raises:
        FileNotFoundError: There is none.
        InputError: It is a link, no file, not ours, or open to others; or its folder is.
    """
    with _inside(path) as folder:
        file = _open(path, os.O_RDWR, folder)
    try:
        _check_file(file, path)
    except BaseException:
        os.close(file)
        raise
    return _open_until_end(file)


@contextmanager
def _open_until_end(file: int) -> Iterator[int]:
    try:
        yield file
    finally:
        os.close(file)


def append_private(path: Path, data: bytes, limit: int) -> bool:
    """Adds to a private file, which is made if there is none.

    Args:
        path: The file.
        data: What to add.
        limit: The most bytes that the file may have before.

    Returns:
        Whether it was added; the file may have grown beyond the limit.

    Raises:
        InputError: The file or its folder is not ours alone.
    """
    with _inside(path) as folder:
        file = _open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, folder)
        try:
            if _check_file(file, path).st_size > limit:
                return False
            _write_all(file, data)
            return True
        finally:
            os.close(file)


def move_private(path: Path, target: Path) -> None:
    """Moves a private file into another private folder of the same disk; it is on disk when this returns.

    Args:
        path: The file.
        target: Its new place, where no file may be yet.

    Raises:
        FileNotFoundError: There is no such file.
        FileExistsError: There is one at its new place.
        InputError: A folder is not ours alone.
    """
    with _inside(path) as origin, _inside(target) as folder:
        file = _open(path, os.O_RDONLY, origin)
        os.close(file)
        _check_free(target, folder)
        os.rename(path.name, target.name, src_dir_fd=origin, dst_dir_fd=folder)
        os.fsync(folder)
        os.fsync(origin)


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Holds a lock, which ends with this process at the latest.

    Args:
        path: The lock's file, in a private folder.

    Yields:
        Whether nobody else holds it.
    """
    import fcntl

    with _inside(path) as folder:
        file = _open(path, os.O_RDWR | os.O_CREAT, folder)
    try:
        _check_file(file, path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(file)
