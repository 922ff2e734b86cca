"""What travels between owners and coordinator: plain values, and arrays as bytes. Nothing that arrives is trusted.

A reply is {"refused": reason}, or what was asked for. A release that cannot be one is told from one that can: by its
size, by numbers that are not finite, and by a norm that no honest agent of the run would come near.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.errors import Refused
from dpadmm.privacy.events import canonical
from dpadmm.privacy.ledger.protocol import Seal

VERSION = 2
IMPLAUSIBLE = 1e4  # times the longest release that public numbers lead to expect
LARGEST_TEXT = 1_000_000


class InvalidRelease(Exception):
    """What an owner sent cannot be a release of this run."""


def to_bytes(values: FloatArray) -> bytes:
    return np.ascontiguousarray(values, dtype="<f8").tobytes()


def to_row(data: Any) -> FloatArray:
    """One row of numbers; how many, and whether they are any, is for whoever reads them to check."""
    if type(data) is not bytes or len(data) % 8:
        raise Refused("numbers must come as bytes, eight for each.")
    return np.frombuffer(data, dtype="<f8").astype(np.float64).reshape(1, -1)


def seal_to_list(seal: Seal | None) -> list[Any] | None:
    return None if seal is None else [seal.number, seal.head, seal.signature]


def seal_from_list(entry: Any) -> Seal | None:
    """A seal as it came; whether it is one, its ledger knows."""
    if entry is None:
        return None
    if not isinstance(entry, list | tuple) or len(entry) != 3:
        raise Refused("malformed seal.")
    return Seal(*entry)


def terms_parts(run: str, digest: str) -> tuple[str, ...]:
    """What an owner signs when it has joined a run."""
    return run, digest


def release_parts(
    run: str, digest: str, step: int | str, value: bytes, seal: list[Any] | None
) -> tuple[bytes | str, ...]:
    """What an owner signs of a release: all of it, and where it belongs."""
    return run, digest, str(step), value, canonical(seal)


def release_in(reply: Any, dimension: int, longest: float) -> tuple[FloatArray, Seal | None]:
    """The release of a reply that has one."""
    if not isinstance(reply, Mapping) or type(reply.get("value")) is not bytes:
        raise InvalidRelease("it sent no release")
    data = reply["value"]
    if len(data) != 8 * dimension:
        raise InvalidRelease(f"its release has {len(data) / 8:g} numbers, not {dimension}")
    value = to_row(data)
    if not np.isfinite(value).all():
        raise InvalidRelease("its release has numbers that are not finite")
    with np.errstate(over="ignore"):
        norm = float(np.linalg.norm(value))
    if norm > IMPLAUSIBLE * longest:
        raise InvalidRelease(f"its release has norm {norm:.3g}, where about {longest:.3g} at most would be expected")
    try:
        seal = seal_from_list(reply.get("seal"))
    except Refused as refused:
        raise InvalidRelease(str(refused)) from None
    if seal is not None and not seal.well_formed:
        raise InvalidRelease("malformed seal")
    return value, seal


def longest_release(plan: Plan, common: FloatArray, others: FloatArray, round: int) -> float:
    """About how long an honest agent's release can be in a round: from public numbers, and not to the digit.

    A gradient, its noise, and where they lead by a step from what was heard; or as long as what others release.
    """
    level, gradient = plan.level, float(plan.local.gradient_bound.max())
    noise = float(level.sigma.max(initial=0.0)) * math.sqrt(plan.setting.dimension)
    step = max(float(plan.eta(round).max(initial=0.0)), 1.0 / max(float(np.min(plan.rho(round))), 1e-300), 1.0)
    heard = float(np.linalg.norm(common, axis=-1).max(initial=0.0))
    norms = np.sort(np.linalg.norm(others, axis=-1))
    usual = float(norms[norms.size // 2]) if norms.size else 0.0  # one liar among many does not set the measure
    return max(heard, usual) + step * (gradient + noise) * max(1, level.steps)
