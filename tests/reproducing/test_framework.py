"""What a file may declare, how claims are checked, what is written and read back, and the command."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dpadmm.cli.main import app
from dpadmm.errors import InputError
from dpadmm.reproducing import collection
from dpadmm.reproducing.checks import CheckResult, Comparison, answers, totals, verdict
from dpadmm.reproducing.estimates import Estimate
from dpadmm.reproducing.outcome import Outcome, Track
from dpadmm.reproducing.page import MOST_ROWS, page
from dpadmm.reproducing.results import Results, load
from dpadmm.reproducing.run import reproduce
from dpadmm.reproducing.target import Check, Job, Point, read

# -- what a file may say -----------------------------------------------------------------------------------------------

BAD = [
    (('title = "a title"', 'titel = "a title"'), "unknown key in the reproduction 'titel'"),
    (('claim = "A claim."', ""), "the reproduction lacks claim"),
    (("[scale.paper]", "[scale.large]"), "unknown scale 'large'"),
    (("[scale.paper]", "[scale.medium]"), "'paper' is missing"),
    (('title = "a title"', 'kind = "race"\ntitle = "a title"'), "unknown kind 'race'"),
    (('label = "loss"', 'label = "loss"\nlog = true'), "unknown key in panel 'log'"),
    (('label = "loss"', ""), "panel lacks label"),
    (('over = "epsilon"', 'over = "agents"'), "unknown axis of a panel 'agents'"),
    (('label = "loss"', 'label = "loss"\nwhere = { agents = 4 }'), "unknown axis in a where 'agents'"),
    (('below = ["quiet", "noisy"]', 'below = ["quiet", "loud"]'), "unknown curve of a check 'loud'"),
    (('below = ["quiet", "noisy"]', 'falls = "delta"'), "unknown axis of a check 'delta'"),
    (('below = ["quiet", "noisy"]', 'falls = "epsilon"\nrises = "epsilon"'), "give one of below, near"),
    (('below = ["quiet", "noisy"]', ""), "give one of below, near"),
    (('below = ["quiet", "noisy"]', 'falls = "epsilon"\nslack = 0.1'), "a trend has no slack"),
    (('below = ["quiet", "noisy"]', 'falls = "epsilon"\nwhen = "start"'), "unknown when of a check 'start'"),
    (("[grid]", "[grid"), "is not TOML"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_file_is_refused_by_name(change, message, declared):
    with pytest.raises(InputError, match=rf"^000-figure-1\.toml:? .*{message}"):
        declared(change)


def test_a_grid_is_multiplied_and_a_curve_may_do_without_an_axis(declared):
    target = declared(("epsilon = [0.1, 1.0]", 'epsilon = [0.1, 1.0]\nrho = [{ name = "soft", rho = 0.1 }]'))
    jobs = target.jobs("small")
    assert [job.name for job in jobs] == [
        *("noisy (epsilon 0.1, rho soft)", "noisy (epsilon 1, rho soft)"),
        "quiet (rho soft)",
    ]
    assert [job.settings["rho"] for job in jobs] == [0.1] * 3
    assert [job.settings.get("epsilon") for job in jobs] == [0.1, 1.0, None]
    assert "delta" not in jobs[2].settings
    assert "repeats" not in jobs[0].settings
    assert target.jobs("paper")[0].settings["repeats"] == 2


def test_a_scale_may_have_a_grid_and_parts_of_it(declared):
    assert len(declared(("[scale.small]", "[scale.small]\ngrid = { epsilon = [0.5] }")).jobs("small")) == 2
    parts = 'cells = [{ curve = "noisy", epsilon = 1.0 }]'
    assert [job.name for job in declared(("[scale.small]", f"[scale.small]\n{parts}")).jobs("small")] == [
        "noisy (epsilon 1)"
    ]


def test_a_curve_may_have_some_entries_only(declared):
    target = declared(('name = "noisy"', 'name = "noisy"\nonly = { epsilon = [1.0] }'))
    assert [job.name for job in target.jobs("small")] == ["noisy (epsilon 1)", "quiet"]


# -- claims ------------------------------------------------------------------------------------------------------------


def outcome(*values, epsilon=None, metric="loss"):
    """A run that no seed changes, whose metric takes these values, round by round."""
    return Outcome(
        tuple(range(1, len(values) + 1)), {metric: Track.of(np.array(values)[:, None])}, 1,
        epsilon, epsilon is not None, None, "replace", None, 0.0, random=False,
    )  # fmt: skip


def repeated(*values, metric="loss", kept=True):
    """A run with noise; one value for each repeat."""
    track = Track.of(np.array([values]))
    track = track if kept else replace(track, repeats={})
    return Outcome((1,), {metric: track}, len(values), 1.0, True, None, "replace", None, 0.0)


def finding(curve, *values, epsilon=None, **cell):
    return job(curve, **cell), outcome(*values, epsilon=epsilon)


def job(curve, **cell):
    return Job("train", curve, {axis: Point.of(axis, value) for axis, value in cell.items()}, {})


LADDER = [
    *(finding("one", 9.0, loss, x=x, y=0) for x, loss in ((1, 5.0), (2, 1.0), (3, 4.0))),
    *(finding("two", 1.0, loss, x=x, y=0) for x, loss in ((1, 6.0), (2, 2.0), (3, 3.0))),
    finding("none", 1.0, 3.5),
]

ASKED = [
    ({"below": ("one", "two")}, 2, 3),  # 5 < 6, 1 < 2, not 4 < 3
    ({"below": ("one", "two"), "slack": 0.5}, 3, 3),  # 4 < 4.5
    ({"below": ("one", "two"), "slack": -0.5}, 0, 3),  # 1 < 1 is the nearest
    ({"below": ("one", "two"), "where": {"x": [1, 2]}}, 2, 2),
    ({"below": ("one", "none")}, 1, 3),  # a curve without axes stands beside every cell
    ({"below": ("one", "none"), "where": {"x": 2}}, 1, 1),
    ({"below": ("one", "two"), "when": "mean"}, 0, 3),  # (9 + 5) / 2 against (1 + 6) / 2
    ({"near": ("one", "two"), "slack": 0.34}, 2, 3),  # off by 1/6, 1/2, 1/3
    ({"near": ("one", "two"), "slack": 0.5}, 3, 3),
    ({"falls": "x"}, 2, 2),
    ({"falls": "x", "where": {"x": [2, 3]}}, 0, 2),
    ({"rises": "x", "where": {"x": [2, 3]}}, 2, 2),
    ({"rises": "x"}, 0, 2),
    ({"flat": "x", "slack": 1.0}, 0, 2),  # 5 - 1 and 6 - 2, over 1 and 2
    ({"flat": "x", "slack": 2.0}, 1, 2),
    ({"falls": "x", "when": "jump", "where": {"x": [1, 2]}, "curves": ("two",)}, 1, 1),  # rises by 5, then by 1
    ({"rises": "y"}, 0, 0),  # one entry is no line
    ({"below": ("one", "two"), "where": {"x": 7}}, 0, 0),
]


@pytest.mark.parametrize(("asked", "holds", "of"), ASKED, ids=[str(asked) for asked, *_ in ASKED])
def test_claims_are_counted(asked, holds, of, declared):
    answer = asked_of(declared, LADDER, **asked)
    assert (answer.holds, answer.of, answer.fails) == (holds, of, of - holds)  # exact runs can always be told
    assert answer.always == (holds == of)


def asked_of(declared, findings, metric="loss", **asked):
    (answer,) = answers(replace(declared(), checks=(Check("so it is", metric, **asked),)), findings)
    return answer


def test_what_stays_the_same_neither_falls_nor_rises_nor_lies_below(declared):
    same = [finding(curve, 2.0, x=x) for curve in ("one", "two") for x in (1, 2)]
    for asked in ({"falls": "x"}, {"rises": "x"}, {"below": ("one", "two")}):
        answer = asked_of(declared, same, **asked)
        assert (answer.holds, answer.fails, answer.of) == (0, 2, 2), asked


def test_a_difference_is_told_from_two_standard_errors_on_repeat_by_repeat(declared):
    """Repeats lie far apart and move together, so that only their differences can tell."""
    common = np.array([0.0, 10.0, 20.0, 30.0])
    spread = np.array([-1.0, 1.0, -1.0, 1.0])  # standard error 0.577
    for gap, told in ((1.2, (1, 0)), (1.1, (0, 0)), (-1.1, (0, 0)), (-1.2, (0, 1))):
        findings = [(job("one"), repeated(*common)), (job("two"), repeated(*(common + gap + spread)))]
        answer = asked_of(declared, findings, below=("one", "two"))
        assert (answer.holds, answer.fails) == told, gap
        assert answer.comparisons[0].estimate.error == pytest.approx(1.0 / 3.0**0.5)
        assert answer.always == (gap > 0)


def test_without_single_repeats_errors_are_added_up_as_if_independent(declared):
    kept = [(job("one"), repeated(1.0, 3.0)), (job("two"), repeated(2.0, 4.0))]
    old = [(job("one"), repeated(1.0, 3.0, kept=False)), (job("two"), repeated(2.0, 4.0, kept=False))]
    assert asked_of(declared, kept, below=("one", "two")).comparisons[0].estimate.error == 0.0
    assert asked_of(declared, old, below=("one", "two")).comparisons[0].estimate.error == pytest.approx(2.0**0.5)
    mixed = [kept[0], old[1]]
    assert asked_of(declared, mixed, below=("one", "two")).comparisons[0].estimate.error == pytest.approx(2.0**0.5)


def test_nothing_is_told_by_one_run_with_noise_except_what_is_a_formula(declared):
    for metric, holds in (("loss", 0), ("noise_variance", 1), ("seconds", 0)):
        findings = [(job(c), repeated(v, metric=metric)) for c, v in (("one", 1.0), ("two", 2.0))]
        answer = asked_of(declared, findings, metric=metric, below=("one", "two"))
        assert (answer.holds, answer.fails, answer.of, answer.always) == (holds, 0, 1, True)


def test_a_trend_is_of_all_points_and_not_of_the_ends(declared):
    """The ends fall; the points between rise far more."""
    values = {1: 1.0, 2: 0.0, 3: 9.0, 4: 0.9}
    findings = [(job("one", x=x), repeated(v - 0.1, v + 0.1)) for x, v in values.items()]
    answer = asked_of(declared, findings, falls="x")
    assert (answer.holds, answer.fails) == (0, 1)
    slope = -asked_of(declared, findings, rises="x").comparisons[0].estimate.mean
    assert slope == pytest.approx(np.polyfit([1, 2, 3, 4], list(values.values()), 1)[0])


def test_what_is_near_is_near_even_two_errors_farther_off(declared):
    for values, told in (((9.9, 10.1), (1, 0)), ((9.0, 11.5), (0, 0)), ((14.0, 14.2), (0, 1))):
        findings = [(job("one"), repeated(*values)), (job("two"), outcome(10.0))]
        answer = asked_of(declared, findings, near=("one", "two"), slack=0.2)
        assert (answer.holds, answer.fails) == told, values


def test_a_variant_of_ours_is_judged_apart(declared):
    results = made_up(declared(('below = ["quiet", "noisy"]', 'below = ["quiet", "noisy"]\nvariant = true')))
    assert results.verdict == "not run"
    assert results.sentence.endswith(
        "variants that are not the paper's it does not hold: no noise, less loss: no (2 of 2)."
    )


def test_a_spread_is_the_one_of_a_sample():
    track = Track.of(np.array([[1.0, 3.0], [2.0, 2.0]]))
    repeats = {"end": (2.0, 2.0), "mean": (1.5, 2.5), "jump": (1.0, 0.0)}
    assert track == Track((2.0, 2.0), (2.0**0.5, 0.0), (1.0, 2.0), (3.0, 2.0), repeats)


def test_a_loss_that_never_rises_has_no_jump():
    assert outcome(3.0, 2.0, 1.0).value("loss", "jump") == 0.0
    assert outcome(3.0, 2.0, 4.0, 4.5).value("loss", "jump") == 2.0
    assert outcome(3.0).value("loss", "jump") == 0.0


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([(2, 0, 2), (3, 0, 3)], "holds"),
        ([(2, 0, 4)], "holds"),  # half can be told
        ([(1, 0, 3)], "cannot be told"),
        ([(0, 0, 3), (0, 1, 9)], "cannot be told"),
        ([(1, 3, 4)], "does not hold"),
        ([(2, 2, 4)], "holds in part"),
        ([(2, 0, 2), (0, 2, 2)], "holds in part"),
        ([(40, 0, 40), (0, 1, 1)], "holds in part"),  # many comparisons are one check
        ([(40, 0, 40), (0, 0, 1)], "holds in part"),
        ([(0, 2, 2), (0, 0, 1)], "does not hold"),
        ([(0, 0, 0)], "not run"),
        ([], "not run"),
    ],
)
def test_a_verdict_counts_what_can_be_told(counts, expected):
    def result(holds, fails, of):
        told = [1] * holds + [-1] * fails + [0] * (of - holds - fails)
        return CheckResult("", tuple(Comparison(Estimate(0.0, 0.0), each, True) for each in told))

    assert verdict([result(*each) for each in counts]) == expected


def test_totals_are_of_private_curves():
    findings = [finding("a", 1.0, epsilon=2.0), finding("a", 1.0, epsilon=0.5), finding("b", 1.0)]
    assert totals(findings) == {"a": (0.5, 2.0)}


# -- results -----------------------------------------------------------------------------------------------------------


def made_up(target, scale="small"):
    """Results that nobody computed."""
    findings = []
    for place, job in enumerate(target.jobs(scale)):
        epsilon = job.settings.get("epsilon")
        ends = (0.75 + place, 1.25 + place, 1.75 + place)
        track = Track((9.0, 1.25 + place), (0.0, 0.5), (8.0, 1.0), (9.0, 1.5), {"end": ends})
        kept = Outcome((2, 4), {"train_loss": track, "epsilon": track}, 3, epsilon and 2 * epsilon, epsilon is not None,
                       1e-3, "replace", epsilon, 0.25)  # fmt: skip
        findings.append((job, kept))
    return Results(target, scale, tuple(findings), "dpadmm reproduce", "2000-01-01", "0.0", 0.75)


def test_results_are_read_back_as_they_were_written(declared, tmp_path):
    results = made_up(declared())
    results.write(tmp_path)
    back = load(results.target, "small", tmp_path)
    assert back is not None
    assert back.findings[0][1].tracks["epsilon"].repeats == {}  # no check compares it
    for (_, found), (_, made) in zip(back.findings, results.findings, strict=True):
        found.tracks["epsilon"] = made.tracks["epsilon"]
    assert back == replace(results, seconds=0.8)  # rounded


def test_results_of_other_runs_are_not_taken_for_these(declared, tmp_path):
    made_up(declared()).write(tmp_path)
    assert load(declared(("epsilon = [0.1, 1.0]", "epsilon = [0.1, 2.0]")), "small", tmp_path) is None
    assert load(declared(("rounds = 4", "rounds = 5")), "small", tmp_path) is None
    assert load(declared(name="000-figure-2"), "small", tmp_path) is None
    numbers = tmp_path / "000-figure-1.csv"
    numbers.write_text(numbers.read_text().splitlines()[0] + "\n")
    assert load(declared(), "small", tmp_path) is None
    (tmp_path / "000-figure-1.json").write_text("{")
    with pytest.raises(InputError, match=r"results of 000-figure-1 .* cannot be read"):
        load(declared(), "small", tmp_path)


def test_a_published_number_belongs_to_the_run_that_says_the_same(declared, tmp_path):
    target = declared(
        ("[scale.small]", '[published]\nfile = "f.csv"\ncolumn = "loss"\nmetric = "train_loss"\n[scale.small]')
    )
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "f.csv").write_text(
        "curve,epsilon,loss\nnoisy,0.1,7\nnoisy,3,8\nquiet,inf,9\nquiet,3,6\nnoisy,1,4\nnoisy,1,5\n"
    )
    assert made_up(target).published(tmp_path) == {"noisy (epsilon 0.1)": 7.0, "quiet": 9.0}


def test_a_page_has_a_row_for_every_figure_with_its_verdict_first(declared, tmp_path):
    shown, missing = declared(), declared(('figure = "figure 1"', 'figure = "figure 2"'), name="000-figure-2")
    made_up(shown).write(tmp_path / "results" / "small")
    lines = page([shown, missing], tmp_path).splitlines()
    rows = [line for line in lines if "](#000-figure-" in line]
    assert rows == [
        "| **does not hold** | [000, figure 1](#000-figure-1) | A claim. | small | 3 | 1 s | 0.2 to 2 |",
        "| not run | [000, figure 2](#000-figure-2) | A claim. | - | - | - | - |",
    ]
    assert "| noisy | 0.1 | 1.25 ± 0.5 | 1.25 ± 0.5 | 0.1 | 0.2 |" in lines
    assert "| quiet |  | 3.25 ± 0.5 | 3.25 ± 0.5 | - | not private |" in lines
    assert "The claim does not hold: no noise, less loss: no (2 of 2)." in lines
    assert "A remark." in lines
    assert "![000, figure 1: a title](../reproductions/results/small/000-figure-1.png)" in lines


def test_a_long_table_is_cut_and_says_so(declared, tmp_path):
    entries = [round(0.01 * k, 2) for k in range(1, MOST_ROWS + 5)]  # and the curve without noise
    long = declared(("epsilon = [0.1, 1.0]", f"epsilon = {entries}"))
    made_up(long).write(tmp_path / "results" / "small")
    lines = page([long], tmp_path).splitlines()
    assert len([line for line in lines if line.startswith("| noisy |")]) == MOST_ROWS
    assert "5 more rows are in the file." in lines


def test_every_run_has_its_own_cell(declared, tmp_path):
    results = reproduce(declared(), "small", tmp_path, tmp_path)
    totals = [outcome.epsilon for _, outcome in results.findings]
    assert totals[0] < totals[1]
    assert totals[2] is None


def test_a_page_shows_the_largest_scale_there_is(declared, tmp_path):
    shown = declared(("[scale.small]", "[scale.medium]\nrounds = 3\n[scale.small]"))
    for scale in ("small", "medium", "paper"):
        made_up(shown, scale).write(tmp_path / "results" / scale)
        assert f"| A claim. | {scale} |" in page([shown], tmp_path)


def test_the_documentation_is_what_the_kept_results_say():
    folder = collection.home()
    kept = page(collection.targets(collection.folder()), folder, collection.DECLARED)
    assert "not run" not in kept
    assert (folder.parent / "docs" / "reproductions.md").read_text() == kept


# -- the command -------------------------------------------------------------------------------------------------------


def command(*words):
    return CliRunner().invoke(app, ["reproduce", *map(str, words)], catch_exceptions=False)


def test_the_command_lists_runs_and_writes(declared, tmp_path):
    declared()
    place = ("--folder", tmp_path / "declared")
    listed = json.loads(command("--list", "--json", *place).stdout)
    assert listed == {
        "scale": "small",
        "targets": [{"target": "000-figure-1", "title": "a title", "claim": "A claim.", "runs": 3}],
    }
    assert "000-figure-1" in command("--list", *place).stdout
    ran = json.loads(command("000", "1", "--json", "--out", tmp_path / "out", *place).stdout)
    (summary,) = ran["targets"]
    assert summary == json.loads((tmp_path / "out" / "000-figure-1.json").read_text())
    assert [run["private"] for run in summary["runs"]] == [True, True, False]
    assert not (tmp_path / "out" / "unfinished").exists()
    with (tmp_path / "out" / "000-figure-1.csv").open() as file:
        assert {row["round"] for row in csv.DictReader(file)} == {"1", "2", "3", "4"}
    written = command("--write", tmp_path / "page.md", "--json", *place)
    assert json.loads(written.stdout)["figures"] == 1
    assert (tmp_path / "page.md").read_text() == page(collection.targets(tmp_path / "declared"), tmp_path / "declared")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("005",), "unknown paper '005'"),
        (("000", "figure-9"), "unknown figure of paper 000 'figure-9'"),
        (("000", "--scale", "huge"), "unknown scale 'huge'"),
        (("000", "--scale", "medium"), "none of these figures has a medium scale; all have small and paper"),
        (("000", "--workers", "0"), "at least 1"),
        (("--folder", "nowhere"), "no reproductions in 'nowhere'"),
    ],
)
def test_the_command_refuses_what_is_not_there(words, message, declared, tmp_path):
    declared()
    place = () if "--folder" in words else ("--folder", tmp_path / "declared")
    result = command(*words, *place)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_an_installation_has_the_declarations_and_keeps_results_where_it_is_run(tmp_path, monkeypatch):
    assert collection.DECLARED.is_relative_to(Path(collection.__file__).parent)
    assert (collection.DECLARED / "published" / "zhou_xiang.csv").is_file()
    monkeypatch.chdir(tmp_path)
    assert len(json.loads(command("--list", "--json").stdout)["targets"]) > 35
    assert collection.home() != Path("reproductions")  # of a checkout
    monkeypatch.setattr(collection, "_OF_A_CHECKOUT", tmp_path / "site-packages" / "reproductions")
    assert collection.home() == Path("reproductions")
    assert collection.home(tmp_path) == tmp_path


def test_the_command_runs_those_that_have_a_scale(declared, tmp_path):
    declared()
    declared(("[scale.small]", "[scale.medium]\nrounds = 3\n[scale.small]"), name="000-figure-2")
    place = ("--folder", tmp_path / "declared", "--scale", "medium")
    listed = json.loads(command("--list", "--json", *place).stdout)
    assert [each["target"] for each in listed["targets"]] == ["000-figure-2"]
    (summary,) = json.loads(command("--json", "--out", tmp_path / "out", *place).stdout)["targets"]
    assert (summary["scale"], summary["command"]) == ("medium", "dpadmm reproduce 000 figure-2 --scale medium")
    with (tmp_path / "out" / "000-figure-2.csv").open() as file:
        assert {row["round"] for row in csv.DictReader(file)} == {"1", "2", "3"}


@pytest.mark.parametrize("figure", ["figure-1", "figure 1", "Figure 1", "1"])
def test_a_figure_may_be_named_in_several_ways(figure, declared, tmp_path):
    declared()
    declared(name="000-table-1")
    assert [t.id for t in collection.targets(tmp_path / "declared", "000", figure)] == ["000-figure-1"]


def test_the_same_numbers_make_the_same_picture(declared, tmp_path):
    for place in ("a", "b"):
        reproduce(declared(), "small", tmp_path / place, tmp_path)
    assert (tmp_path / "a" / "000-figure-1.png").read_bytes() == (tmp_path / "b" / "000-figure-1.png").read_bytes()


def test_kept_results_are_drawn_anew(declared, tmp_path):
    target = declared()
    words = ("--redraw", "--folder", tmp_path / "declared", "--out", tmp_path / "out", "--json")
    refused = command(*words)
    assert (refused.exit_code, "has no results" in " ".join(refused.stderr.split())) == (2, True)
    reproduce(target, "small", tmp_path / "out", tmp_path)
    picture = tmp_path / "out" / "000-figure-1.png"
    drawn = picture.read_bytes()
    picture.write_bytes(b"")
    assert json.loads(command(*words).stdout)["drawn"] == ["000-figure-1"]
    assert picture.read_bytes()[:8] == drawn[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_a_file_that_is_not_there_is_refused():
    with pytest.raises(InputError, match=r"^reproduction 'gone\.toml' cannot be read: No such file"):
        read(Path("gone.toml"))
