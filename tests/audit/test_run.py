"""Every private recipe keeps its promise, and the audit has teeth; false alarms are as rare as they are said to be."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from dpadmm.admm.setting import Multiplier
from dpadmm.audit.attacks import Attack, _curve, trained
from dpadmm.audit.bounds import BOUNDS, guessed
from dpadmm.audit.likelihood import RATIO
from dpadmm.audit.one_run import crowd, guess
from dpadmm.audit.run import audit, usual_method
from dpadmm.audit.scene import Scenario, scene
from dpadmm.audit.summary import BEGIN, END, audits, markdown, write
from dpadmm.audit.transcripts import transcripts
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.events import ComposedDpEvent, GaussianDpEvent, LaplaceDpEvent, NoOpDpEvent, SelfComposedDpEvent

PRIVATE = [name for name, recipe in ALGORITHMS.items() if recipe.private]
DELTA = 1e-5


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("name", PRIVATE)
def test_no_recipe_s_claim_is_refuted(name, epsilon):
    found = audit(name, epsilon, DELTA, transcripts=1000, seed=1)
    assert found.lower_bound <= found.claimed
    assert not found.violated
    assert found.claimed == found.accounted
    if not ALGORITHMS[name].as_printed:
        assert found.claimed <= epsilon * (1.0 + 1e-12)


def test_a_recipe_of_ones_own_is_audited_by_value_and_by_path(somebody):
    by_value = audit(somebody.recipes.MINE, 2.0, DELTA, transcripts=500, seed=1)
    by_path = audit("somebody.recipes:MINE", 2.0, DELTA, transcripts=500, seed=1)
    assert by_value.summary() == by_path.summary()
    assert by_value.algorithm == "mine"
    with pytest.raises(InputError, match="unknown algorithm 'somebody'"):
        audit("somebody", 2.0, DELTA)


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("name", ["dp-admm", "pvp", "dpsgd", "fdp-admm", "obj-g", "out-g", "dp-accelerated"])
def test_the_audit_has_teeth(name, epsilon):
    found = audit(name, epsilon, DELTA, transcripts=20_000, seed=1)
    assert found.method == "gdp"
    assert 0.7 <= found.ratio <= 1.0


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize(("relation", "least"), [("zero-out", 0.8), ("replace", 0.8)])
def test_means_and_squares_leak_nearly_what_they_are_paid_for(relation, least, epsilon):
    """The rows that the audit replaces lie along axes, and come within 6 % of the farthest that two can be apart."""
    stage = Scenario(relation=relation)
    found = audit("private-column-moments", epsilon, DELTA, stage=stage, transcripts=20_000, seed=1)
    assert found.method == "gdp"
    assert least <= found.ratio <= 1.0
    quiet = audit(
        "private-column-moments", epsilon, DELTA, stage=stage, claimed=0.5 * epsilon, transcripts=20_000, seed=1
    )
    assert quiet.violated


@pytest.mark.parametrize("name", ["dvp", "obj-l", "out-l", "private-r-admm", "m-admm-penalty"])
def test_pure_noise_is_bounded_by_exact_intervals(name):
    recipe = ALGORITHMS[name] if name.endswith("-l") else ALGORITHMS[name].tuned(mechanism="gamma-norm")
    found = audit(recipe, 2.0, 0.0, transcripts=5_000, seed=1)
    assert found.method == "clopper-pearson"
    assert 0.3 <= found.ratio <= 1.0


def test_logistic_losses_reach_half_of_their_bound():
    found = audit("dp-admm", 4.0, DELTA, stage=Scenario(loss="logistic"), transcripts=10_000)
    assert 0.35 <= found.ratio <= 0.5


@pytest.mark.parametrize(
    ("name", "method", "stage"),
    [
        ("dp-admm", "gdp", Scenario(rounds=1)),
        ("dp-admm", "clopper-pearson", Scenario(rounds=1)),
        ("out-l", "clopper-pearson", Scenario(rounds=1)),
        ("dp-admm", "one-run", Scenario(rounds=1, agents=1)),
    ],
)
def test_false_alarms_are_rare(name, method, stage):
    """Two hundred audits of claims that hold: at most one in twenty may be refuted, plus what chance adds."""
    seeds = range(200)
    found = [
        audit(name, 1.0, DELTA, stage=stage, method=method, transcripts=400, canaries=100, seed=seed) for seed in seeds
    ]
    assert len({each.lower_bound for each in found}) > 5
    assert sum(each.violated for each in found) <= binom.ppf(0.999, len(seeds), 0.05)


class TestEvaluation:
    """The owners' private estimate of the error on their own records is a release like any other."""

    stage = Scenario(evaluation_epsilon=2.0, rounds=2)

    @pytest.mark.parametrize("name", ["dp-admm", "pvp-graph", "dvp", "dpsgd"])
    def test_it_is_in_the_transcript(self, name):
        found = audit(name, 4.0, DELTA, stage=self.stage, transcripts=2000, seed=1)
        assert found.method == "clopper-pearson"
        assert not found.violated
        without = replace(self.stage, evaluation_epsilon=None, loss="smoothed-hinge")
        alone = audit(name, 2.0, DELTA, stage=without, method="clopper-pearson", transcripts=2000, seed=1)
        assert found.lower_bound > alone.lower_bound + 0.4

    def test_left_out_of_the_account_it_is_noticed(self):
        stage = Scenario(evaluation_epsilon=3.0, rounds=1)
        assert audit("dp-admm", 4.0, DELTA, stage=stage, claimed=1.0, transcripts=2000, seed=1).violated

    @pytest.mark.parametrize("name", ["dp-admm", "pvp-graph"])
    def test_its_likelihood_ratio_has_mean_one(self, name):
        run = scene(ALGORITHMS[name], Multiplier(3.0, DELTA), replace(self.stage, evaluation_epsilon=0.5))
        ratios = np.exp(transcripts(run, 5_000, seed=1)[0, :, -1, RATIO])
        assert ratios.std() > 0.2
        assert abs(ratios.mean() - 1.0) <= 4.5 * ratios.std() / np.sqrt(ratios.size)

    def test_it_is_paid_for_by_the_rounds(self):
        assert audit("dp-admm", 4.0, DELTA, stage=self.stage, transcripts=500).claimed == pytest.approx(4.0)

    @pytest.mark.parametrize(
        ("stage", "said"),
        [
            (Scenario(evaluation_epsilon=4.0), "below epsilon"),
            (Scenario(evaluation_epsilon=1.0, loss="quantile"), "error rate"),
        ],
    )
    def test_what_it_needs(self, stage, said):
        with pytest.raises(InputError, match=said):
            audit("dp-admm", 4.0, DELTA, stage=stage)


