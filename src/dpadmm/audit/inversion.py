"""Records from gradients.

The gradient of an agent's loss is a sum over its records, each record times how wrong the model is about it:

    logistic   -weight Σ_j u_j / (1 + exp(<u_j, x>)),  u_j = b_j a_j
    softmax     weight Σ_j a_j (p_j(X) - e_{b_j})ᵀ

At the model zero everybody's wrongness is known, so one record is read off the first gradient. Several records are told
apart by the rounds that follow: the rows are fitted to all gradients by least squares. Gradients without noise span no
more than the records do, so that few numbers are unknown; with noise on them it is the same fit, of more numbers.

What limits it, without noise: as many directions as records must show in the gradients (for logistic at least as many
rounds as records; a softmax gradient has one for each class but one), and the models must move enough that records of
one class are no longer all equally wrong. With rows no longer than 1 and ten rounds of ADMM, five logistic records come
back to ten digits and seven often do; of ten the fit ends in a valley, with gradients right to 1e-6 and rows to 20 % (where
the data resemble each other) or not at all. Ten softmax records are no difficulty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares, linear_sum_assignment

from dpadmm.privacy.randomness import generator
from dpadmm.problems.rows import clip_rows
from dpadmm.problems.shards import FloatArray, IntArray

STARTS = 20  # of the fit of several records, at most
EVALUATIONS = 300  # of one start
EXACT = 1e-14  # misfit, relative to the gradients, at which nothing is left to be found
ROUNDING = 1e-12  # directions of the gradients below this share of the first are made of rounding
UNKNOWNS = 200  # numbers to fit where noise leaves no direction out; the strongest directions are kept
SMALL = 150  # unknowns up to which dense linear algebra is the better bargain


@dataclass(frozen=True, eq=False)
class Recovered:
    """What an attacker makes of the gradients.

    `labels` are class numbers, or signs for the logistic loss. They are None where they were not found: the logistic
    gradient depends on the product of sign and row alone, and for several records of a softmax model the attacker is
    given them. Where a sign was not found, `rows` are those products.
    """

    rows: FloatArray  # (m, width)
    labels: IntArray | None
    misfit: float  # how far the gradients of these rows are from those seen, relative to the latter


@dataclass(frozen=True, eq=False)
class Comparison:
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
        return float(np.linalg.norm(self.residual(rows.ravel()))) / max(float(np.linalg.norm(self.slopes)), 1e-300)

    def solve(self, start: FloatArray) -> FloatArray:
        """The rows nearest to the gradients, as far as this start leads."""
        if start.size <= min(SMALL, self.slopes.size):
            tight, how = 1e-15, {"method": "lm", "max_nfev": EVALUATIONS}
        else:
            tight, how = 1e-8, {"method": "trf", "tr_solver": "lsmr", "max_nfev": 30}
        found = least_squares(self.residual, start.ravel(), self.jacobian, ftol=tight, xtol=tight, gtol=tight, **how)
        return found.x.reshape(start.shape)

    def _rows(self, numbers: FloatArray) -> FloatArray:
        return numbers.reshape(-1, self.points.shape[1])


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
    seed: int = 0,
) -> Recovered:
    """The records whose gradients at these points (T, D) are these (T, D), as nearly as can be.

    Two classes mean the logistic loss, more the softmax. `weight` is a record's in the sum, `bound` the public one on a
    row's length, and `positive` says that features are known not to be negative, which tells a row from its
    negative and so the label of a logistic record. Labels of several softmax records must be given, which is the usual
    assumption; that of one is found.
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
    basis = _directions(slopes, records)
    fit = Fit(np.einsum("dr,tdk->trk", basis, models), np.einsum("dr,tdk->trk", basis, slopes), given)
    found = _best(fit, records, bound, seed)
    rows, misfit = found @ basis.T, fit.misfit(found)
    if columns > 1:
        return Recovered(rows, given if records == 1 else None, misfit)
    if not positive:
        return Recovered(rows, None, misfit)
    signs = np.where(rows.sum(axis=1) < 0.0, -1, 1)
    return Recovered(rows * signs[:, None], signs, misfit)


def _directions(slopes: FloatArray, records: int) -> FloatArray:
    """An orthonormal basis (width, r) of what the gradients span: without noise that is what the records span."""
    side_by_side = slopes.transpose(1, 0, 2).reshape(slopes.shape[1], -1)
    basis, lengths, _ = np.linalg.svd(side_by_side, full_matrices=False)
    count = int(np.count_nonzero(lengths > ROUNDING * lengths[0]))
    return basis[:, : max(1, min(count, max(records, UNKNOWNS // records)))]


def _best(fit: Fit, records: int, bound: float, seed: int) -> FloatArray:
    """The rows that fit best, of several starts, none longer than the bound; a fit that is found again is final."""
    draw, first = generator(seed, "inversion"), fit.first(records)
    best, _ = clip_rows(first, bound)
    left = fit.misfit(best)
    spread = 0.5 * np.linalg.norm(best, axis=1).mean() / np.sqrt(first.shape[1])
    for start in range(STARTS if records > 1 else 1):
        # Records of one class begin as their mean; from there no step could tell them apart.
        apart = 0.0 if records == 1 else spread * (0.002 if start == 0 else 1.0)
        rows, _ = clip_rows(fit.solve(first + apart * draw.normal(size=first.shape)), bound)
        misfit = fit.misfit(rows)
        again = start > 0 and abs(misfit - left) <= 1e-6 * left
        if misfit < left:
            best, left = rows, misfit
        if left <= EXACT or again:
            break
    return best


def compare(found: Recovered, rows: FloatArray, labels: IntArray) -> Comparison:
    """Every true record beside the recovered one that an assignment of all gives it."""
    target = rows if found.labels is not None or labels.min() >= 0 else rows * labels[:, None]
    apart = np.linalg.norm(target[:, None, :] - found.rows[None, :, :], axis=2)
    _, order = linear_sum_assignment(apart)
    matched = found.rows[order]
    lengths = np.maximum(np.linalg.norm(target, axis=1), 1e-300)
    products = lengths * np.maximum(np.linalg.norm(matched, axis=1), 1e-300)
    return Comparison(
        rows=matched,
        relative_error=np.linalg.norm(matched - target, axis=1) / lengths,
        cosine=np.einsum("md,md->m", matched, target) / products,
        label_right=tuple(
            None if found.labels is None else bool(found.labels[place] == label)
            for place, label in zip(order, labels, strict=True)
        ),
    )
