"""Where agents work, if not in this process as one. By name (`open_executor`):

local                   this process (the default)
dask                    Dask workers on this machine, one for each core; dask:4 for four
dask:tcp://HOST:8786    the workers of that scheduler
"""

from __future__ import annotations

from importlib.util import find_spec

from dpadmm.engine.executor import Executor, InProcessExecutor
from dpadmm.errors import InputError

ENGINES = ("local", "dask", "dask:4", "dask:tcp://HOST:8786")
SCHEMES = ("tcp://", "tls://")


def open_executor(name: str) -> Executor:
    """The executor of this name, which is checked now; workers start, and a scheduler must answer, on entering it.

    Args:
        name: `local`, `dask`, `dask:4` or `dask:tcp://HOST:8786`.

    Returns:
        An executor to enter (`with open_executor("dask:4") as executor`); it takes one cohort after another.

    Raises:
        InputError: There is none of this name, or the packages that it needs are missing.
    """
    kind, _, where = name.partition(":")
    if kind not in ("local", "dask") or (kind == "local" and where):
        raise InputError(f"unknown engine {name!r}; there are: {', '.join(ENGINES)}.")
    if kind == "local":
        return InProcessExecutor()
    _check(name, where)
    from dpadmm.engine.executors.dask.cluster import own_workers, workers_of
    from dpadmm.engine.executors.dask.executor import DaskExecutor

    remote = where.startswith(SCHEMES)
    return DaskExecutor(workers_of(where) if remote else own_workers(int(where) if where else None))


def _check(name: str, where: str) -> None:
    for package in ("dask", "distributed"):
        if find_spec(package) is None:
            raise InputError(
                f"engine {name!r} needs the package {package!r}, which comes with an extra: "
                "pip install 'dpadmm[cluster]'."
            )
    if where.startswith(SCHEMES):
        host, _, port = where.partition("://")[2].rpartition(":")
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise InputError(f"engine {name!r}: {where!r} is no address; a scheduler's is like tcp://HOST:8786.")
    elif (where or name.endswith(":")) and not (where.isascii() and where.isdigit() and 0 < int(where) <= 1000):
        raise InputError(
            f"engine {name!r}: after 'dask:' comes a number of workers on this machine (1 to 1000), or a scheduler's "
            "address such as tcp://HOST:8786."
        )