class TestOneRun:
    @pytest.mark.parametrize(
        "name",
        [
            *("dp-admm", "dpsgd", "pvp", "obj-l", "dvp", "pvp-graph", "private-components"),
            *("dp-accelerated", "private-column-moments"),
        ],
    )
    def test_a_claim_that_holds_is_not_refuted(self, name):
        size = {"private-components": 60, "pvp": 80, "dvp": 80, "pvp-graph": 80}.get(name, 200)  # as many dimensions
        found = audit(name, 8.0, DELTA, method="one-run", canaries=size, seed=1)
        assert not found.violated
        assert (found.measured.canaries, found.measured.transcripts) == (size, 1)
        assert found.lower_bound > 0.3 or name == "obj-l"  # along axes, Laplace noise is far louder than it need be

    def test_more_canaries_say_more(self):
        few, many = (audit("dp-admm", 4.0, DELTA, method="one-run", canaries=size, seed=1) for size in (100, 1000))
        assert few.lower_bound < many.lower_bound < 4.0
        assert many.lower_bound > 1.3

    def test_a_tenth_of_the_noise_is_refuted(self):
        found = audit(
            "dp-admm", 1.0, DELTA, request=Multiplier(0.8, DELTA), claimed=1.0, method="one-run", canaries=300, seed=1
        )
        assert found.violated

    def found(self, monkeypatch, training, trial):
        """Of made-up coins, by the place of their scores, on the run that guesses are fixed on and on the other."""
        seeds, coins = [], iter((training, trial))
        monkeypatch.setattr(
            "dpadmm.audit.one_run._scored", lambda run, seed: (seeds.append(seed), (next(coins), np.arange(100.0)))[1]
        )
        found = guess(crowd(ALGORITHMS["dp-admm"], Multiplier(3.0, DELTA), Scenario(), 100), 0.95, 1e-3, seed=1)
        assert len(set(seeds)) == 2
        return found

    def test_how_many_are_guessed_is_fixed_on_another_run(self, monkeypatch):
        place = np.arange(100)
        wrong_between = (place >= 90) | ((place >= 10) & (place < 50))
        found = self.found(monkeypatch, wrong_between, place >= 50)
        number = int(found.statistic.split()[0])
        assert found.statistic == f"{number} of {number} guesses right"
        assert 10 <= number <= 20
        assert found.lower_bound == guessed(100, number, number, 0.95, 1e-3)

    def test_wrong_guesses_for_the_second_are_false_positives(self, monkeypatch):
        found = self.found(monkeypatch, np.arange(100) >= 50, np.zeros(100, dtype=bool))
        assert (found.false_positives, found.false_negatives) == (1.0, 0.0)
        assert found.lower_bound == 0.0

    def test_an_estimate_of_the_error_is_for_many_transcripts(self):
        with pytest.raises(InputError, match="one run"):
            audit("dp-admm", 4.0, DELTA, method="one-run", stage=Scenario(evaluation_epsilon=1.0), canaries=50)

    @pytest.mark.parametrize("canaries", [3, 1_000_000])
    def test_how_many_fit(self, canaries):
        with pytest.raises(InputError, match="canaries"):
            audit("dp-admm", 1.0, DELTA, method="one-run", canaries=canaries)


