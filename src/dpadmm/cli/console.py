"""Where the verbs print: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]


def out() -> Console:
    """Made anew each time: a test, or a pipe, may have changed stdout."""
    return Console(highlight=False)


def err() -> Console:
    return Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """One object on one line; infinities have no place in JSON and are a bug."""
    typer.echo(json.dumps(value, allow_nan=False))


def print_error(error: Exception) -> None:
    """One line, whatever the message was made of."""
    err().print(Text.assemble(("error: ", "bold red"), " ".join(str(error).split())), soft_wrap=True)


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
