"""The audit: is what a recipe claims refuted by what an attacker can tell?

It can refute a claim, with a stated confidence; it can never prove one. The claim's proof is its lemma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpadmm.admm.algorithm import Algorithm, Plan
from dpadmm.admm.setting import NoiseRequest, PaperNoise, TotalBudget
from dpadmm.audit.attacks import distinguish
from dpadmm.audit.bounds import BOUNDS, EXACT, GAUSSIAN, METHODS, ONE_RUN, Measured
from dpadmm.audit.noise_law import of_noise
from dpadmm.audit.one_run import Crowd, crowd, guess
from dpadmm.audit.scene import Scenario, Scene, scene
from dpadmm.audit.transcripts import Progress, RandomnessSource, SideBySide
from dpadmm.errors import InputError, unknown
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.claims import Claim
from dpadmm.privacy.events import GaussianDpEvent, Tally, flatten
from dpadmm.privacy.randomness import derived
from dpadmm.spec.parts import given

CONFIDENCE = 0.95
TRANSCRIPTS = 20_000
CANARIES = 1_000
FEWEST = 200
IMPOSSIBLE = 1e-6  # a p-value; of a thousand audits one in a thousand shows so little by chance


@dataclass(frozen=True)
class Audit:
    """What was claimed, and what was measured.

    Attributes:
        algorithm: The recipe's name.
        loss: The loss's name.
        relation: Which data sets count as neighbours.
        rounds: Of each run.
        claimed: Epsilon; infinite where no privacy is claimed.
        claim: Whose it is: the account's, a paper's, or that of whoever asked.
        accounted: What the account says, whatever is claimed.
        delta: Of claim and account.
        confidence: Of the lower bound.
        method: How the bound was found.
        measured: The lower bound, and what it follows from.
        seed: Of the transcripts.
        noise: The p-value of all residuals against the law of the noise; None where a release has no noise of one law.
    """

    algorithm: str
    loss: str
    relation: str
    rounds: int
    claimed: float  # epsilon; infinite where no privacy is claimed
    claim: str  # whose it is: the account's, a paper's, or that of whoever asked
    accounted: float  # what the account says, whatever is claimed
    delta: float
    confidence: float
    method: str
    measured: Measured
    seed: int
    noise: float | None = None  # how likely residuals are to look as little like the noise claimed as these, or less

    @property
    def lower_bound(self) -> float:
        """On epsilon, at the confidence."""
        return self.measured.lower_bound

    @property
    def ratio(self) -> float:
        """Measured over claimed."""
        if self.claimed > 0.0:
            return self.lower_bound / self.claimed
        return math.inf if self.lower_bound > 0.0 else 0.0

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.lower_bound > self.claimed

    @property
    def wrong_noise(self) -> bool:
        """Whether residuals surely have another law than the noise that was to be drawn, whatever it leaks."""
        return self.noise is not None and self.noise < IMPOSSIBLE

    def summary(self) -> dict[str, Any]:
        """As JSON; infinities become null.

        Returns:
            Plain values by name.
        """
        told = {**vars(self), **vars(self.measured), "ratio": self.ratio, "violated": self.violated, "simulated": True}
        del told["measured"], told["curve"]
        return {name: None if isinstance(v, float) and not math.isfinite(v) else v for name, v in told.items()}

    def __str__(self) -> str:
        verdict = "refuted" if self.violated else "not refuted"
        said = (
            f"{self.algorithm}: epsilon {self.claimed:.4g} at delta {self.delta:g} is {verdict}: the attack shows at "
            f"least {self.lower_bound:.4g} of the claimed {self.claimed:.4g}, with {self.confidence:.0%} confidence "
            f"({self.method}, {self.measured.statistic})"
        )
        if self.noise is None:
            return said
        law = "is not" if self.wrong_noise else "looks like"
        return f"{said}; the noise {law} what it should be (p {self.noise:.2g})"


def audit(
    algorithm: Algorithm | str,
    epsilon: float,
    delta: float = 0.0,
    *,
    stage: Scenario | None = None,
    request: NoiseRequest | None = None,
    paper_noise: bool = False,
    claimed: float | None = None,
    method: str | None = None,
    transcripts: int = TRANSCRIPTS,
    canaries: int = CANARIES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    source: RandomnessSource = SideBySide,
    progress: Progress | None = None,
) -> Audit:
    """Attacks a recipe with this total budget.

    Args:
        algorithm: A registry name, an import path or a recipe.
        epsilon: The total budget; with `paper_noise` that of every step, as papers have it.
        delta: Likewise.
        stage: The attacker's public choices; None: the worst that the recipe accepts.
        request: Other noise than the budget's.
        paper_noise: Whether noise is the papers' own, and what is attacked the total that the paper claims.
        claimed: Another claim in place of the account's.
        method: How the bound is found; `gdp` takes the claim for one of Gaussian releases. None:
            the strongest that is sound for what is released.
        transcripts: How many runs are attacked, half of them to learn from.
        canaries: Records that are guessed, where one run is attacked.
        confidence: Of the lower bound.
        seed: Of the transcripts.
        source: Where the noise comes from.
        progress: Told how far it is.

    Returns:
        What was claimed, and what was measured.

    Raises:
        InputError: The recipe claims no privacy, or the attack does not go with it.
    """
    recipe = _recipe(algorithm)
    _check(delta, confidence, transcripts)
    stage = stage or Scenario()
    budget = _of_rounds(epsilon, delta, stage.evaluation_epsilon)
    if request is None:
        request = PaperNoise(budget) if paper_noise or recipe.as_printed else TotalBudget((budget,))
    run: Crowd | Scene
    noise = None
    if method == ONE_RUN:
        run = crowd(recipe, request, stage, canaries)
        measured = guess(run, confidence, delta, seed)
    else:
        run = scene(recipe, request, stage)
        sound = usual_method(run.plan.accounts().tally(0))
        method = method or sound
        if method not in BOUNDS:
            raise unknown("method", method, METHODS)
        if method == GAUSSIAN != sound and claimed is None:
            raise InputError(
                f"method 'gdp' is for claims of Gaussian releases, and not all of {recipe.name!r} here are: it would "
                f"report nonsense. Use 'clopper-pearson'."
            )
        measured = distinguish(run, BOUNDS[method], transcripts, confidence, delta, seed, source, progress)
        noise = of_noise(run, derived(seed, "noise"), source)
    plan = run.plan
    accounted = plan.accounts().guarantee(0, delta).epsilon
    whose = "asked"
    if claimed is None:
        claimed, whose = (_printed(plan, budget), "paper") if paper_noise else (accounted, "account")
    return Audit(
        algorithm=recipe.name,
        loss=plan.setting.problem.loss.name,
        relation=str(plan.setting.relation),
        rounds=plan.setting.rounds,
        claimed=claimed,
        claim=whose,
        accounted=accounted,
        delta=delta,
        confidence=confidence,
        method=method,
        measured=measured,
        seed=seed,
        noise=noise,
    )


def _check(delta: float, confidence: float, transcripts: int) -> None:
    if not 0.0 <= delta < 1.0:
        raise InputError(f"delta {delta:g}: must lie between 0 and 1, such as 1e-5.")
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence {confidence:g}: must lie between 0 and 1, such as 0.95.")
    if transcripts < FEWEST:
        raise InputError(f"{transcripts} transcripts: at least {FEWEST} are needed to say anything.")


def _of_rounds(epsilon: float, delta: float, evaluation: float | None) -> Budget:
    """What is left for the rounds."""
    if evaluation is not None and not 0.0 < evaluation < epsilon:
        raise InputError(f"evaluation epsilon {evaluation:g}: must be positive and below epsilon {epsilon:g}.")
    return Budget(epsilon - (evaluation or 0.0), delta)


def usual_method(tally: Tally) -> str:
    """The strongest that is sound for these events."""
    flat = flatten(tally)
    return GAUSSIAN if flat and all(isinstance(event, GaussianDpEvent) for event in flat) else EXACT


def _recipe(algorithm: Algorithm | str) -> Algorithm:
    found: Algorithm | str = given("algorithm", algorithm) if isinstance(algorithm, str) else algorithm
    if isinstance(found, str):
        if found not in ALGORITHMS:
            raise unknown("algorithm", found, ALGORITHMS)
        found = ALGORITHMS[found]
    if not found.private:
        raise InputError(f"algorithm {found.name!r} claims no privacy, so there is nothing to audit.")
    return found


def _printed(plan: Plan, budget: Budget) -> float:
    """The total that the recipe's paper claims for noise of this budget a step."""
    if plan.algorithm.as_printed:
        return budget.epsilon
    steps = sum(
        phase.solver.steps * plan.algorithm.times(place, plan.setting.rounds)
        for place, phase in enumerate(plan.algorithm.phases)
        if phase.solver.reads_records
    )
    if usual_method(plan.accounts().tally(0)) == GAUSSIAN:
        return Claim(plan.algorithm.name, budget.epsilon, budget.delta, steps).total
    return steps * budget.epsilon
