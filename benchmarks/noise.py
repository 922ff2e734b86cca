"""What noise costs: 100 x 104 normals, keyed and repeatable or from the operating system, against plain NumPy.

python benchmarks/noise.py --json
"""

from __future__ import annotations

import numpy as np

from dpadmm.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from dpadmm.privacy.randomness import SeededRandomness, SystemRandomness
from timing import arguments, best, show

AGENTS, DIMENSION = 100, 104


def main() -> None:
    given = arguments(__doc__ or "", repeats=200)
    numpy_stream = np.random.Generator(np.random.PCG64(0))
    runs, agents = np.zeros(AGENTS, dtype=np.int64), np.arange(AGENTS)
    value, unit = np.zeros((AGENTS, DIMENSION)), np.ones(AGENTS)

    def add(kind, source, lattice=False):
        mechanism = kind(unit).on_lattice() if lattice else kind(unit)
        count = mechanism.words_needed(DIMENSION)
        return lambda: mechanism.add(value, unit, source.random_bits(runs, agents, 1, "benchmark", count))

    times = best(
        {
            "numpy": lambda: value + numpy_stream.standard_normal((AGENTS, DIMENSION)),
            "gaussian_seeded": add(Gaussian, SeededRandomness(0)),
            "gaussian_system": add(Gaussian, SystemRandomness()),
            "gaussian_secure": add(Gaussian, SystemRandomness(), lattice=True),
            "laplace_system": add(Laplace, SystemRandomness()),
            "gamma_norm_system": add(GammaNorm, SystemRandomness()),
        },
        given.repeats,
    )
    show(
        {
            "seeded_ratio": times["gaussian_seeded"] / times["numpy"],
            "system_ratio": times["gaussian_system"] / times["numpy"],
            "secure_ratio": times["gaussian_secure"] / times["numpy"],  # at most 5
            "numbers": AGENTS * DIMENSION,
            **{f"{name}_milliseconds": value for name, value in times.items()},
        },
        given.json,
    )


if __name__ == "__main__":
    main()
