"""`dpadmm report`, `dpadmm watch`, and `--open` of the verbs that run something."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
import webbrowser
from pathlib import Path
from typing import Any

import pytest

from dpadmm.cli import browser

SMALL = ("--data", "synthetic", "--agents", 4, "--rounds", 3, "--epsilon", 1, "--delta", 1e-5)


@pytest.fixture
def run(dpadmm: Any, tmp_path: Path) -> Path:
    assert dpadmm("train", *SMALL, "--out", tmp_path / "run").exit_code == 0
    return tmp_path / "run"


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A browser that only notes what it was to show."""
    shown: list[str] = []
    monkeypatch.setenv("BROWSER", "one")
    monkeypatch.setattr(webbrowser, "open", lambda address: bool(shown.append(address)) or True)
    return shown


@pytest.fixture
def dark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a screen."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(webbrowser, "open", lambda address: pytest.fail("nobody could see it"))


def test_a_report_is_written_where_it_is_asked_for(dpadmm: Any, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    result = dpadmm("report", run, "-o", file)
    assert result.exit_code == 0
    assert "run: finished, round 3 of 3; epsilon 1.000, delta 1e-05 in total" in result.stdout
    assert f"report in {file}" in result.stdout
    assert file.read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "run"]  # nothing is left beside it


def test_json(dpadmm: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = json.loads(dpadmm("report", run, run, "--json").stdout)
    assert found["report"] == "report.html"
    assert found["bytes"] == (tmp_path / "report.html").stat().st_size
    assert [(each["name"], each["state"], each["private"]) for each in found["runs"]] == [
        *(("run (1)", "finished", False), ("run (2)", "finished", False))
    ]
    assert found["runs"][0]["simulated"]
    assert found["runs"][0]["guarantee"].startswith("epsilon 1.000")
    assert {"objective", "budget", "noise"} <= set(found["charts"])
    assert found["opened"] is False


def test_what_is_not_a_report_is_not_written_over(dpadmm: Any, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "thesis.html"
    file.write_text("<html>years of work</html>")
    result = dpadmm("report", run, "-o", file)
    assert result.exit_code == 2
    assert "is not a report of dpadmm; --force writes over it" in result.stderr
    assert file.read_text() == "<html>years of work</html>"
    assert dpadmm("report", run, "-o", file, "--force").exit_code == 0
    first = file.read_text()
    assert dpadmm("report", run, run, "-o", file).exit_code == 0  # a report is
    assert file.read_text() != first


def test_bad_places(dpadmm: Any, run: Path, tmp_path: Path) -> None:
    for words, message in (
        ((run, "-o", tmp_path), "is a folder; name a file"),
        ((run, "-o", tmp_path / "no" / "page.html"), "there is no folder"),
        ((tmp_path / "nowhere", "-o", tmp_path / "page.html"), "there is no folder"),
        ((run / "spec.toml", "-o", tmp_path / "page.html"), "is a file; name the folder of a run"),
    ):
        result = dpadmm("report", *words)
        assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert not (tmp_path / "page.html").exists()


def test_a_report_is_shown(dpadmm: Any, run: Path, tmp_path: Path, screen: list[str]) -> None:
    file = tmp_path / "page.html"
    assert json.loads(dpadmm("report", run, "-o", file, "--open", "--json").stdout)["opened"] is True
    assert screen == [file.as_uri()]


def test_train_shows_its_report(dpadmm: Any, tmp_path: Path, screen: list[str]) -> None:
    result = dpadmm("train", *SMALL, "--out", tmp_path / "run", "--open", "--json")
    assert json.loads(result.stdout)["out"] == str(tmp_path / "run")
    assert screen == [(tmp_path / "run" / "report.html").as_uri()]


def test_train_without_a_folder_says_where_its_report_is(
    dpadmm: Any, tmp_path: Path, dark: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "temporary", lambda name: tmp_path / name)
    result = dpadmm("train", *SMALL, "--open", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["epsilon"] <= 1.0
    assert result.stderr == f"no browser here; the report is in {tmp_path / 'train' / 'report.html'}\n"
    assert (tmp_path / "train" / "report.html").exists()


def test_a_browser_that_fails_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(address: str) -> bool:
        raise webbrowser.Error

    monkeypatch.setenv("BROWSER", "one")
    monkeypatch.setattr(webbrowser, "open", fail)
    assert browser.opened("file:///x") is False


def test_temporary_folders_are_new_and_empty() -> None:
    first, second = browser.temporary("x"), browser.temporary("x")
    assert first != second
    assert not list(first.iterdir())
    first.rmdir()
    second.rmdir()


# -- watch -------------------------------------------------------------------------------------------------------------


def test_a_run_that_is_over_is_served_and_then_left(dpadmm: Any, run: Path, dark: None) -> None:
    result = dpadmm("watch", run, "--patience", 0)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "http://127.0.0.1:" in result.stderr
    assert "no browser here; open the address above." in result.stderr
    assert "the run has finished" in result.stderr


def test_an_address_for_a_script(run: Path) -> None:
    command = [sys.executable, "-c", "from dpadmm.cli.main import main; main()", "watch", str(run), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = json.loads(process.stdout.readline())
        assert found["run"] == str(run)
        with urllib.request.urlopen(found["url"], timeout=20) as page:
            assert b"<title>run</title>" in page.read()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert (stdout, stderr) == ("", "")
    assert process.returncode in (0, 130)  # 0: the page was seen, and the server had stopped by itself


def test_other_machines_must_be_asked_for(dpadmm: Any, run: Path, screen: list[str]) -> None:
    assert "warning" not in dpadmm("watch", run, "--patience", 0).stderr
    result = dpadmm("watch", run, "--patience", 0, "--host", "0.0.0.0", "--no-open")
    assert "warning: whoever can reach 0.0.0.0 can see this run, without a password." in result.stderr
    assert len(screen) == 1
    assert screen[0].startswith("http://127.0.0.1:")


def test_what_cannot_be_watched(dpadmm: Any, run: Path) -> None:
    assert "is a file" in dpadmm("watch", run / "spec.toml").stderr
    result = dpadmm("watch", run, "--host", "no-such-host.invalid")
    assert result.exit_code == 2
    assert "cannot listen on no-such-host.invalid" in result.stderr