class TestAttacks:
    """The choice of statistic and line, on made-up evidence (2, transcripts, rounds, kinds)."""

    def evidence(self, ratio, noise):
        return np.stack((ratio, noise), axis=3)

    @pytest.mark.parametrize("seed", range(10))
    def test_the_likelihood_ratio_is_the_usual_one(self, seed):
        draw = np.random.default_rng(seed)
        noise = draw.normal(size=(2, 4000, 3)) + np.array([0.0, 0.2])[:, None, None]
        attack = trained(self.evidence(0.2 * noise - 0.02, noise), BOUNDS["gdp"], 0.95, DELTA)
        assert attack.name == "likelihood ratio"
        assert abs(attack.threshold) < 0.08  # near the middle, whatever luck says of the tails

    def test_noise_that_is_used_twice_is_noticed(self):
        draw = np.random.default_rng(0)
        noise = np.repeat(draw.normal(size=(2, 4000, 1)), 2, axis=2)
        noise[1] += np.array([0.2, 0.3])
        attack = trained(self.evidence(0.2 * noise, noise), BOUNDS["gdp"], 0.95, DELTA)
        assert attack.name == "trained"
        assert attack.reaches(self.evidence(0.2 * noise, noise), 0.95, DELTA) > 20.0

    def test_a_fit_that_looks_good_where_it_was_made_is_not_chosen(self):
        """Sixty rounds, of which one says something."""
        noise, tells = np.random.default_rng(0).normal(size=(2, 1000, 60)), np.arange(60) == 0
        noise[1] += tells
        attack = trained(self.evidence(tells * noise, noise), BOUNDS["gdp"], 0.95, DELTA)
        assert attack.name == "likelihood ratio"

    def test_an_attack_is_tried_on_transcripts_that_it_was_not_fixed_on(self, monkeypatch):
        fixed, tried, mistakes = [], [], Attack.mistakes
        monkeypatch.setattr(
            "dpadmm.audit.attacks.trained",
            lambda evidence, *more: (fixed.append(evidence), trained(evidence, *more))[1],
        )
        monkeypatch.setattr(
            Attack, "mistakes", lambda attack, evidence: (tried.append(evidence), mistakes(attack, evidence))[1]
        )
        audit("dp-admm", 1.0, DELTA, transcripts=1000)
        assert [each.shape[1] for each in (*fixed, tried[-1])] == [1000, 1000]
        assert not np.isin(fixed[0][..., RATIO], tried[-1][..., RATIO]).any()

    def test_a_curve_is_of_false_positives_and_false_negatives(self):
        curve = _curve(np.array([0.0, 0.0, 0.0, 3.0]), np.array([1.0, 2.0, 4.0, 5.0]))
        assert {(0.25, 0.0), (0.0, 0.5)} <= set(curve)
        assert set(_curve(np.zeros(4), np.zeros(4))) == {(0.0, 1.0)}  # on the line is not above it

    def test_evidence_without_any_says_nothing(self):
        nothing = np.zeros((2, 1000, 3, 2))
        attack = trained(nothing, BOUNDS["clopper-pearson"], 0.95, DELTA)
        assert attack.reaches(nothing, 0.95, DELTA) == 0.0

    def test_mistakes_are_counted_on_both_sides(self):
        draw = np.random.default_rng(1)
        noise = draw.normal(size=(2, 5000, 1)) + np.array([0.0, 2.0])[:, None, None]
        evidence = self.evidence(2.0 * noise - 2.0, noise)
        attack = replace(trained(evidence, BOUNDS["gdp"], 0.95, DELTA), threshold=0.0)
        mistakes = attack.mistakes(evidence)
        assert mistakes.false_positives == np.count_nonzero(noise[0] > 1.0)
        assert mistakes.false_negatives == np.count_nonzero(noise[1] <= 1.0)


