"""The command as a whole: help, start-up, exit codes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from dpadmm.cli.main import app


def _verbs(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*path, name)
        if hasattr(command, "commands"):
            yield from _verbs(command, (*path, name))


VERBS = list(_verbs(get_command(app)))


def _shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from dpadmm.cli.main import main; main()", *arguments], capture_output=True, text=True
    )


def test_the_verbs_are_those_of_the_design() -> None:
    assert {verb[0] for verb in VERBS} >= {"train", "compare", "predict", "privacy", "demo", "algorithms", "losses"}
    assert {("privacy", "spent"), ("privacy", "calibrate"), ("privacy", "claims")} <= set(VERBS)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_help_has_an_example(dpadmm: Any, verb: tuple[str, ...]) -> None:
    result = dpadmm(*verb, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"dpadmm {verb[0]}" in result.stdout


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != ("privacy",)], ids=" ".join)
def test_every_verb_speaks_json(dpadmm: Any, verb: tuple[str, ...]) -> None:
    assert "--json" in dpadmm(*verb, "--help").stdout


def test_the_version(dpadmm: Any) -> None:
    from dpadmm import __version__

    assert dpadmm("--version").stdout == f"dpadmm {__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from dpadmm.cli.main import app\n"
        "assert CliRunner().invoke(app, ['train', '--help']).exit_code == 0\n"
        "heavy = ('numpy', 'numba', 'scipy', 'dp_accounting', 'sklearn', 'pyarrow')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_error_is_one_line_on_stderr_and_code_2() -> None:
    done = _shell("train", "--data", "nowhere.csv", "--target", "y", "--epsilon", "1", "--delta", "1e-5", "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "error: there is no file nowhere.csv.\n"


def test_wrong_usage_is_code_2() -> None:
    done = _shell("trian")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "train" in done.stderr  # the suggestion
    assert "Traceback" not in done.stderr


def test_a_solver_that_does_not_converge_is_an_error_too(dpadmm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpadmm.errors import ConvergenceError

    def stuck() -> None:
        raise ConvergenceError("the solver stopped\nshort of its tolerance.")

    monkeypatch.setattr("dpadmm.privacy.claims.comparisons", stuck)
    result = dpadmm("privacy", "claims")
    assert result.exit_code == 2
    assert result.stderr == "error: the solver stopped short of its tolerance.\n"
