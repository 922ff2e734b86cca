"""Records from gradients.

The gradient of an agent's loss is a sum over its records, each record times how wrong the model is about it:

    logistic   -weight Σ_j u_j / (1 + exp(<u_j, x>)),  u_j = b_j a_j
    softmax     weight Σ_j a_j (p_j(X) - e_{b_j})ᵀ

At the model zero everybody's wrongness is known, so one record is read off the first gradient. Several records are told
apart by the rounds that follow: the rows are fitted to all gradients by least squares. Gradients without noise span no
more than the records do, so that few numbers are unknown; with noise on them it is the same fit, of more numbers.

What limits it, without noise: as many directions as records must show in the gradients (for logistic at least as many
rounds as records; a softmax gradient alone has one for each class but one), and the models must move enough that the
records of a class are no longer all equally wrong. Seen with rows no longer than 1 and ten rounds of linearised ADMM:
five logistic records come back to ten digits; with seven and ten the fit mostly ends in a valley, rows off by 10 to
20 % in the median where records resemble each other (breast-cancer), by half and more where not. Short steps or a
large rho, as in gradient descent at 0.1, lower the five to three. Ten softmax records come back to twelve digits; of
twenty a few do and the rest are off by a third, for want of effort: such a fit is cut short.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares, linear_sum_assignment

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.privacy.randomness import generator

STARTS = 20  # of the search, as the effort allows
EVALUATIONS, FEW = 300, 30  # of one start; few where only noise is left to be fitted
EFFORT = 1.5e9  # of all starts together: residuals times unknowns squared times evaluations
SMALL = 1.5e7  # effort of an evaluation, up to which the fit goes on to the last digit
EXACT = 1e-14  # misfit, relative to the gradients, at which nothing is left to be found
ROUNDING = 1e-12  # directions of the gradients below this share of the first are made of rounding
UNKNOWNS = 128  # numbers to fit where noise leaves no direction out; the strongest directions are kept
TINY = 1e-300  # for quotients of lengths
FAR = 1e6  # no row is as long; a step of the fit that goes farther must not overflow


@dataclass(frozen=True, eq=False)
class Recovered:
    """What an attacker makes of the gradients.

    `labels` are class numbers, or signs for the logistic loss. They are None where they were not found: the logistic
    gradient depends on the product of sign and row alone, and for several records of a softmax model the attacker is
    given them.
    """

    rows: FloatArray  # (m, width)
    labels: IntArray | None
    misfit: float  # how far the gradients of these rows are from those seen, relative to the latter
    products: bool = False  # whether rows are those products, for want of signs


@dataclass(frozen=True, eq=False)
class RecoveredMatch:
    """Recovered records beside the true ones, in the order of the latter."""

    rows: FloatArray
    relative_error: FloatArray  # |found - true| / |true|
    cosine: FloatArray
    label_right: tuple[bool | None, ...]  # None where labels were not found


@dataclass(frozen=True, eq=False)
class Fit:
    """Gradients and the rows that could have made them, in the coordinates of the directions that the former span.

    A row has no part outside: it would show in the gradients.
    """

    points: FloatArray  # (T, r, K), K columns of a model: 1 for logistic
    slopes: FloatArray  # (T, r, K), for a record's weight of one
    labels: IntArray | None  # of the softmax rows

    def residual(self, numbers: FloatArray) -> FloatArray:
        """Of all gradients, from the rows' coordinates (m * r,)."""
        rows = self._rows(numbers)
        wrong, _ = wrongness(np.einsum("trk,mr->tmk", self.points, rows), self.labels)
        return (np.einsum("mr,tmk->trk", rows, wrong) - self.slopes).ravel()

    def jacobian(self, numbers: FloatArray) -> FloatArray:
        """Its derivative: a row moves a gradient by itself, and by how wrong the model is about it."""
        rows = self._rows(numbers)
        wrong, bend = wrongness(np.einsum("trk,mr->tmk", self.points, rows), self.labels)
        turned = np.einsum("tmkl,tql->tmkq", bend, self.points)
        found = np.einsum("mr,tmkq->trkmq", rows, turned)
        each = np.arange(rows.shape[1])
        found[:, each, :, :, each] += wrong.transpose(0, 2, 1)
        return found.reshape(self.slopes.size, -1)

    def first(self, records: int) -> FloatArray:
        """Rows from the round whose model is nearest to zero, as if it were; records of one class share their sum."""
        early = int(np.argmin(np.einsum("trk,trk->t", self.points, self.points)))
        wrong, _ = wrongness(np.zeros((records, self.points.shape[2])), self.labels)
        return np.linalg.pinv(wrong.T) @ self.slopes[early].T

    def misfit(self, rows: FloatArray) -> float:
        return float(np.linalg.norm(self.residual(rows.ravel()))) / max(float(np.linalg.norm(self.slopes)), TINY)

    def strongest(self, directions: int) -> Fit:
        """In these many of the directions, which come in order."""
        return replace(self, points=self.points[:, :directions], slopes=self.slopes[:, :directions])

    def effort(self, records: int) -> float:
        """Of one evaluation, roughly."""
        return float(self.slopes.size) * (records * self.points.shape[1]) ** 2

    def solve(self, start: FloatArray) -> FloatArray:
        """The rows nearest to the gradients, as far as this start leads."""
        small = self.effort(len(start)) <= SMALL and start.size <= self.slopes.size
        tight = 1e-15 if small else 1e-6
        found = least_squares(
            self.residual, start.ravel(), self.jacobian, method="lm" if small else "trf", ftol=tight, xtol=tight,
            gtol=tight, max_nfev=EVALUATIONS if small else FEW, tr_solver=None if small else "lsmr",
        )  # fmt: skip
        return self._rows(found.x)

    def _rows(self, numbers: FloatArray) -> FloatArray:
        finite = np.nan_to_num(np.clip(numbers, -FAR, FAR))  # a step may also end nowhere
        return finite.reshape(-1, self.points.shape[1])


