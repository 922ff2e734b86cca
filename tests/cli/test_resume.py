"""Interrupted runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RUN = (
    *("--data", "synthetic", "--agents", 4, "--rounds", 35, "--epsilon", 1, "--delta", 1e-5),
    *("--measure-every", 3, "--repeats", 2),
)


@pytest.fixture
def interrupted(dpadmm: Any, tmp_path: Path) -> Path:
    """A run that was stopped after its second checkpoint, at round 20."""
    from dpadmm.engine.output import checkpoint

    out, save, calls = tmp_path / "stopped", checkpoint.save, []

    def stop(*arguments: Any) -> None:
        save(*arguments)
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "save", stop)
        result = dpadmm("train", *RUN, "--out", out, "--json")
    assert result.exit_code == 130
    assert result.stdout == ""
    assert f"dpadmm train --out {out} --resume" in result.stderr
    assert not (out / "result.json").exists()
    return out


def _same(first: Path, second: Path) -> bool:
    return all((first / name).read_text() == (second / name).read_text() for name in ("history.csv", "model.json"))


def test_a_resumed_run_equals_the_uninterrupted_one(dpadmm: Any, interrupted: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    assert dpadmm("train", *RUN, "--out", whole).exit_code == 0
    result = dpadmm("train", "--out", interrupted, "--resume", "--json")
    assert json.loads(result.stdout)["rounds"] == 35
    assert _same(whole, interrupted)
    assert not list(interrupted.glob("checkpoint*"))


def test_the_same_flags_may_be_given_again(dpadmm: Any, interrupted: Path) -> None:
    assert dpadmm("train", *RUN, "--out", interrupted, "--resume").exit_code == 0


def test_a_run_of_0_1_0_may_not(dpadmm: Any, interrupted: Path) -> None:
    """Its checkpoint says no series of numbers, and its spec names a precision."""
    for path in interrupted.glob("checkpoint-*.npz"):
        with np.load(path) as file:
            arrays = {name: array for name, array in file.items() if name != "series"}
        np.savez(path, **arrays)
    spec = interrupted / "spec.toml"
    spec.write_text(spec.read_text().replace("[run]\n", '[run]\nprecision = "float64"\n'))
    before = spec.read_text()
    result = dpadmm("train", "--out", interrupted, "--resume")
    assert result.exit_code == 2
    assert "was made with 0.1.0; noise and sums have changed" in result.stderr
    assert spec.read_text() == before


def test_another_spec_may_not(dpadmm: Any, interrupted: Path) -> None:
    before = (interrupted / "spec.toml").read_text()
    result = dpadmm("train", "--rounds", 50, "--out", interrupted, "--resume")
    assert result.exit_code == 2
    assert "another spec" in result.stderr
    assert (interrupted / "spec.toml").read_text() == before


def test_without_resume_the_folder_is_left_alone(dpadmm: Any, interrupted: Path) -> None:
    result = dpadmm("train", *RUN, "--out", interrupted)
    assert result.exit_code == 2
    assert "not empty" in result.stderr


def test_resume_needs_a_folder_with_a_run(dpadmm: Any, tmp_path: Path) -> None:
    result = dpadmm("train", "--resume")
    assert (result.exit_code, result.stderr) == (2, "error: --resume needs --out, the folder of the interrupted run.\n")
    result = dpadmm("train", "--resume", "--out", tmp_path / "none")
    assert result.exit_code == 2
    assert "holds no interrupted run" in result.stderr
    assert not (tmp_path / "none").exists()


def test_control_c_without_a_folder(dpadmm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*arguments: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpadmm.engine.run.prepare", stop)
    result = dpadmm("train", *RUN)
    assert result.exit_code == 130
    assert "with --out a run can be resumed" in result.stderr


def test_control_c_in_a_shell(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = [str(word) for word in (*RUN, "--rounds", 1_000_000, "--measure-every", 1_000_000, "--out", out)]
    process = subprocess.Popen(
        [sys.executable, "-c", "from dpadmm.cli.main import main; main()", "train", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(out.glob("checkpoint-*[0-9].npz")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stdout == ""
    assert "--resume" in stderr
    assert "Traceback" not in stderr
