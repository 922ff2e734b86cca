"""Whether releases differ from the noiseless answers by noise of the law that is claimed, and by nothing else.

The residual of a release is what it has more than the answer without noise, in units of the noise that was to be drawn.
Residuals must have the law of the noise number by number, and be independent of each other: within a release and from
one round to the next. An attack looks along one direction, from one data set to another; this looks along all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import chi2, kstest, laplace

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations import Gradient, Objective, Output
from dpadmm.audit.likelihood import explained
from dpadmm.audit.observed import EVALUATION, Message
from dpadmm.audit.scene import Scene
from dpadmm.audit.transcripts import RandomnessSource, SideBySide, heard
from dpadmm.privacy.mechanisms import Gaussian, Laplace
from dpadmm.problems.shards import Shards

EACH = 2_000  # transcripts of each data set
_TINY = 1e-300


def residuals(message: Message, sides: Sequence[Shards]) -> FloatArray | None:
    """(transcripts, numbers), uniform between 0 and 1 if the noise is what it should be; None where one noise is not
    all that a release has: several steps, mini-batches, and noise whose numbers depend on each other."""
    if message.round == EVALUATION:
        mechanism = message.plan.evaluation
    elif not message.phase.solver.reads_records:
        return None
    else:
        solver, mechanism = message.phase.solver, message.plan.noise_in(message.round).mechanism
        one = isinstance(message.phase.perturbation, Gradient | Output | Objective) and solver.steps == 1
        if not one or getattr(solver, "sampled", False):
            return None
    if not isinstance(mechanism, Gaussian | Laplace):
        return None
    noises = [explained(message, shards)[1] for shards in sides]
    half = len(noises[0]) // 2
    noise = np.concatenate((noises[0][:half], noises[1][half:]))
    return np.asarray(ndtr(noise) if isinstance(mechanism, Gaussian) else laplace.cdf(noise))


def p_value(uniform: FloatArray) -> float:
    """How likely numbers (transcripts, numbers) are to look as little uniform and independent as these, or less.

    The least of four tests, times four: each number by itself; products of two; products of two squares; lengths.
    """
    scores = ndtri(np.clip(uniform, 1e-16, 1.0 - 1e-16))
    alone = [kstest(column, "uniform").pvalue for column in uniform.T]
    length = kstest(chi2.cdf(np.square(scores).sum(axis=1), scores.shape[1]), "uniform").pvalue
    tests = [min(alone) * len(alone), length]
    if scores.shape[1] > 1:
        tests += [_together(scores), _together(np.square(scores))]
    return float(min(1.0, len(tests) * min(tests)))


def _together(numbers: FloatArray) -> float:
    """Of the largest correlation of two columns, for as many pairs as there are."""
    with np.errstate(all="ignore"):
        found = np.asarray(np.corrcoef(numbers, rowvar=False))[np.triu_indices(numbers.shape[1], 1)]
    largest = np.nan_to_num(np.abs(found), nan=1.0).max()
    return float(max(_TINY, 2.0 * ndtr(-largest * np.sqrt(len(numbers))) * found.size))


def of_noise(run: Scene, seed: int, source: RandomnessSource = SideBySide, each: int = EACH) -> float | None:
    """The p-value of all residuals of a run together; None where no round has residuals of a known law."""
    columns = []
    for message, sides in heard(run, each, seed, source):
        found = residuals(message, sides)
        if found is not None:
            columns.append(found)
    return p_value(np.concatenate(columns, axis=1)) if columns else None
