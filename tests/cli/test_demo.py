"""`dpadmm demo`."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console


def test_the_comparison(dpadmm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = {"source": "adult", "agents": 20, "rounds": 20, "seed": 0}  # `make demo` takes 100 of each
    monkeypatch.setattr("dpadmm.cli.demo.SETTING", setting)
    result = dpadmm("demo", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert [row["round"] for row in found["rounds"]] == list(range(1, 21))
    spent = [row["epsilon"] for row in found["rounds"]]
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(1.0)
    rows = {row["name"]: row for row in found["comparison"]}
    private = [row for row in rows.values() if row["epsilon"] is not None]
    assert len(private) == 3
    assert all(row["epsilon"] <= 1.0 for row in private)
    losses = [row["train_loss"] for row in rows.values()]
    assert min(losses) == losses[-1]  # the optimum
    assert rows["DP-ADMM"]["test_error"] < 0.26
    assert rows["DP-ADMM"]["test_error_local"] is not None


def test_the_setting_is_the_one_promised() -> None:
    from dpadmm.cli.demo import BUDGET, SETTING

    assert SETTING == {"source": "adult", "agents": 100, "rounds": 100, "seed": 0}
    assert BUDGET == {"epsilon": 1.0, "delta": 1e-5}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = {"source": "synthetic", "agents": 4, "rounds": 20, "seed": 0}
    monkeypatch.setattr("dpadmm.cli.demo.SETTING", setting)


@pytest.mark.usefixtures("small")
def test_plain_lines_where_there_is_no_terminal(dpadmm: Any) -> None:
    text = dpadmm("demo").stdout
    rounds = [line.split()[0] for line in text.splitlines() if " of 1 " in line]
    assert rounds == ["1", "10", "20"]
    for part in ("DPSGD (paper: step 0.1)", "DPSGD (step 4 = 1/L)", "the optimum", "not private", "What the budget"):
        assert part in text
    assert "\x1b" not in text


@pytest.mark.usefixtures("small")
def test_a_live_table_in_a_terminal(dpadmm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr("dpadmm.cli.demo.out", lambda: terminal)
    assert dpadmm("demo").exit_code == 0
    assert "epsilon spent" in screen.getvalue()
    assert "1.0000 of 1" in screen.getvalue()
