"""What was opened is checked: whose it is, what it is, and who else has rights to it (`_private_files`)."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from dpadmm.errors import InputError

CLOSED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)  # where there are none, nothing here is called
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | CLOSED


def make_folder(path: Path) -> None:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return  # somebody was faster; what lies there is checked
    except OSError as error:
        raise InputError(f"folder {str(path)!r} cannot be made: {error.strerror}.") from None


def opened_folder(path: Path) -> int:
    """A descriptor of a folder that is ours alone."""
    try:
        folder = os.open(path, _FOLDER)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise InputError(f"{str(path)!r} must be a folder, and is a link or a file; remove it.") from None
        raise InputError(f"folder {str(path)!r} cannot be opened: {error.strerror}.") from None
    found = os.fstat(folder)
    wrong = None
    if found.st_uid != os.geteuid():
        wrong = f"folder {str(path)!r} belongs to another user; use one of your own."
    elif stat.S_IMODE(found.st_mode) & 0o077:
        wrong = f"others have rights to the folder {str(path)!r}: 'chmod 700 {path}'."
    if wrong is not None:
        os.close(folder)
        raise InputError(wrong)
    return folder


def check_file(file: int, path: Path, private: bool = True) -> os.stat_result:
    found = os.fstat(file)
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{str(path)!r} is not a file; remove it.")
    if found.st_uid != os.geteuid() and (private or found.st_uid != 0):
        raise InputError(f"file {str(path)!r} belongs to another user; make one of your own.")
    if private and mode & 0o077:
        raise InputError(f"others have rights to the file {str(path)!r}: 'chmod 600 {path}'.")
    if others_write(found):
        raise InputError(f"others can write to the file {str(path)!r}: 'chmod go-w {path}'.")
    if private and found.st_nlink != 1:
        raise InputError(f"file {str(path)!r} has a second name (a hard link); remove both and make it again.")
    return found


def others_write(found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_IWOTH) or bool(found.st_mode & stat.S_IWGRP and not _only_member(found.st_gid))


def _only_member(group: int) -> bool:
    """Whether a group is this user's own, which many systems give files to."""
    import grp
    import pwd

    try:
        mine, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return mine.pw_gid == group and found.gr_name == mine.pw_name and set(found.gr_mem) <= {mine.pw_name}


def contents(file: int, path: Path, limit: int) -> bytes:
    parts, length = [], 0
    while part := os.read(file, min(limit + 1, 1 << 20)):
        parts.append(part)
        length += len(part)
        if length > limit:
            raise InputError(f"file {str(path)!r} is longer than {limit:,} bytes, and so is not what it should be.")
    return b"".join(parts)
