"""The coefficient functions of models over curves: how far they are from the truth, where a simulation knows it."""

from __future__ import annotations

from dataclasses import dataclass

from dpadmm._arrays import FloatArray
from dpadmm.datasets.dataset import Described
from dpadmm.datasets.functional.base import gauss_legendre

NODES = 256  # of the quadrature: exact to rounding for smooth functions


def slopes(models: FloatArray, width: int, levels: int) -> FloatArray:
    """Models (runs, D) as coefficients in the basis, (runs, levels, width); an intercept is left out."""
    return models.reshape(len(models), -1, levels)[:, :width].swapaxes(1, 2)


@dataclass(frozen=True, eq=False)
class SlopeError:
    """The integrated squared error of every run's coefficient function, the mean over its levels (004: MISE)."""

    functions: FloatArray  # (nodes, width)
    truth: FloatArray  # (nodes,)
    lengths: FloatArray  # (nodes,)
    levels: int = 1

    @classmethod
    def of(cls, dataset: Described, levels: int = 1, rotation: FloatArray | None = None) -> SlopeError | None:
        """None where the records are no curves, or nobody knows the truth."""
        if dataset.basis is None or dataset.truth is None:
            return None
        nodes, lengths = gauss_legendre(NODES)
        functions = dataset.basis.values(nodes)
        return cls(functions if rotation is None else functions @ rotation, dataset.truth(nodes), lengths, levels)

    def __call__(self, models: FloatArray) -> FloatArray:
        apart = slopes(models, self.functions.shape[1], self.levels) @ self.functions.T - self.truth
        return (apart**2 @ self.lengths).mean(axis=1)
