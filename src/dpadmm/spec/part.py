"""A part that is given by value: a user's own loss, recipe, schedule or other part, in place of a registry name.

A spec that is written down keeps the import path of such a part, `mypackage.losses:MyLoss`, with the numbers that it is
made with after it (`mypackage.losses:MyLoss:0.5`). A part that cannot be found by an import path can be run, but not
written down. Nothing in this module imports anything: `parts.imported` does, and only simulations call it.
"""

from __future__ import annotations

from typing import Any

from dpadmm.errors import InputError


class Part:
    """A part and the import path that finds it again, if there is one."""

    __slots__ = ("text", "value")

    def __init__(self, value: Any, text: str | None) -> None:
        self.value = value
        self.text = text

    @property
    def written(self) -> str:
        """The import path, for a spec that is written down.

        Raises:
            InputError: the part has no import path.
        """
        if self.text is None:
            kind = type(self.value)
            raise InputError(
                f"{self.value!r} cannot be written down: no import path finds it again ({kind.__qualname__} of module "
                f"{kind.__module__!r}), and resuming, reporting and predicting need one. Put it into a module that can "
                f"be imported, or leave the output folder (out) away."
            )
        return self.text

    def __str__(self) -> str:
        return self.text or str(getattr(self.value, "name", type(self.value).__name__))

    def __repr__(self) -> str:
        return repr(str(self))  # messages quote a part as they quote a registry name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Part) or self.text != other.text:
            return False
        return self.text is not None or self.value is other.value

    def __hash__(self) -> int:
        return hash(self.text) if self.text is not None else id(self.value)

    def __copy__(self) -> Part:
        return self

    def __deepcopy__(self, memo: Any) -> Part:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Part, (self.value, self.text)


def unwrapped(given: Any) -> Any:
    """The part itself, or the text that names one."""
    return given.value if isinstance(given, Part) else given


def refuse_own_parts(run: Any, whom: str) -> None:
    """Raises an `InputError` where a run has a part by value, and those who run it know registry names only."""
    for name, value in vars(run).items():
        if isinstance(value, Part):
            raise InputError(
                f"{name} {value!r} is a part of your own, which is for simulations; {whom} accept registry names only, "
                f"so that terms mean the same for everybody."
            )
