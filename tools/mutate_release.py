"""Changes privacy-critical constants and comparisons of the release path one by one, and runs the tests that should
notice: `python tools/mutate_release.py [part of a name ...]`.

Every change is made in a copy of the package in a temporary folder. A change that no test notices is a survivor: write
the test. Changed kernels are compiled anew, so all of it takes tens of minutes; a part of a name runs some of it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROWS, SLOPES, SUMS, PERTURB = (f"tests/release/test_{name}.py" for name in ("rows", "slopes", "sums", "perturb"))
TOO_LONG = 900  # seconds; a change that makes a loop endless is noticed too


@dataclass(frozen=True)
class Mutation:
    """One change: of a file of the release path, and the tests that are run."""

    file: str
    before: str
    after: str
    tests: str
    only: str = ""  # pytest's -k
    place: int = 0  # which occurrence

    @property
    def name(self) -> str:
        return f"{self.file}: {' '.join(self.before.split())[:60]} -> {' '.join(self.after.split())[:60]}"


MUTATIONS = [
    Mutation("perturb.py", "SMOOTHING = 64.0", "SMOOTHING = 63.0", PERTURB),
    Mutation("perturb.py", "SPACING = 0.5", "SPACING = 0.475", PERTURB),
    Mutation("perturb.py", "plain**2 + SMOOTHING", "plain**2", PERTURB),
    Mutation("perturb.py", "np.ceil(smoothed)", "np.floor(smoothed)", PERTURB),
    Mutation("perturb.py", "np.ceil(plain + SPACING)", "np.floor(plain + SPACING)", PERTURB),
    Mutation("perturb.py", "noise_multiplier * sensitivity * (1.0", "noise_multiplier * sensitivity * (0.95", PERTURB),
    Mutation("perturb.py", "wrong = (mechanism.noise_multiplier > 0.0)", "wrong = (scales > 0.0)", PERTURB),
    Mutation("perturb.py", "scales >= SMALLEST_SCALE", "scales >= 1", PERTURB),
    Mutation("perturb.py", "scales < LARGEST_SCALE", "scales <= LARGEST_SCALE", PERTURB),
    Mutation("perturb.py", "return counts + draw(", "return counts + 19 * draw(", PERTURB),
    Mutation("perturb.py", "discrete_gaussian if isinstance", "discrete_laplace if isinstance", PERTURB),
    Mutation("perturb.py", "_FARTHEST = 2.0**61", "_FARTHEST = 2.0**63", PERTURB),
    Mutation("perturb.py", "nan=0.0", "nan=1.0", PERTURB),
    Mutation("perturb.py", "apart = sensitivity / cells", "apart = 0.95 * sensitivity / cells", PERTURB),
    Mutation("perturb.py", " + _rounding(mechanism, value.shape[1])", "", PERTURB),
    Mutation("perturb.py", "else math.sqrt(dimension)", "else 0.95 * math.sqrt(dimension)", PERTURB),
    Mutation("perturb.py", "return float(dimension)", "return 0.95 * float(dimension)", PERTURB),
    Mutation("perturb.py", "np.where(silent[:, None], value, noisy)", "np.where(silent[0], value, noisy)", PERTURB),
    Mutation("sums.py", "CHUNK = 2048", "CHUNK = 4096", SUMS, "chunk"),
    Mutation("sums.py", "CHUNK_OF_SQUARES = 512", "CHUNK_OF_SQUARES = 1024", SUMS, "chunk"),
    Mutation("sums.py", "COARSE_BITS = 30", "COARSE_BITS = 31", SUMS, "units_of_the_lattice"),
    Mutation(
        "sums.py", "(np.left_shift(1, shift) >> 1)", "(np.left_shift(1, shift) >> 2)", SUMS, "rounding or rounded"
    ),
    Mutation("sums.py", "self.high + (low >> _WORD)", "self.high", SUMS, "rounding or rounded"),
    Mutation("sums.py", "self.low >> _WORD, self.low & (2**_WORD - 1)", "0, self.low", SUMS, "added_and_weighted"),
    Mutation(
        "sums.py", "high[owner[c], j] += number >> _WORD", "high[owner[c], j] += number >> 27", SUMS, "more_chunks"
    ),
    Mutation("sums.py", "(2 if replaced else 1) * self.norm1", "1 * self.norm1", SUMS, "sensitivity"),
    Mutation("sums.py", "self.apart if replaced else self.norm,", "self.norm,", SUMS, "sensitivity"),
    Mutation("sums.py", "math.sqrt(self.dimension)\n", "0.95 * math.sqrt(self.dimension)\n", SUMS, "sensitivity"),
    Mutation("sums.py", "float(self.dimension)\n", "math.sqrt(self.dimension)\n", SUMS, "sensitivity"),
    Mutation("sums.py", "records * each, -self.shift", "each, -self.shift", SUMS, "sensitivity"),
    Mutation("sums.py", "rounding if self.shift else 0.0", "0.0", SUMS, "sensitivity"),
    Mutation("sums.py", "(1.0 + 2.0**-40)", "1.0", SUMS, "sensitivity"),
    Mutation(
        "sums.py", "norm = self.most * rows.SIDE", "norm = (self.most - 1) * rows.SIDE", SUMS, "bound_of or bounds_of"
    ),
    Mutation(
        "sums.py",
        "_in_norm1(norm, width), 2 * norm, rows",
        "_in_norm1(norm, width), norm, rows",
        SUMS,
        "bound_of or bounds_of",
    ),
    Mutation("sums.py", "math.ceil(self.slope_bound", "math.ceil(1.05 * self.slope_bound", SUMS, "several_losses"),
    Mutation(
        "sums.py",
        "int(slopes.LARGEST) * rows.SIDE",
        "int(0.95 * slopes.LARGEST) * rows.SIDE",
        SUMS,
        "bound_of or bounds_of",
    ),
    Mutation("sums.py", "_in_norm1(norm, 2 * width)),", "_in_norm1(norm, width)),", SUMS, "bound_of or bounds_of"),
    Mutation("sums.py", "apart=2 * norm,", "apart=norm,", SUMS, "bound_of or bounds_of"),
    Mutation("sums.py", "math.isqrt(sum(each.norm**2 for each in own))", "own[0].norm", SUMS, "several_losses"),
    Mutation("sums.py", "squared = 145 *", "squared = 144 *", SUMS, "statistics"),
    Mutation("sums.py", "math.isqrt(2 * squared)", "math.isqrt(squared)", SUMS, "statistics"),
    Mutation("sums.py", "factor**2 * squared + squared**2", "squared**2", SUMS, "statistics"),
    Mutation(
        "sums.py",
        "_in_norm1(factor * rows.SIDE, width) + squared",
        "_in_norm1(factor * rows.SIDE, width)",
        SUMS,
        "statistics",
    ),
    Mutation("sums.py", "apart = 2 * factor**2", "apart = factor**2", SUMS, "exceeds and ColumnMoments and 2"),
    Mutation(
        "sums.py",
        "math.isqrt(norm**2 * count) + 1",
        "math.isqrt(norm**2 * count * 19 // 20)",
        SUMS,
        "bound_of or bounds_of",
    ),
    Mutation("sums.py", "if x.shape != (table.agents, count):", "if False:", SLOPES, "another_shape"),
    Mutation("rows.py", "BITS = 22", "BITS = 23", ROWS, "bound"),
    Mutation("rows.py", "LARGEST_SQUARE = 4**BITS", "LARGEST_SQUARE = (SIDE + 1) ** 2", ROWS, "bound"),
    Mutation("rows.py", "    if squares > LARGEST_SQUARE:", "    if squares > 1.05 * LARGEST_SQUARE:", ROWS, "bound"),
    Mutation("rows.py", "if _squares(out) > LARGEST_SQUARE:", "if False:", ROWS, "bound or zero"),
    Mutation("rows.py", "shrink = SIDE /", "shrink = 1.05 * SIDE /", ROWS, "bound"),
    Mutation("rows.py", "np.trunc(np.float64(out[j]) * shrink)", "np.rint(np.float64(out[j]) * shrink)", ROWS, "bound"),
    Mutation("rows.py", "if not number < math.inf:", "if number == math.inf:", ROWS, "bound"),
    Mutation("rows.py", "total + number * number, _MANY", "total + number * number, 2 * _MANY", ROWS, "bound or zero"),
    Mutation("rows.py", "entry if entry == entry else 0.0", "entry", ROWS, "bound or underflow"),
    Mutation("rows.py", "min(max(entry, -_FARTHEST), _FARTHEST)", "entry", ROWS, "bound or underflow"),
    Mutation("rows.py", "if length > norm_bound else 1.0", "if length > 1.05 * norm_bound else 1.0", ROWS),
    Mutation("rows.py", "abs(number) <= SIDE and number == np.rint(number)", "abs(number) <= SIDE", ROWS, "violates"),
    Mutation("rows.py", "if total > LARGEST_SQUARE:", "if total > LARGEST_SQUARE + 1:", ROWS, "violates"),
    Mutation("rows.py", "indices[k] <= indices[k - 1]", "indices[k] < indices[k - 1]", ROWS, "columns"),
    Mutation("rows.py", "indices[k] >= width", "indices[k] > width", ROWS, "columns"),
    Mutation("rows.py", "if usable[row] else 2", "", ROWS, "used"),
    Mutation("rows.py", "indices[k - 1] < indices[k]", "indices[k - 1] <= indices[k]", ROWS, "storing"),
    Mutation("kernels/slopes.py", "BITS = 20", "BITS = 21", SLOPES, "digits or integers"),
    Mutation("kernels/slopes.py", "return most\n", "return most + 1.0\n", SLOPES, "nearest"),
    Mutation("kernels/slopes.py", "return -most\n", "return number\n", SLOPES, "nearest"),
    Mutation("kernels/slopes.py", "if number == number else 0.0", "if number == number else 1.0", SLOPES, "nearest"),
    Mutation("kernels/slopes.py", "np.rint(number) if", "np.trunc(number) if", SLOPES, "nearest"),
    Mutation("kernels/slopes.py", "slope if slope * other > 0.0 else 0.0", "slope", SLOPES, "one_sided"),
    Mutation(
        "kernels/slopes.py", "squares <= LARGEST * LARGEST", "squares <= 1.05 * LARGEST * LARGEST", SLOPES, "norms"
    ),
    Mutation(
        "kernels/slopes.py", "<= 2.0 * LARGEST * LARGEST", "<= 2.1 * LARGEST * LARGEST", SLOPES, "norms or residual"
    ),
    Mutation("kernels/slopes.py", "slopes[:] = 0.0", "pass", SLOPES, "norms or residual"),
    Mutation("kernels/softmax.py", "0 <= own < loss.classes", "0 <= own <= loss.classes", SLOPES, "no_class"),
    Mutation("../_kernels/class_scores.py", "-min(missed, cap)", "-missed", SLOPES, "residuals"),
    Mutation(
        "kernels/short_rows.py",
        "@compiled(fast=False)\ndef _margins",
        "@compiled()\ndef _margins",
        SLOPES,
        "margin_does",
    ),
    Mutation(
        "kernels/moments.py",
        "(rows.T @ rows).toarray()[upper]",
        "(rows.T @ rows).toarray().T[upper] * 2.0",
        SUMS,
        "exact",
    ),
]


def changed(mutation: Mutation, folder: Path) -> Path:
    """A copy of the package with one change."""
    source = shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    path = Path(source) / "dpadmm" / "release" / mutation.file
    text = path.read_text()
    if mutation.before not in text:
        raise SystemExit(f"{mutation.file} has no {mutation.before!r}: bring the list up to date.")
    path.write_text(text.replace(mutation.before, mutation.after, 1))
    return Path(source)


def noticed(mutation: Mutation, change: bool = True) -> str | None:
    """The first test that fails, or None."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if change:
            places = {"PYTHONPATH": str(changed(mutation, folder)), "XDG_CACHE_HOME": str(folder / "cache")}
        else:
            places = {"PYTHONPATH": str(ROOT / "src")}
        environment = os.environ | places
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=no"]
        command += [mutation.tests, *(["-k", mutation.only] if mutation.only else [])]
        try:
            run = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TOO_LONG, check=False
            )
        except subprocess.TimeoutExpired:
            return "no end"
    if run.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) \S+?::(\S+)", run.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{mutation.name}: pytest says\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return found.group(1)


def main() -> int:
    wanted = [each for each in MUTATIONS if not sys.argv[1:] or any(part in each.name for part in sys.argv[1:])]
    survivors = 0
    for mutation in {(each.tests, each.only): each for each in wanted}.values():
        if test := noticed(mutation, change=False):
            raise SystemExit(f"{mutation.tests} -k {mutation.only!r}: {test} fails without any change.")
    for mutation in wanted:
        test = noticed(mutation)
        survivors += test is None
        print(f"{mutation.name:<130} {test or 'SURVIVED'}", flush=True)
    print(f"{len(wanted)} changes, {survivors} survivors")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
