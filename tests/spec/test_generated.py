"""What `make generate` writes is what the declarations say now, and an option of a part is one edit."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from dpadmm._fields import names, option
from dpadmm.admm.algorithm import Algorithm
from dpadmm.admm.schedules import Fixed
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.spec._part_options import PartOptions
from dpadmm.spec.declare import TABLES, Experiment, RunSpec
from dpadmm.spec.resolve import recipe
from dpadmm.spec.toml import dumps
from dpadmm.spec.train_options import TrainOptions

ROOT = Path(__file__).parents[2]


def _generator() -> Any:
    spec = util.spec_from_file_location("generate", ROOT / "tools" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = _generator()
FILES = GENERATOR.generated()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_generated_files_are_fresh(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == FILES[path], f"{path.name} is stale: run `make generate`"


@dataclass(frozen=True)
class Dummy:
    """A solver with an option that no other part has."""

    wobble: float = option(0.5, help="How much it wobbles.", panel="Algorithm", flag="--wobbling")


def test_an_option_of_a_new_solver_is_one_edit() -> None:
    changed = {path.name: text for path, text in GENERATOR.generated((*GENERATOR.PARTS, Dummy)).items()}
    before = {path.name: text for path, text in FILES.items()}
    for name, said in {
        "_part_options.py": [
            "    wobble: float | None = option(",
            "        None,",
            '        help="How much it wobbles.",',
            '        panel="Algorithm",',
            '        flag="--wobbling",',
            '        shown="0.5",',
            "    )",
        ],
        "train_options.py": ["    wobble: float | None", '    """How much it wobbles."""'],
        "options.md": ["| `wobble` | `--wobbling` | `float` | 0.5 | How much it wobbles. |"],
    }.items():
        assert "\n".join(said) + "\n" in changed[name]
        assert "wobble" not in before[name]
        assert len(changed[name].splitlines()) - len(before[name].splitlines()) in (len(said), len(said) + 1)


def test_a_long_help_is_written_in_several_lines() -> None:
    @dataclass(frozen=True)
    class Long:
        wobble: float = option(0.5, help="word " * 40 + "end.", panel="Algorithm")

    texts = GENERATOR.generated((Long,))
    for path, text in texts.items():
        if path.suffix == ".py":
            assert max(map(len, text.splitlines())) <= 120
    module: dict[str, Any] = {"__name__": PartOptions.__module__}
    exec(compile(texts[ROOT / "src/dpadmm/spec/_part_options.py"], "made", "exec"), module)
    field = module["PartOptions"].__dataclass_fields__["wobble"]
    assert field.metadata["help"] == "word " * 40 + "end."


def test_two_declarations_of_one_option_are_refused() -> None:
    @dataclass(frozen=True)
    class Other:
        wobble: float = option(0.5, help="Something else.", panel="Algorithm")

    with pytest.raises(ValueError, match=r"Other\.wobble: another part declares this option differently"):
        GENERATOR.part_options((Dummy, Other))


def test_one_name_has_one_type() -> None:
    @dataclass(frozen=True)
    class Other:
        wobble: str = "much"

    with pytest.raises(ValueError, match=r"Other\.wobble: is str here, and float in Dummy"):
        GENERATOR.part_options((Dummy, Other))


@pytest.mark.parametrize(("name", "table"), [("rounds", "run"), ("seed", "simulation")])
def test_an_option_of_a_part_with_the_name_of_a_field_is_refused(name: str, table: str) -> None:
    part = dataclass(
        type("Other", (), {"__annotations__": {name: "int"}, name: option(1, help="Another one.", panel="Algorithm")})
    )
    with pytest.raises(ValueError, match=rf"Other.{name}: is a field of the table .{table}."):
        GENERATOR.part_options((part,))


def test_arguments_of_train_are_the_fields_of_three_tables() -> None:
    tables = [TABLES[table] for table in ("run", "data", "simulation")]
    assert list(TrainOptions.__annotations__) == [name for table in tables for name in names(table)]
    kinds = {name: kind.__forward_arg__ for name, kind in TrainOptions.__annotations__.items()}
    assert {name: kinds[name] for name in ("algorithm", "loss", "penalty", "schedule", "rho_schedule", "topology")} == {
        "algorithm": "str | Algorithm | None",
        "loss": "str | Loss | None",
        "penalty": "str | Penalty | None",
        "schedule": "str | Schedule | None",
        "rho_schedule": "str | RhoSchedule | ArrayLike | None",
        "topology": "str | Topology | networkx.Graph | None",
    }
    assert kinds["tau"] == "float | Sequence[float] | None"
    assert kinds["columns"] == "Sequence[Mapping[str, Any]] | None"


def test_the_algorithm_comes_first() -> None:
    assert RunSpec("admm").algorithm == "admm"
    assert names(RunSpec)[0] == "algorithm"
    assert names(RunSpec)[-len(names(PartOptions)) :] == names(PartOptions)
    assert dumps(Experiment().changed(updates=3)).startswith('[run]\nalgorithm = "dp-admm"\n')


@pytest.mark.parametrize("name", names(PartOptions))
def test_every_option_of_a_part_reaches_some_recipe(name: str) -> None:
    value = {"sampling": "poisson", "average": "plain", "mechanism": "gaussian", "updates": 2, "unit_gain": True}
    reached = 0
    for algorithm in ALGORITHMS:
        try:
            changed = recipe(RunSpec(algorithm, **{name: value.get(name, 0.25)}))
        except InputError:
            continue
        parts = [changed.consensus, *(part for p in changed.phases for part in (p.solver, p.perturbation))]
        reached += any(getattr(part, name, None) == value.get(name, 0.25) for part in parts)
    assert reached


def test_fields_of_a_schedule_can_be_set() -> None:
    named: Algorithm = ALGORITHMS["dp-admm"].tuned(schedule=Fixed(0.1))
    assert named.tuned(step=0.5).schedule == Fixed(0.5)
    assert named.tuned(schedule=Fixed(0.2), step=0.5).schedule == Fixed(0.5)
    with pytest.raises(InputError, match="has no travel to set"):
        named.tuned(travel=1.0)


@pytest.mark.parametrize(
    ("run", "delta"),
    [
        (RunSpec(), 0.0),
        (RunSpec(delta=1e-5), 1e-5),
        (RunSpec(deltas=(1e-6, 1e-4)), 1e-4),
    ],
)
def test_epsilon_is_reported_at_the_largest_delta(run: RunSpec, delta: float) -> None:
    assert run.reported_delta == delta
