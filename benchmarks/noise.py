"""What exact noise costs: nanoseconds a number on one core, random bits included, beside inexact and other exact noise.

"opendp" is OpenDP's samplers, also exact. "inverse" is the method of version 0.1.0, not exact: one word for each
number, through the inverse of the normal (or exponential) distribution function in floating point.

python benchmarks/noise.py --json
"""

from __future__ import annotations

import numba
import numpy as np
import opendp.prelude as opendp
from scipy.special import ndtri

from dpadmm.release.noise import discrete_gaussian, discrete_laplace
from dpadmm.release.random_bits import SystemRandomness
from timing import arguments, best, show

SCALE = 2**30 + 12345  # the slowest kind: just above a power of two, half of the uniform integers are refused
SHAPES = ((1, 104), (100, 104), (1, 7_850), (1, 1_000_000))
MOST_FOR_OPENDP = 20_000  # numbers; it takes ten microseconds for each


def main() -> None:
    given = arguments(__doc__ or "", repeats=20)
    numba.set_num_threads(1)
    opendp.enable_features("contrib")
    integers = opendp.vector_domain(opendp.atom_domain(T=int))
    source = SystemRandomness()
    cases = []
    for rows, dimension in SHAPES:
        scales, names = np.full(rows, SCALE), np.zeros(rows, dtype=np.int64)

        def ours(draw, scales=scales, names=names, dimension=dimension):
            return lambda: draw(scales, dimension, source.stream(names, names, 1, "benchmark"))

        def inverse(number, names=names, dimension=dimension):
            return lambda: number(source.stream(names, names, 1, "benchmark").words(0, dimension)) * float(SCALE)

        contenders = {
            "gaussian": ours(discrete_gaussian),
            "laplace": ours(discrete_laplace),
            "inverse_gaussian": inverse(normal),
            "inverse_laplace": inverse(exponential),
        }
        numbers = rows * dimension
        if numbers <= MOST_FOR_OPENDP:
            gaussian = opendp.m.make_gaussian(integers, opendp.l2_distance(T=float), scale=float(SCALE))
            laplace = opendp.m.make_laplace(integers, opendp.l1_distance(T=int), scale=float(SCALE))
            nothing = [0] * numbers
            contenders["opendp_gaussian"] = lambda gaussian=gaussian, nothing=nothing: gaussian(nothing)
            contenders["opendp_laplace"] = lambda laplace=laplace, nothing=nothing: laplace(nothing)
        times = best(contenders, given.repeats)
        case = {"rows": rows, "dimension": dimension}
        case |= {f"{name}_nanoseconds": time * 1e6 / numbers for name, time in times.items()}
        for law in ("gaussian", "laplace"):
            for other in ("inverse", "opendp"):
                if f"{other}_{law}" in times:
                    case[f"{law}_over_{other}"] = times[law] / times[f"{other}_{law}"]
        cases.append(case)
    show({"scale": SCALE, "cases": cases}, given.json)


MAGNITUDE = np.uint64(2**63 - 1)


def normal(words):
    lower = ndtri(((words & MAGNITUDE).astype(np.float64) + 0.5) * 2.0**-64)
    return np.copysign(lower, words.view(np.int64))


def exponential(words):
    uniform = ((words & MAGNITUDE).astype(np.float64) + 0.5) * 2.0**-63
    return np.copysign(np.log(uniform), words.view(np.int64))


if __name__ == "__main__":
    main()
