"""Every Python block in README and docs runs, and every command it shows exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from dpadmm.cli.main import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), flags=re.M | re.S)


PYTHON = [(document.name, code) for document in DOCUMENTS for code in blocks(document, "python")]
SHELL = [
    (d.name, line) for d in DOCUMENTS for code in blocks(d, "sh") for line in code.splitlines() if "dpadmm " in line
]


def test_there_are_documents_with_code():
    assert PYTHON
    assert SHELL


@pytest.mark.parametrize(("document", "code"), PYTHON)
def test_a_python_block_runs(document, code, capsys):
    exec(compile(code, document, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(("document", "line"), SHELL)
def test_a_shown_command_and_its_options_exist(document, line):
    command = get_command(app)
    words = line.split("dpadmm ", 1)[1].split()
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands, f"{document}: no verb {words[0]!r}"
        command = command.commands[words.pop(0)]
    known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    used = {word.split("=")[0] for word in words if word.startswith("--")}
    assert used <= known | {"--help"}, f"{document}: unknown options {used - known}"
