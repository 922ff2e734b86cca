"""`dpadmm compare`."""

from __future__ import annotations

import csv
import inspect
import io
import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dpadmm.cli import frontier
from dpadmm.cli.compare import compare as command
from dpadmm.engine.compare import ComparisonPlan, arrange
from dpadmm.engine.frontier import Cell, Frontier, LeftOut
from dpadmm.errors import InputError

RUN = ("--data", "breast-cancer", "--delta", 1e-5, "--rounds", 3, "--repeats", 2)
SMALL = ("compare", *RUN, "--agents", "2,4", "--epsilon", "1,4", "--algorithms", "dp-admm,ps-admm-paper,pvp-graph")
ERRORS = {"dp-admm": (0.4, 0.2), "auto": (0.3, 0.1), "pvp-graph": (0.5, 0.45), "dpsgd": (0.35, 0.31)}


@pytest.fixture
def found() -> Frontier:
    """Made up: two numbers of agents, two budgets, four recipes, of which one did not run everywhere."""
    cells = [
        Cell(name, name, agents, epsilon, epsilon, mean + agents / 1000, 0.01, 3, 10, "logistic", None, 0.1)
        for agents in (2, 4)
        for name, means in ERRORS.items()
        for epsilon, mean in zip((1.0, 4.0), means, strict=True)
        if (name, epsilon) != ("pvp-graph", 1.0)
    ]
    cells = [
        replace(cell, recipe="ps-admm-sgd" if cell.algorithm == "auto" else cell.algorithm,
                topology=f"ring:{cell.agents}" if cell.algorithm == "pvp-graph" else None)
        for cell in cells
    ]  # fmt: skip
    lines = [Cell("admm", "admm", agents, None, None, 0.05, None, 1, 10, "logistic", None, 0.1) for agents in (2, 4)]
    left = [LeftOut("dvp", agents, epsilon, "too rough.") for agents in (2, 4) for epsilon in (1.0, 4.0)]
    left += [LeftOut("pvp-graph", agents, 1.0, "too small.") for agents in (2, 4)]
    return Frontier(
        data="made up", records=80, held_out=20, loss="logistic", measure="test error", delta=1e-5,
        relation="zero-out", seed=0, repeats=3, agents=(2, 4), epsilons=(1.0, 4.0), algorithms=(*ERRORS, "dvp"),
        cells=tuple(cells), non_private=tuple(lines), left_out=tuple(left), finished=True,
    )  # fmt: skip


def _screen(monkeypatch: pytest.MonkeyPatch, where: str) -> io.StringIO:
    screen = io.StringIO()
    monkeypatch.setattr(where, lambda: Console(file=screen, force_terminal=True, width=120, highlight=False))
    return screen


def test_defaults_are_those_of_the_library() -> None:
    shown = {name: each.default for name, each in inspect.signature(command).parameters.items()}
    known = {name: each.default for name, each in inspect.signature(arrange).parameters.items()}
    for name in ("algorithms", "relation", "repeats", "topology", "delta"):
        assert shown[name] == known[name]


