"""Matplotlib figures as files. The package comes with an extra and is imported when something is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpadmm.errors import InputError

FORMATS = (".png", ".svg", ".pdf")


def check_installed(what: str) -> None:
    """Raises an `InputError` where Matplotlib is missing; `what` names the flag or the command that needs it."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise InputError(
            f"{what} needs the package {error.name!r}, which comes with an extra: pip install 'dpadmm[plot]'."
        ) from None


def check(path: Path, flag: str) -> None:
    """Raises an `InputError` where a figure cannot be written: before the work, so that a wrong name does not cost it.

    `flag` is what the user called the file, as in "--draw".
    """
    check_installed(flag)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{flag} {str(path)!r}: the name must end in {', '.join(FORMATS)}.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{flag} {str(path)!r}: there is no folder {str(path.absolute().parent)!r}.")


def empty_figure(size: tuple[float, float] | None = None) -> Any:
    """A figure of this size in inches, without windows or global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def save(figure: Any, path: Path, flag: str, dpi: int = 150) -> None:
    """Writes a figure; the kind of file follows from its name. No version of a program is written into it."""
    metadata = {"Software": None} if path.suffix.lower() == ".png" else {}
    try:
        figure.savefig(path, dpi=dpi, metadata=metadata)
    except OSError as error:
        raise InputError(f"{flag} {str(path)!r} cannot be written: {error.strerror}.") from None
