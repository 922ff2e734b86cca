"""Where a run stands, on disk, so that an interrupted one goes on exactly where it was: one format for all runs.

A simulation and a coordinator write the same file: the state that they share, what each holds beside it, and the
history so far. Noise is keyed by round, not by how many numbers were drawn before, so a resumed run equals the
uninterrupted one bit for bit. A simulation's file holds solver memory, and must stay where its records are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from dpadmm._archives import read_arrays
from dpadmm._files import atomic_open
from dpadmm.admm.state import State
from dpadmm.engine.output.history import History
from dpadmm.errors import InputError

_HISTORY = "history."
_SERIES = 2  # counts the changes of what a seed comes to; files of 0.1.0 do not say theirs, which was 1

Whole = TypeVar("Whole")


class Saved(Protocol):
    """A state that can be written: the shared one, and arrays of what is held beside it."""

    @property
    def shared(self) -> State: ...

    def to_arrays(self) -> dict[str, Any]: ...


def save(path: Path, digest: str, state: Saved, history: History, durable: bool = True) -> None:
    """Writes a checkpoint; a crash leaves the last good one.

    Args:
        path: The file.
        digest: Names the spec or the terms that the run is by.
        state: Where the run stands.
        history: What was measured so far.
        durable: Waits for the disk. Where a lost checkpoint costs nothing, nobody has to wait.
    """
    arrays = {"digest": np.array(digest), "series": np.array(_SERIES), **state.shared.to_arrays(), **state.to_arrays()}
    arrays |= {f"{_HISTORY}{name}": values for name, values in history.to_arrays().items()}
    with atomic_open(path, durable=durable) as file:
        np.savez(file, allow_pickle=False, **arrays)


def load(path: Path, digest: str, assemble: Callable[[State, Mapping[str, Any]], Whole]) -> tuple[Whole, History]:
    """The state and history of a checkpoint that was made by the same spec.

    Args:
        path: The file.
        digest: Names the spec or the terms that the run is by.
        assemble: Makes the whole state of the shared one and the arrays of the file: `SimulationState.from_arrays` or
            `CoordinatorState.from_arrays`.

    Returns:
        The whole state, and what was measured so far.

    Raises:
        InputError: The file cannot be read, lacks something, belongs to another run, or was made with a version whose
            numbers were others; says what to do.
    """
    arrays = _opened(path)
    if str(arrays["digest"]) != digest:
        raise InputError(
            f"checkpoint {str(path)!r} belongs to another spec: it is of a run on other terms; resume with the spec "
            "it was made by."
        )
    history = {name.removeprefix(_HISTORY): each for name, each in arrays.items() if name.startswith(_HISTORY)}
    try:
        return assemble(State.from_arrays(arrays), arrays), History.from_arrays(history)
    except KeyError as error:
        raise InputError(f"checkpoint {str(path)!r} lacks {error}; start the run again.") from None
    except (TypeError, ValueError) as error:
        raise InputError(f"checkpoint {str(path)!r} cannot be read ({error}); start the run again.") from None


def refuse_earlier(folder: Path) -> None:
    """Raises an `InputError` if a run's checkpoint cannot be read, or was made with a version of other numbers."""
    for path in sorted(folder.glob("checkpoint*.npz")):
        _opened(path)


def _opened(path: Path) -> dict[str, Any]:
    """The arrays of a file of today's numbers."""
    try:
        arrays: dict[str, Any] = read_arrays(path)
        _, series = arrays["digest"], int(arrays.get("series", 1))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InputError(f"checkpoint {str(path)!r} cannot be read ({error}); start the run again.") from None
    if series != _SERIES:
        made = "0.1.0" if series < _SERIES else "a later version"
        raise InputError(
            f"checkpoint {str(path)!r} was made with {made}; noise and sums have changed, so that the run cannot go on "
            f"as it was. Start it anew, in another folder."
        )
    return arrays
