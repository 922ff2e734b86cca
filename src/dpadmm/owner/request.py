"""What an agent is asked. Anybody may have written it: nothing in it is trusted before it is checked here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._ranges import BROADCASTS, COUNTS
from dpadmm.errors import Refused
from dpadmm.privacy.ledger.protocol import Seal

EVALUATION = "evaluation"


@dataclass(frozen=True, eq=False)
class Request:
    """What an agent is asked: a step of a run it has joined, and that step's public inputs.

    Every number of a request must lie in a public range: rounds in `COUNTS`, inputs in `BROADCASTS`. Whether they do is
    a question about the request alone, so a refusal says nothing of records.

    `inputs` is what was heard last: one row per run of the batch, or on a graph, where everybody hears something else,
    one row per agent; one row for a real owner. `missed_inputs` holds the inputs of earlier rounds that the agent did
    not answer, where the terms allow that. `seen` is the seal of the agent's last release, if the coordinator has one.
    `last_used` is the round of the agent's last release that the coordinator has used, where the agent has made a later
    one that was lost or came too late; `missed_inputs` then begins with the inputs of that later release.
    """

    run: str
    digest: str
    step: int | str
    inputs: FloatArray
    missed_inputs: Mapping[int, FloatArray] = field(default_factory=dict)
    seen: Seal | None = None
    last_used: int | None = None

    def check(self) -> None:
        """Raises `Refused` where a field is not of its kind; whether it fits the run is the agent's question."""
        if not is_name(self.run):
            raise Refused("that is not a request.")
        if not (self.seen is None or isinstance(self.seen, Seal)):
            raise Refused("malformed seal.")
        if not (self.last_used is None or (type(self.last_used) is int and 0 <= self.last_used <= COUNTS.high)):
            raise Refused("last_used must be the number of a round.")
        if not isinstance(self.missed_inputs, Mapping):
            raise Refused("missed_inputs must be inputs by round.")
        number = type(self.step) is int and COUNTS.holds(self.step)
        if not (number or (type(self.step) is str and self.step == EVALUATION)):
            raise Refused("the terms have no such step.")

    def arrays(self, shape: tuple[int, int]) -> list[FloatArray]:
        """The inputs of missed rounds in order, then those of this step."""
        missed = list(self.missed_inputs)
        step = 0 if self.step == EVALUATION else int(self.step)
        expected = list(range(step - len(missed), step)) if step else []
        if any(type(round) is not int for round in missed) or sorted(missed) != expected:
            raise Refused("missed rounds must be those right before this one.")
        return [_numbers(value, shape) for value in (*(self.missed_inputs[round] for round in expected), self.inputs)]


def is_name(text: object) -> bool:
    """Whether this can be the name of a run."""
    return type(text) is str and 0 < len(text) <= 100 and text.isprintable()


def _numbers(value: Any, shape: tuple[int, int]) -> FloatArray:
    if type(value) is not np.ndarray or value.dtype != np.float64 or value.shape != shape:
        raise Refused(f"inputs must be float64 numbers of shape {shape}.")
    if not np.abs(value).max(initial=0.0) <= BROADCASTS.high:  # nor NaN
        raise Refused(f"inputs must be finite and at most {BROADCASTS.high:g} in size.")
    return np.ascontiguousarray(value)
