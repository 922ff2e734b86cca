"""What is raised when the caller, not the library, is wrong.

Every message names the value, the place, and what to do about it. The command line turns an `InputError` into
one line and exit code 2; nothing has been written or spent by then.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """A value given by the user cannot be used; the message says which, where, and what would do."""


class ConvergenceError(RuntimeError):
    """A solver did not reach the accuracy its privacy lemma was promised; nothing was released."""


class ClusterError(RuntimeError):
    """Other machines did not do their part, and trying again did not help; finished rounds are not lost."""


class Unpublished(InputError):
    """A paper's own noise was asked for where no paper has a rule for it."""


class Refused(Exception):
    """A data owner's no; nothing was spent or released.

    Args:
        reason: Why, for the owner.
        told: Why, for whoever asked: where the reason says what only the owner knows, such as its limits.
    """

    def __init__(self, reason: str, *, told: str | None = None) -> None:
        super().__init__(reason)
        self.told = reason if told is None else told


NOT_ALLOWED = "this owner does not allow that run; its own log says why."
"""What others are told of a policy or a budget: no number of either, and not which of them it was."""


def unknown(kind: str, name: str, choices: Iterable[str]) -> InputError:
    """The error for a name that is in no registry, with the nearest name that is."""
    known = sorted(choices)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}."
    return InputError(f"unknown {kind} {name!r}; {hint}")