def wrongness(scores: FloatArray, labels: IntArray | None) -> tuple[FloatArray, FloatArray]:
    """What each row of records is multiplied with in the gradient, and how that changes with the scores.

    Scores (..., m, K) are <u_j, x>, or Xᵀa_j where there are labels.
    """
    if labels is None:
        wrong = np.exp(-np.logaddexp(0.0, scores))
        return -wrong, (wrong * (1.0 - wrong))[..., None]
    lifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    share = lifted / lifted.sum(axis=-1, keepdims=True)
    one = np.eye(scores.shape[-1])
    return share - one[labels], share[..., :, None] * (one - share[..., None, :])


def invert(
    points: FloatArray,
    gradients: FloatArray,
    *,
    weight: float,
    records: int,
    classes: int,
    bound: float,
    labels: IntArray | None = None,
    positive: bool = False,
    inexact: float = 0.0,
    seed: int = 0,
) -> Recovered:
    """The records whose gradients at these points (T, D) are these (T, D), as nearly as can be.

    Two classes mean the logistic loss, more the softmax. `weight` is a record's in the sum, `bound` the public one on a
    row's length. `positive` says that features are known not to be negative, which tells a row from its negative, and
    so the label of a logistic record. `inexact` is how far off a gradient may be without any noise. Labels of several
    softmax records must be given, which is the usual assumption; that of one is found.
    """
    columns = 1 if classes == 2 else classes
    models = points.reshape(len(points), -1, columns)
    slopes = gradients.reshape(models.shape) / weight
    given = labels if columns > 1 else None
    if columns > 1 and records == 1:
        # The entries of p - e_b sum to zero and one alone is negative: no other is as large.
        given = np.array([np.einsum("tdk,tdk->k", slopes, slopes).argmax()])
    if columns > 1 and (given is None or len(given) != records):
        raise ValueError(f"the labels of {records} softmax records are not found from gradients; give them")
    basis = _directions(slopes, records, inexact / weight)
    fit = Fit(np.einsum("dr,tdk->trk", basis, models), np.einsum("dr,tdk->trk", basis, slopes), given)
    found = _best(fit, records, bound, seed)
    rows, misfit = found @ basis.T, fit.misfit(found)
    if columns > 1:
        return Recovered(rows, given if records == 1 else None, misfit)
    if not positive:
        return Recovered(rows, None, misfit, products=True)
    signs = np.where(rows.sum(axis=1) < 0.0, -1, 1)
    return Recovered(rows * signs[:, None], signs, misfit)