def test_one_object_with_everything(dpadmm: Any) -> None:
    result = dpadmm(*SMALL, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    told = json.loads(result.stdout)
    assert set(told) == {entry.name for entry in fields(Frontier)}
    assert (told["data"], told["delta"], told["relation"], told["repeats"]) == ("breast-cancer", 1e-5, "zero-out", 2)
    assert (told["agents"], told["epsilons"], told["measure"]) == ([2, 4], [1.0, 4.0], "test error")
    assert told["algorithms"] == ["dp-admm", "ps-admm-paper", "pvp-graph", "dpsgd"]
    assert told["finished"] is True
    assert len(told["cells"]) == 3 * 2 * 2
    for cell in told["cells"]:
        assert set(cell) == {entry.name for entry in fields(Cell)}
        assert 0.0 < cell["epsilon_spent"] <= cell["epsilon"]
        assert 0.0 <= cell["mean"] <= 1.0
        assert cell["repeats"] == 2
        assert cell["topology"] == (f"complete:{cell['agents']}" if cell["algorithm"] == "pvp-graph" else None)
    assert {each["algorithm"] for each in told["left_out"]} == {"ps-admm-paper"}
    assert len(told["left_out"]) == 4
    assert [line["agents"] for line in told["non_private"]] == [2, 4]
    again = json.loads(dpadmm(*SMALL, "--json").stdout)
    for one in (told, again):
        for cell in one["cells"] + one["non_private"]:
            assert cell.pop("seconds") > 0.0
    assert again == told


def test_a_table_for_people_a_picture_and_a_file(dpadmm: Any, tmp_path: Path) -> None:
    picture, cells = tmp_path / "frontier.svg", tmp_path / "cells.csv"
    result = dpadmm(*SMALL, "--topology", "ring", "--agents", 3, "--picture", picture, "--csv", cells)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "test error on breast-cancer: 455 records, 114 held out; loss logistic" in result.stdout
    assert "left out: ps-admm-paper: one uniform record a step" in result.stdout
    assert result.stdout.count("left out") == 1
    assert "without a server, on ring:3: pvp-graph" in result.stdout
    assert "the optimum, no privacy" in result.stdout
    assert "<svg" in picture.read_text()
    with cells.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == [entry.name for entry in fields(Cell)]
    assert len(lines) == 3 * 2 + 1
    for line in lines[:-1]:
        written = f"{float(line['mean']):.4f} ±{float(line['standard_error']):.4f}"
        row = next(each for each in result.stdout.splitlines() if each.split()[:1] == [line["algorithm"]])
        assert written in row
    assert (lines[-1]["algorithm"], lines[-1]["epsilon"]) == ("optimum", "")


def test_every_option_reaches_the_work(dpadmm: Any, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr("dpadmm.engine.compare.arrange", lambda **terms: (seen.update(terms), arrange(**terms))[1])
    result = dpadmm(
        "compare", "--data", records, "--target", "ill", "--owner", "clinic", "--epsilon", "2,1", "--delta", 1e-3,
        "--algorithms", "dp-admm", "--repeats", 1, "--relation", "replace", "--topology", "ring", "--test", 0.3,
        "--task", "classification", "--loss", "logistic", "--norm-bound", 2, "--intercept", "--rounds", 2,
        "--seed", 5, "--split", "by-label", "--data-dir", records.parent, "--json",
    )  # fmt: skip
    assert result.exit_code == 0
    assert seen == {
        "source": str(records), "target": "ill", "owner": "clinic", "epsilons": (2.0, 1.0), "delta": 1e-3,
        "algorithms": "dp-admm", "repeats": 1, "relation": "replace", "topology": "ring", "test": 0.3, "agents": (),
        "task": "classification", "loss": "logistic", "norm_bound": 2.0, "intercept": True, "rounds": 2,
        "seed": 5, "split": "by-label", "data_dir": str(records.parent),
    }  # fmt: skip
    told = json.loads(result.stdout)
    assert (told["agents"], told["loss"], told["epsilons"]) == ([2], "logistic", [1.0, 2.0])
    assert told["cells"][0]["standard_error"] is None


def test_rows_by_rank_the_best_in_bold(found: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = _screen(monkeypatch, "dpadmm.cli.frontier.out")
    frontier.show(found)
    text = screen.getvalue()
    block = text[text.index("4 agents") :]
    places = [block.index(name) for name in ("auto *", "dp-admm", "dpsgd", "pvp-graph", "the optimum, no privacy")]
    assert places == sorted(places)
    bold = [part.split("\x1b[0m")[0].strip() for part in block.split("\x1b[1m")[1:]]
    assert [each for each in bold if each.startswith("0.")] == ["0.3040 ±0.0100", "0.1040 ±0.0100"]
    row = next(line for line in block.splitlines() if "pvp-graph" in line)
    assert row.split()[1:] == ["-", "0.4540", "±0.0100"]


def test_what_is_said_below_the_tables(found: Frontier) -> None:
    assert frontier.remarks(found) == [
        "* auto took ps-admm-sgd, 10 rounds, loss logistic",
        "without a server, on ring:2, ring:4: pvp-graph",
        "left out: dvp: too rough.",
        "left out: pvp-graph (epsilon 1): too small.",
    ]
    other = tuple(replace(cell, rounds=9) if cell.epsilon == 4.0 else cell for cell in found.cells)
    assert frontier.remarks(replace(found, cells=other))[:2] == [
        "* auto took ps-admm-sgd, 10 rounds, loss logistic: 2 agents, epsilon 1; 4 agents, epsilon 1",
        "* auto took ps-admm-sgd, 9 rounds, loss logistic: 2 agents, epsilon 4; 4 agents, epsilon 4",
    ]
    left = (LeftOut("dvp", 2, 4.0, "one."), LeftOut("dvp", 4, 4.0, "two."), LeftOut("dvp-graph", 2, 4.0, "one."))
    said = frontier.remarks(replace(found, left_out=left, cells=(), finished=False))
    assert said == [
        "left out: dvp (2 agents; epsilon 4): one.",
        "left out: dvp (4 agents; epsilon 4): two.",
        "left out: dvp-graph: one.",
        "interrupted: there is more to come.",
    ]


def test_the_picture_has_a_line_for_each_recipe(found: Frontier) -> None:
    figure = frontier.picture(found)
    assert [axis.get_title() for axis in figure.axes] == ["2 agents", "4 agents"]
    for axis, agents in zip(figure.axes, (2, 4), strict=True):
        lines = {bars.get_label(): bars for bars in axis.containers}
        assert set(lines) == set(ERRORS)
        for name, means in ERRORS.items():
            count = 1 if name == "pvp-graph" else 2
            drawn = lines[name].lines[0]
            assert list(drawn.get_ydata()) == [mean + agents / 1000 for mean in means][-count:]
            assert list(drawn.get_xdata()) == pytest.approx([1.0, 4.0][-count:], rel=0.02)
            (bars,) = lines[name].lines[2]
            assert len(bars.get_segments()) == count
            low, high = bars.get_segments()[0][:, 1]
            assert high - low == pytest.approx(0.02)  # one standard error to either side
        widths = {name: bars.lines[0].get_linewidth() for name, bars in lines.items()}
        assert max(widths, key=widths.__getitem__) == "auto"
        assert lines["auto"].lines[0].get_zorder() == max(bars.lines[0].get_zorder() for bars in lines.values())
        (dashed,) = [line for line in axis.lines if line.get_linestyle() == "--"]
        assert set(dashed.get_ydata()) == {0.05}
        assert axis.get_xscale() == axis.get_yscale() == "log"
        low, high = axis.get_ylim()
        assert 0.04 < low < 0.05
        assert 0.454 < high < 0.6
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "pvp-graph", "dpsgd", "dp-admm", "auto", "the optimum, no privacy"
    ]  # fmt: skip


def test_recipes_are_told_apart_by_colour_and_marker(found: Frontier) -> None:
    from dpadmm.papers import ALGORITHMS

    names = tuple(name for name, recipe in ALGORITHMS.items() if recipe.private)
    cells = tuple(replace(found.cells[0], algorithm=name, recipe=name) for name in names)
    figure = frontier.picture(replace(found, algorithms=names, cells=cells, epsilons=(1.0,), agents=(2,)))
    looks = [(bars.lines[0].get_color(), bars.lines[0].get_marker()) for bars in figure.axes[0].containers]
    assert len(looks) == len(names)
    assert len(set(looks)) == len(names)


def test_errors_of_zero_have_no_logarithm(found: Frontier) -> None:
    none = tuple(replace(cell, mean=0.0) for cell in found.non_private)
    axis = frontier.picture(replace(found, non_private=none)).axes[0]
    assert axis.get_yscale() == "linear"


class _Broken(ComparisonPlan):
    """Somebody presses Ctrl-C in the fourth run."""

    def __iter__(self) -> Iterator[Frontier]:
        for place, known in enumerate(super().__iter__()):
            if place == 3:
                raise KeyboardInterrupt
            yield known


def _break_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**terms: Any) -> ComparisonPlan:
        made = arrange(**terms)
        return _Broken(made.jobs, made.empty)

    monkeypatch.setattr("dpadmm.engine.compare.arrange", broken)


def test_broken_off_it_shows_what_is_known(dpadmm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _break_off(monkeypatch)
    result = dpadmm(*SMALL, "--csv", tmp_path / "cells.csv")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert "the optimum, no privacy" in result.stdout
    assert "interrupted: there is more to come." in result.stdout
    assert len((tmp_path / "cells.csv").read_text().splitlines()) == 1 + 3
    told = dpadmm(*SMALL, "--json")
    assert told.exit_code == 130
    known = json.loads(told.stdout)
    assert (known["finished"], len(known["cells"]), len(known["non_private"])) == (False, 1, 2)


def test_nothing_to_draw_is_said(dpadmm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _break_off(monkeypatch)
    path = tmp_path / "frontier.png"
    result = dpadmm(*SMALL, "--agents", "2,3,4", "--picture", path)
    assert result.exit_code == 130
    assert "nothing to draw" in " ".join(result.stderr.split())
    assert not path.exists()


@pytest.mark.parametrize(("flags", "shown"), [((), True), (("--quiet",), False), (("--json",), False)])
def test_a_bar_in_a_terminal(dpadmm: Any, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], shown: bool) -> None:
    screen = _screen(monkeypatch, "dpadmm.cli.progress.err")
    assert dpadmm(*SMALL, "--agents", 2, "--algorithms", "dp-admm", *flags).exit_code == 0
    assert ("/5" in screen.getvalue()) == shown


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("--epsilon", "1,x"), "--epsilon 1,x: must be numbers"),
        (("--epsilon", ""), "must be numbers"),
        (("--epsilon", "0"), "epsilons 0: give total budgets, positive"),
        (("--epsilon", "1,-2"), "positive"),
        (("--epsilon", "nan"), "positive"),
        (("--delta", "1"), "delta = 1.0 must be 0 or a number from"),
        (("--agents", "5,many"), "--agents 5,many: must be whole numbers"),
        (("--agents", ""), "must be whole numbers"),
        (("--agents", "5000"), "agents 5000: must lie between 1 and the number of training records, 455"),
        (("--algorithms", "dp-admm,dpp"), "unknown algorithm 'dpp'"),
        (("--algorithms", ""), "algorithms: name some"),
        (("--algorithms", "admm"), "not private"),
        (("--relation", "none"), "unknown relation"),
        (("--topology", "rung"), "unknown topology 'rung'; did you mean 'ring'?"),
        (("--loss", "squared"), "is for regression targets"),
        (("--repeats", "0"), "repeats = 0 must be"),
        (("--picture", "frontier.txt"), "--picture"),
        (("--csv", "no-such-folder/cells.csv"), "--csv 'no-such-folder/cells.csv': there is no folder"),
    ],
)
def test_bad_input(dpadmm: Any, changes: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpadmm.engine.compare.train", lambda *one, **more: pytest.fail("it has begun"))
    result = dpadmm(*SMALL, *changes)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_a_delta_is_needed(dpadmm: Any) -> None:
    result = dpadmm("compare", "--data", "breast-cancer", "--epsilon", 1)
    assert result.exit_code == 2
    assert "delta None: give one for all recipes" in result.stderr


def test_a_file_that_cannot_be_written(found: Frontier, tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    for flag, put in (("--csv", frontier.write), ("--picture", frontier.draw)):
        with pytest.raises(InputError, match=rf"{flag} .* cannot be written"):
            put(found, tmp_path / "a.png")
