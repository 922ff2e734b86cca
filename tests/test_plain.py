"""What others wrote is printed, logged and exported without anything that a terminal or a spreadsheet would obey."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from dpadmm import _limits
from dpadmm._files import csv_text
from dpadmm._plain import cell, plain, printable
from dpadmm.cli.console import Console, err, out, print_csv, print_error, print_json, print_warning

# coord.py: clears the screen, writes to the clipboard; then a mark that reverses what follows, and a C1 control.
EVIL = (
    "\x1b[2J\x1b[1;1Hrun finished \x1b]52;c;cm0gLXJmIH4=\x07\x08\x9b2J"
    " \u202eevil\u2066 [bold]x[/bold] :smile:\x00\u2028"
)


def harmless(text: str) -> bool:
    return all(letter.isprintable() or letter == "\n" for letter in text)


def test_consoles_obey_nothing_that_others_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    """coord.py: Rich lets escape sequences through."""
    table = Table(EVIL, title=EVIL)
    table.add_row(EVIL)
    for console in (out(), err()):
        for each in (EVIL, Text(EVIL), table, f"{EVIL}\n"):
            console.print(each, soft_wrap=True)
    print_error(ValueError(EVIL))
    print_warning(EVIL)
    for text in capsys.readouterr():
        assert harmless(text)
        assert "[bold]x[/bold] :smile:" in text


def test_colours_of_ours_stay() -> None:
    shown = io.StringIO()
    Console(file=shown, force_terminal=True, color_system="standard").print(Text(EVIL, style="bold red"))
    assert shown.getvalue().startswith("\x1b[1;31m")
    assert "\x1b[2J" not in shown.getvalue()
    assert harmless(shown.getvalue().replace("\x1b[1;31m", "").replace("\x1b[0m", ""))


def test_an_error_is_short_whatever_it_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(ValueError("A" * 10_000_000))
    assert len(capsys.readouterr().err) < _limits.MESSAGE + 20
    out().print(Text("A" * 10_000_000), soft_wrap=True)
    assert len(capsys.readouterr().out) < _limits.LINE + 20


@given(st.text())
def test_plain_text_is_one_printable_line(text: str) -> None:
    assert plain(text).isprintable()
    assert plain(text, 5) == plain(text)[:5]
    assert printable(text, kept="\n").replace("\n", "").isprintable()
    if text.isprintable():
        assert plain(text) == text[: _limits.REASON]


def test_what_is_no_text_is_named_by_its_type() -> None:
    assert plain({"a": EVIL}) == "dict"
    assert printable("x" * 11, most=10) == "xxxxxxx..."


@pytest.mark.parametrize(
    "text", ["=1+1", "+A1", "-A1", "@SUM(A1)", "\tx", "\rx", "=cmd|' /C calc'!A0", "-", "+ 1", "-1\t"]
)
def test_no_text_of_an_exported_table_is_a_formula(text: str) -> None:
    """misc.py: a class named =cmd|' /C calc'!A0 came out of `dpadmm predict` as it was."""
    (row,) = csv.reader([csv_text([[text, "b"]], end="")]) if "\r" not in text else [[cell(text), "b"]]
    assert row == [f"'{text}", "b"]


@pytest.mark.parametrize("value", ["-0.5", "+1e-3", "-inf", "nan", -0.5, 3, None, "", "a=b", "<=50K", "dp-admm"])
def test_numbers_and_other_texts_stay_as_they_are(value: object) -> None:
    assert cell(value) == value


def test_tables_on_stdout_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_csv([["prediction", EVIL], ["=1", -2.5]])
    found = capsys.readouterr().out
    assert harmless(found)
    assert found.endswith("\n'=1,-2.5\n")
    print_json({"a": EVIL})
    assert harmless(capsys.readouterr().out)