def _directions(slopes: FloatArray, records: int, inexact: float) -> FloatArray:
    """An orthonormal basis (width, r) of what the gradients span, strongest first: without noise, what records span."""
    side_by_side = slopes.transpose(1, 0, 2).reshape(slopes.shape[1], -1)
    basis, lengths, _ = np.linalg.svd(side_by_side, full_matrices=False)
    count = int(np.count_nonzero(lengths > max(ROUNDING * lengths[0], np.sqrt(len(slopes)) * inexact)))
    return basis[:, : max(1, min(count, max(records, UNKNOWNS // records)))]


def _best(fit: Fit, records: int, bound: float, seed: int) -> FloatArray:
    """The rows that fit best, none longer than the bound: searched for in as many directions as there are records, the
    strongest, and where noise leaves more, fitted in all of them from there and from the first guess."""
    found = _search(fit.strongest(records), records, bound, seed)
    beyond = fit.points.shape[1] - found.shape[1]
    if not beyond:
        return found
    starts = (fit.first(records), np.pad(found, ((0, 0), (0, beyond))))
    tried = [_clipped(rows, bound) for start in starts for rows in (start, fit.solve(start))]
    return min(tried, key=fit.misfit)


def _clipped(rows: FloatArray, bound: float) -> FloatArray:
    """Rows that are longer than the bound, scaled down to it."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * (bound / np.maximum(lengths, bound))


def _search(fit: Fit, records: int, bound: float, seed: int) -> FloatArray:
    """From several starts, until nothing is left to be found."""
    draw, first = generator(seed, "inversion"), fit.first(records)
    best = _clipped(first, bound)
    left = fit.misfit(best)
    spread = 0.5 * np.linalg.norm(best, axis=1).mean() / np.sqrt(first.shape[1])
    starts = int(np.clip(EFFORT / (EVALUATIONS * fit.effort(records)), 2, STARTS))
    for start in range(starts):
        begin = first
        if records > 1:  # those of one class begin as their mean, from where no step could tell them apart
            begin = first + spread * (1.0 if start else 0.002) * draw.normal(size=first.shape)
        elif start > 0:  # if no model was near zero, the direction is right, and the length is not
            begin = best * (bound * start / starts / max(float(np.linalg.norm(best)), TINY))
        rows = _clipped(fit.solve(begin), bound)
        misfit = fit.misfit(rows)
        if misfit < left:
            best, left = rows, misfit
        if left <= EXACT:
            break
    return best


def compare(found: Recovered, rows: FloatArray, labels: IntArray) -> RecoveredMatch:
    """Every true record beside the recovered one that an assignment of all gives it."""
    target = rows * labels[:, None] if found.products else rows
    apart = np.linalg.norm(target[:, None, :] - found.rows[None, :, :], axis=2)
    _, order = linear_sum_assignment(apart)
    matched = found.rows[order]
    lengths = np.maximum(np.linalg.norm(target, axis=1), TINY)
    products = lengths * np.maximum(np.linalg.norm(matched, axis=1), TINY)
    return RecoveredMatch(
        rows=matched,
        relative_error=np.linalg.norm(matched - target, axis=1) / lengths,
        cosine=np.einsum("md,md->m", matched, target) / products,
        label_right=tuple(
            None if found.labels is None else bool(found.labels[place] == label)
            for place, label in zip(order, labels, strict=True)
        ),
    )
