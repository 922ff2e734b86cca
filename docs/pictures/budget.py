"""Draws budget.svg: what rounds of equal Gaussian noise cost together, counted in three ways.

Every number is computed. Run it to write the picture anew; a test compares.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from dpadmm.privacy import Budget, gaussian_multiplier
from dpadmm.privacy.gaussian import epsilon
from dpadmm.privacy.zcdp import zcdp_epsilon

ROUNDS, DELTA = 100, 1e-5
MULTIPLIER = gaussian_multiplier(Budget(1.0, DELTA), ROUNDS)
LEFT, TOP, WIDTH, HEIGHT, HIGHEST = 70.0, 50.0, 440.0, 270.0, 4.0

WAYS: tuple[tuple[str, str, Callable[[int], float]], ...] = (
    ("each round by itself, added up", "#b2444a", lambda k: k * epsilon(1.0 / MULTIPLIER, DELTA / k)),
    ("Rényi composition", "#c9711a", lambda k: zcdp_epsilon(0.5 * k / MULTIPLIER**2, DELTA)),
    ("exact: what dpadmm reports", "#2a8c7a", lambda k: epsilon(np.sqrt(k) / MULTIPLIER, DELTA)),
)


def place(rounds: float, cost: float) -> tuple[float, float]:
    return LEFT + WIDTH * rounds / ROUNDS, TOP + HEIGHT * (1.0 - cost / HIGHEST)


def curve(cost: Callable[[int], float]) -> str:
    points = [(k, cost(k)) for k in range(1, ROUNDS + 1, 3)]
    return " ".join("{:.1f},{:.1f}".format(*place(k, value)) for k, value in points if value <= HIGHEST)


def grid() -> str:
    lines = []
    for cost in range(int(HIGHEST) + 1):
        x, y = place(0, cost)
        lines.append(f'<path d="M{x:.0f} {y:.0f}h{WIDTH:.0f}" stroke="#dde4e9"/>')
        lines.append(f'<text class="small" x="{x - 8:.0f}" y="{y + 4:.0f}" text-anchor="end">{cost}</text>')
    for rounds in range(0, ROUNDS + 1, 20):
        x, y = place(rounds, 0)
        lines.append(f'<text class="small" x="{x:.0f}" y="{y + 20:.0f}" text-anchor="middle">{rounds}</text>')
    return "\n  ".join(lines)


def ways() -> str:
    lines = []
    for row, (name, colour, cost) in enumerate(WAYS):
        y = TOP + 40 + 74 * row
        lines += [
            f'<polyline points="{curve(cost)}" fill="none" stroke="{colour}" stroke-width="2.5"/>',
            f'<path d="M530 {y - 5:.0f}h22" stroke="{colour}" stroke-width="3"/>',
            f'<text x="558" y="{y:.0f}">{name}</text>',
            f'<text class="small" x="558" y="{y + 18:.0f}">after {ROUNDS} rounds: {cost(ROUNDS):.3g}</text>',
        ]
    return "\n  ".join(lines)


def picture() -> str:
    said = "; ".join(f"{name}: {cost(ROUNDS):.3g}" for name, _, cost in WAYS)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 380" role="img" aria-labelledby="title desc">
  <title id="title">How a budget is composed over rounds</title>
  <desc id="desc">Epsilon at delta {DELTA:g} over {ROUNDS} rounds of Gaussian noise {MULTIPLIER:.2f} times the
  sensitivity. After {ROUNDS} rounds: {said}.</desc>
  <style>
    text {{ font: 14px system-ui, sans-serif; fill: #1f2d3a; }}
    .small {{ font-size: 12px; fill: #4a5a68; }}
  </style>
  <rect x="1" y="1" width="798" height="378" rx="10" fill="#fbfcfd" stroke="#c9d3db"/>
  <text x="{LEFT:.0f}" y="30">epsilon so far (delta {DELTA:g}), noise {MULTIPLIER:.2f} sensitivities a round</text>
  {grid()}
  {ways()}
  <text class="small" x="{LEFT + WIDTH / 2:.0f}" y="{TOP + HEIGHT + 42:.0f}" text-anchor="middle">rounds</text>
</svg>
"""


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(picture(), encoding="utf-8")
