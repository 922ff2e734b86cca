"""A package of somebody's own parts, in a folder that Python can import from: a fixture for several rooms."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FILES = {
    "__init__.py": "",
    "losses.py": '''
from dataclasses import dataclass
from functools import cached_property

from dpadmm.problems.losses import Logistic, SmoothedHinge


@dataclass(frozen=True)
class MyLoss(SmoothedHinge):
    name = "my-loss"

    @cached_property
    def doubled(self):
        return 2.0 * self.width


class Plain(Logistic):
    """No data class of its own, and no numbers."""

    name = "plain"


class Kept(Logistic):
    """Keeps a number that no field declares."""

    name = "kept"

    def __init__(self, number=1.0):
        object.__setattr__(self, "number", number)


NARROW = MyLoss(0.25)
KEPT = Kept(2.0)
''',
    "recipes.py": """
from dataclasses import replace

from dpadmm import ALGORITHMS
from dpadmm.admm.schedules import Fixed

MINE = replace(ALGORITHMS["dp-admm"], name="mine", schedule=Fixed(0.3))
ON_GRAPH = replace(ALGORITHMS["private-mr-admm"], name="on-graph")
BY_RECORD = replace(MINE, name="by-record", weighting="records")
WITH_LOSS = replace(MINE, name="with-loss", base_loss="somebody.losses:MyLoss:0.25")
PLAIN = replace(ALGORITHMS["admm"], name="plain")
""",
    "others.py": """
from dataclasses import dataclass

from dpadmm.admm.rho import ConstantRho
from dpadmm.admm.schedules import Fixed
from dpadmm.problems.penalties import L2
from dpadmm.problems.sets import Box


@dataclass(frozen=True)
class MySchedule(Fixed):
    name = "my-schedule"


@dataclass(frozen=True)
class MyRho(ConstantRho):
    name = "my-rho"


@dataclass(frozen=True)
class MyPenalty(L2):
    name = "my-penalty"


@dataclass(frozen=True)
class MySet(Box):
    name = "my-set"
""",
}


@pytest.fixture
def somebody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The package `somebody`, on the path of this process and of those that it starts, with its modules imported."""
    folder = tmp_path / "installed"
    for name, content in FILES.items():
        path = folder / "somebody" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    for name in ("losses", "recipes", "others"):
        importlib.import_module(f"somebody.{name}")
    yield sys.modules["somebody"]
    forget()


def forget() -> None:
    """As if nobody had imported the package yet."""
    for name in [name for name in sys.modules if name.split(".")[0] == "somebody"]:
        del sys.modules[name]