def test_the_strongest_method_that_is_sound():
    gaussian, laplace = GaussianDpEvent(2.0), LaplaceDpEvent(2.0)
    assert usual_method({SelfComposedDpEvent(gaussian, 3): 2, NoOpDpEvent(): 1}) == "gdp"
    assert usual_method({gaussian: 1, laplace: 1}) == "clopper-pearson"
    assert usual_method({ComposedDpEvent((gaussian, laplace)): 1}) == "clopper-pearson"
    assert usual_method({}) == "clopper-pearson"


def test_an_audit_repeats_and_says_how_it_was_made():
    one, again = (audit("dp-admm", 2.0, DELTA, transcripts=1000, seed=3) for _ in range(2))
    assert one == again
    assert one != audit("dp-admm", 2.0, DELTA, transcripts=1000, seed=4)
    told = json.loads(json.dumps(one.summary(), allow_nan=False))
    assert {"claimed", "lower_bound", "confidence", "transcripts", "method", "training", "statistic"} <= set(told)
    assert (told["transcripts"], told["confidence"], told["simulated"]) == (1000, 0.95, True)
    assert "not refuted" in str(one)


@pytest.mark.parametrize("more", [{"transcripts": 1000}, {"method": "one-run", "canaries": 100}], ids=str)
def test_more_confidence_proves_less(more):
    bold, careful = (audit("dp-admm", 8.0, DELTA, confidence=c, seed=1, **more) for c in (0.5, 0.99))
    assert careful.lower_bound < bold.lower_bound


def test_a_claim_that_is_just_reached_is_not_refuted():
    found = audit("dp-admm", 2.0, DELTA, transcripts=1000, seed=3)
    assert not replace(found, claimed=found.lower_bound).violated
    assert replace(found, claimed=0.99 * found.lower_bound).violated


def test_a_ratio_is_a_number_or_infinite():
    found = audit("dp-admm", 2.0, DELTA, transcripts=1000, seed=3)
    assert replace(found, claimed=0.0).ratio == math.inf
    assert replace(found, claimed=0.0, measured=replace(found.measured, lower_bound=0.0)).ratio == 0.0
    assert replace(found, claimed=math.inf).ratio == 0.0


def test_a_claim_of_nothing_is_told_as_null():
    """Noise of zero: the account says infinity, and JSON has none."""
    found = audit("dp-admm", 1.0, DELTA, request=Multiplier(1e-3, DELTA), claimed=math.inf, transcripts=500)
    assert found.summary()["claimed"] is None
    assert not found.violated


def test_no_noise_is_refuted_whatever_is_claimed():
    found = audit("dp-admm", 1.0, DELTA, request=Multiplier(1e-6, DELTA), claimed=5.0, transcripts=1000)
    assert found.violated


