"""A run for the coordinator: everything that can be checked is checked, its folder is written, and its status watched.

The coordinator's process finds the folder (`service`). So the run goes on when whoever submitted it looks away, and may
be submitted before that process runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpadmm.errors import ClusterError, InputError, unknown
from dpadmm.federation.server.federation import Federation
from dpadmm.federation.server.run_folder import OVER, RunFolder
from dpadmm.federation.server.service import NOTE, presence
from dpadmm.owner.request import is_name
from dpadmm.spec import auto, resolve
from dpadmm.spec.declare import AUTO, Experiment, RunSpec
from dpadmm.spec.part import refuse_own_parts

_LOOK = 0.25  # seconds between looks at the status


def submit(federation: Federation, experiment: Experiment, name: str, base: Path) -> RunFolder:
    """Writes a run's folder, or takes up one by the same spec that was refused or has failed.

    Args:
        federation: Whose owners are asked.
        experiment: What is run.
        name: The run's name.
        base: The folder that relative paths in the spec start from.

    Returns:
        The run's folder.

    Raises:
        InputError: The run cannot be, or another one has that name.
    """
    if not is_name(name) or "/" in name or name.startswith("."):
        raise InputError(f"run name {name!r}: at most 100 letters, without '/', and not beginning with a dot.")
    _check_parts(experiment.run)
    known = tuple(federation.pins())
    owners = experiment.federation.owners or known
    if not owners:
        raise InputError(f"nobody takes part yet; add owners with 'dpadmm federation add {federation.folder} CARD'.")
    for owner in owners:
        if owner not in known:
            raise unknown("owner", owner, known)
    experiment = experiment.changed(owners=list(owners))
    if experiment.federation.public_test is not None:
        path = (base / experiment.federation.public_test).absolute()
        if not path.is_file():
            raise InputError(f"public_test: there is no file {str(path)!r}.")
        experiment = experiment.changed(public_test=str(path))
    folder = RunFolder.create(federation.runs / name, experiment, federation.schema)
    status = folder.status()
    if folder.finished and status["state"] == "finished":
        raise InputError(f"run {name!r} is finished, see {str(folder.path)!r}; choose another --name.")
    if status["state"] in OVER:
        folder.tell("submitted", round=status.get("round"), rounds=status.get("rounds"))
    return folder


def follow(
    federation: Federation, folder: RunFolder, tell: Callable[[dict[str, Any]], None], limit: float
) -> dict[str, Any]:
    """Watches a run until it is over.

    Args:
        federation: Where it runs.
        folder: The run's folder.
        tell: Told the status whenever it changes.
        limit: Gives up after so many seconds in which nothing moves; the run stays where it is.

    Returns:
        The last status.

    Raises:
        ClusterError: Nothing has moved for too long.
    """
    seen: dict[str, Any] | None = None
    mark, since = _mark({}, (0, None)), time.monotonic()
    while True:
        status = folder.status()
        if status["state"] in OVER and (status["state"] != "finished" or folder.finished):
            tell(status)
            return status
        if presence(federation.folder / NOTE) is None:
            nobody = f"no coordinator runs here; start one with 'dpadmm coordinator start {federation.folder}'"
            status = {**status, "message": nobody}
        if status != seen:
            seen = status
            tell(status)
        if _mark(status, mark) != mark:
            mark, since = _mark(status, mark), time.monotonic()
        if time.monotonic() - since > limit:
            why = status.get("message") or f"the run is {status['state']}"
            raise ClusterError(f"nothing has moved for {limit:g} s: {why}. The run goes on when it can.")
        time.sleep(_LOOK)


def _mark(status: dict[str, Any], before: tuple[int, Any]) -> tuple[int, Any]:
    """What counts as progress: a further round, and an owner's decision; jobs that begin and end do not."""
    return max(status.get("round") or 0, before[0]), status.get("waiting") or before[1]


def _check_parts(run: RunSpec) -> None:
    """Refuses what no owner could make a recipe and a problem of: names that nobody has, and parts of one's own."""
    refuse_own_parts(run, "the terms of a federation")
    if run.algorithm == AUTO:
        auto.check(run)
    else:
        resolve.resolved(run)
