"""Where the verbs print: results on stdout, everything else on stderr.

Whatever is printed passes `Console.render` here, and with it every text that came from others or from a file: what
cannot be printed, such as an escape sequence, becomes a blank. So does what goes out as CSV. JSON escapes by itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypeVar, overload

import typer
from rich import box
from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from dpadmm import _limits
from dpadmm._files import csv_text
from dpadmm._plain import printable
from dpadmm.errors import InputError

Number = TypeVar("Number", float, int)
RUN = "Run"  # the panel of options about running, which are no fields of a spec

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]
Open = Annotated[
    bool,
    typer.Option(
        "--open", help="Show the report in a browser when the run is over.", rich_help_panel=RUN, show_default=False
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", help="The result only: no progress bar, no hints.", rich_help_panel=RUN, show_default=False
    ),
]


class Console(RichConsole):
    """Rich's, for text from anybody: nothing in a text is markup, and colours are added to it later."""

    def __init__(self, **more: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **more)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, kept="\n"), style, control)


def out() -> Console:
    """Made anew each time: a test, or a pipe, may have changed stdout."""
    return Console()


def err() -> Console:
    return Console(stderr=True)


def print_json(value: Any) -> None:
    """One object on one line; infinities have no place in JSON and are a bug."""
    typer.echo(json.dumps(value, allow_nan=False))


def print_csv(rows: Iterable[Sequence[Any]]) -> None:
    """A table on stdout, for programs."""
    typer.echo(printable(csv_text(rows, end="\n"), most=sys.maxsize, kept="\n"), nl=False)


def print_error(error: Exception) -> None:
    """One line, whatever the message was made of."""
    words = printable(" ".join(str(error).split()), _limits.MESSAGE)
    err().print(Text.assemble(("error: ", "bold red"), words), soft_wrap=True)


def print_warning(message: str) -> None:
    err().print(Text.assemble(("warning: ", "bold yellow"), (message, "yellow")), soft_wrap=True)


def examples(*lines: str) -> str:
    """The end of a verb's help."""
    title = "Example" if len(lines) == 1 else "Examples"
    return "\n".join([f"[bold]{title}[/bold]", *(f"  {escape(line)}" for line in lines)])


def table(columns: Sequence[str], numbers: bool = True, **more: Any) -> Table:
    """A table in the style of all verbs: the first column names the row, the others hold numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", **more)
    for place, column in enumerate(columns):
        made.add_column(column, justify="right" if numbers and place > 0 else "left")
    return made


def number(value: float | None, form: str = ".4f") -> str:
    """A number for a table; a dash where there is none."""
    return "-" if value is None else format(value, form)


@overload
def numbers(flag: str, given: str, kind: type[Number]) -> tuple[Number, ...]: ...
@overload
def numbers(flag: str, given: None, kind: type[Number]) -> None: ...
@overload
def numbers(flag: str, given: str) -> tuple[float, ...]: ...
@overload
def numbers(flag: str, given: None) -> None: ...
def numbers(flag: str, given: str | None, kind: type[Any] = float) -> tuple[Any, ...] | None:
    """A list of numbers, separated by commas; None where none was given."""
    try:
        return None if given is None else tuple(kind(part) for part in given.split(","))
    except ValueError:
        wanted, example = ("whole numbers", "5,100") if kind is int else ("numbers", "1,2,0.5")
        raise InputError(f"{flag} {given}: must be {wanted}, separated by commas, as in {example}.") from None