def test_a_recipe_as_printed_is_audited_by_the_account_and_on_request_by_its_paper():
    account, paper = (audit("ps-admm-paper", 4.0, DELTA, paper_noise=p, transcripts=5_000, seed=1) for p in (0, 1))
    assert account.claimed == account.accounted == paper.accounted > 100.0
    assert paper.claimed == 4.0
    assert not account.violated
    assert paper.violated  # claims B5, at ten records


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"algorithm": "nonsense"}, "unknown algorithm"),
        ({"algorithm": "admm"}, "claims no privacy"),
        ({"delta": 1.0}, "delta"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"transcripts": 10}, "transcripts"),
        ({"confidence": 1.0}, "confidence"),
        ({"method": "guessing"}, "unknown method"),
        ({"method": "gdp", "algorithm": "obj-l"}, "nonsense"),
        ({"delta": 0.0}, "delta"),
    ],
)
def test_bad_input(changes, said):
    with pytest.raises(InputError, match=said):
        audit(**{"algorithm": "dp-admm", "epsilon": 1.0, "delta": DELTA} | changes)


class TestTable:
    def test_it_goes_between_the_marks(self, tmp_path, monkeypatch):
        monkeypatch.setattr("dpadmm.audit.summary.ALGORITHMS", {n: ALGORITHMS[n] for n in ("admm", "dp-admm", "obj-l")})
        told = []
        found = list(audits((1.0, 2.0), DELTA, announce=told.append, transcripts=500, seed=2))
        assert [each.algorithm for each in found] == ["dp-admm", "dp-admm", "obj-l", "obj-l"]
        assert told[0] == "dp-admm, epsilon 1"
        document = tmp_path / "audit.md"
        document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
        write(document, found)
        text = document.read_text()
        assert text.startswith(f"before\n{BEGIN}\nDelta 1e-05; 500 transcripts")
        assert text.endswith(f"{END}\nafter\n")
        assert text.count("| `dp-admm` |") == 2
        assert "old" not in text

    def test_papers_noise_where_a_paper_has_a_rule(self, monkeypatch):
        """Penalty perturbation is published by its density alone: it is left out, with the reason."""
        some = {name: ALGORITHMS[name] for name in ("dp-admm", "m-admm-penalty", "obj-l")}
        monkeypatch.setattr("dpadmm.audit.summary.ALGORITHMS", some)
        why = []
        found = list(audits((0.5,), DELTA, skipped=why.append, paper_noise=True, transcripts=500))
        assert [each.algorithm for each in found] == ["dp-admm", "obj-l"]
        assert found[1].claimed == 2.0
        recycled = ALGORITHMS["private-r-admm"].tuned(mechanism="gamma-norm")
        claimed = audit(recycled, 0.5, DELTA, paper_noise=True, transcripts=500).claimed
        assert claimed == 1.0  # two rounds of four read records
        assert len(why) == 1
        assert "m-admm-penalty is left out" in why[0]
        for paper in (True, False):  # what is wrong with the question is no reason to leave a recipe out
            with pytest.raises(InputError, match="at least 200"):
                list(audits((1.0,), DELTA, paper_noise=paper, transcripts=3))

    def test_a_refuted_claim_stands_out(self):
        found = audit("dp-admm", 1.0, DELTA, claimed=0.1, transcripts=5_000)
        assert "**refuted**" in markdown([found])

    def test_a_line_has_what_was_claimed_and_what_was_measured(self):
        found = audit("dp-admm", 1.0, DELTA, claimed=5.0, transcripts=2000, seed=1)
        told = markdown([found]).splitlines()
        assert "2,000 transcripts of each data set, and 2,000 more" in told[0]
        assert told[-1].startswith("Verdict: not refuted, in any of 1 audits.")
        line = f"| `dp-admm` | quantile | replace | 5 | {found.lower_bound:.3g} | {found.lower_bound / 5.0:.2f} | gdp |"
        assert line in told

    @pytest.mark.parametrize("text", ["no marks", BEGIN, END, f"{END} {BEGIN}"])
    def test_a_document_without_marks(self, tmp_path, text):
        document = tmp_path / "audit.md"
        document.write_text(text)
        with pytest.raises(InputError, match="no place"):
            write(document, [])
        assert document.read_text() == text
