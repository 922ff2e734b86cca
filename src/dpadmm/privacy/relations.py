"""Which two databases count as neighbours.

A guarantee means nothing until it says what it hides. Both relations here keep the number of records public; they
differ in what may happen to one record. Events already carry the relation inside their sensitivity (sigma divided by
the sensitivity *under that relation*), so accountants never rescale a noise multiplier because of it.
"""

from __future__ import annotations

from enum import StrEnum

from dpadmm.errors import unknown


class Relation(StrEnum):
    """The neighbouring relation a guarantee is stated under."""

    REPLACE = "replace"
    ZERO_OUT = "zero-out"

    @classmethod
    def parse(cls, text: str) -> Relation:
        """The relation of that name, as written on the command line and in spec files."""
        try:
            return cls(text)
        except ValueError:
            raise unknown("relation", text, [relation.value for relation in cls]) from None

    @property
    def description(self) -> str:
        """One sentence for a person."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    Relation.REPLACE: "One record of one agent may take any other value; the number of records is public.",
    Relation.ZERO_OUT: (
        "One record of one agent may be blanked, its loss counted as zero; the number of records is public."
    ),
}
