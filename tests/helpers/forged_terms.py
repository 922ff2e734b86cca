"""Runs and terms as nobody of good faith can make them: strangers write text, and text can say anything."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from dpadmm.owner.agreement import Agreement
from dpadmm.spec.declare import RunSpec


def forged(run: RunSpec, values: Mapping[str, Any]) -> RunSpec:
    """A run with any values at all, also those that a run refuses when it is made."""
    found = copy.copy(run)
    for name, value in values.items():
        object.__setattr__(found, name, value)
    return found


def forged_text(terms: Agreement, values: Mapping[str, Any]) -> str:
    """The text of these terms with any values at all in their run."""
    entries = json.loads(terms.dumps())
    entries["run"] |= values
    return json.dumps(entries)
