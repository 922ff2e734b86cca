"""Whatever is wrong, `train` says so in one line that names the value, leaves with code 2, and writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SMALL = ("--data", "synthetic", "--agents", 4, "--rounds", 2)
BUDGET = ("--epsilon", 1, "--delta", 1e-5)


@pytest.fixture
def refused(dpadmm: Any, tmp_path: Path) -> Any:
    """Runs `train`, checks how it is refused, and gives the message."""

    def run(*flags: object) -> str:
        out = tmp_path / "refused"
        result = dpadmm("train", *flags, "--out", out, "--json")
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        assert not out.exists()
        return str(result.stderr)

    return run


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--epsilon", 0), ("epsilon", "0.0")),
        (("--epsilon", -1), ("epsilon", "-1.0")),
        (("--epsilon", "nan"), ("epsilon", "nan")),
        (("--epsilon", "inf"), ("epsilon", "inf")),
        (("--delta", 1), ("delta", "1.0")),
        (("--delta", 2), ("delta", "2.0")),
        (("--delta", -0.1), ("delta", "-0.1")),
        (("--delta", 0), ("delta = 0",)),
        (("--agents", 0), ("agents 0",)),
        (("--agents", 8001), ("agents 8001", "8000")),
        (("--rounds", 0), ("rounds 0",)),
        (("--repeats", 0), ("repeats 0",)),
        (("--measure-every", 0), ("measure_every 0",)),
        (("--seed", -1), ("seed -1",)),
        (("--test", "inf"), ("test", "inf")),
        (("--test", -1), ("-1",)),
        (("--test", 10000), ("10000",)),
        (("--norm-bound", 0), ("norm bound 0.0",)),
        (("--rho", 0), ("rho 0.0",)),
        (("--radius", -1), ("radius -1.0",)),
        (("--strength", -1), ("strength -1.0",)),
        (("--target", "y"), ("'synthetic'", "target")),
        (("--loss", "squared"), ("'squared'", "regression", "'synthetic'")),
        (("--tolerance", 0.1), ("'dp-admm'", "tolerance")),
        (("--mechanism", "laplas"), ("'laplas'", "'laplace'")),
        (("--noise-multiplier", 3), ("noise multiplier", "epsilon")),
        (("--algorithm", "dvp", "--penalty", "l1"), ("'objective'", "'l1'")),
        (("--algorithm", "dvp", "--set", "box"), ("'objective'", "'box'")),
        (("--algorithm", "pvp", "--set", "box"), ("'output'", "'box'")),
        (("--schedule", "theorem-4", "--penalty", "l1"), ("'theorem-4'", "'l1'")),
        (("--algorithm", "admm"), ("'admm'", "not private", "epsilon 1")),
        (("--set", "box:wide"), ("'box:wide'", "number")),
        (("--set", "box:0"), ("'box'", "0.0")),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_a_wrong_value(refused: Any, flags: tuple[object, ...], parts: tuple[str, ...]) -> None:
    message = refused(*SMALL, *BUDGET, *flags)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("flag", "name", "suggestion"),
    [
        ("--algorithm", "dp-adm", "dp-admm"),
        ("--loss", "logistc", "logistic"),
        ("--penalty", "elastic", "elastic-net"),
        ("--set", "bx", "box"),
        ("--schedule", "theorem3", "theorem-3"),
        ("--mechanism", "gausian", "gaussian"),
        ("--relation", "zeroout", "zero-out"),
        ("--split", "randon", "random"),
        ("--scaling", "publik", "public"),
        ("--task", "regresion", "regression"),
        ("--data", "adlut", "adult"),
    ],
)
def test_an_unknown_name_comes_with_the_nearest(refused: Any, flag: str, name: str, suggestion: str) -> None:
    message = refused(*SMALL, *BUDGET, flag, name)
    assert f"{name!r}; did you mean {suggestion!r}?" in message


def test_no_budget(refused: Any) -> None:
    assert "'dp-admm' is private" in refused(*SMALL)


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (("--noise-multiplier", -1, "--delta", 1e-5), "noise multiplier -1"),
        (("--noise-multiplier", 1), "delta"),
        (("--noise-multiplier", 1, "--delta", 0), "delta"),
        (("--noise-multiplier", 1, "--delta", 2), "delta 2"),
        (("--algorithm", "admm", "--noise-multiplier", 1), "'admm' is not private"),
    ],
)
def test_a_wrong_noise_multiplier(refused: Any, flags: tuple[object, ...], part: str) -> None:
    assert part in refused(*SMALL, *flags)


def _file(path: Path, *lines: str) -> tuple[object, ...]:
    path.write_text("\n".join(lines) + "\n")
    return ("--data", path, "--target", "y", "--agents", 2, "--rounds", 2, "--test", 0, *BUDGET)


@pytest.mark.parametrize(("value", "what"), [("nan", "missing"), ("inf", "inf"), ("-inf", "-inf"), ("", "missing")])
def test_a_feature_that_is_no_finite_number(refused: Any, tmp_path: Path, value: str, what: str) -> None:
    message = refused(*_file(tmp_path / "d.csv", "a,b,y", "1,2,0", f"2,{value},1", "3,4,0"))
    assert "column 'b', row 2" in message
    assert what in message


def test_a_feature_that_is_text(refused: Any, tmp_path: Path) -> None:
    assert "'red' in column 'b', row 1" in refused(*_file(tmp_path / "d.csv", "a,b,y", "1,red,0", "2,3,1"))


def test_labels_outside_the_set(refused: Any, tmp_path: Path) -> None:
    message = refused(*_file(tmp_path / "d.csv", "a,y", "1,0", "2,1", "3,2"))
    assert "'logistic' tells two classes apart, the data have 3" in message
    assert "the one class '1'" in refused(*_file(tmp_path / "d.csv", "a,y", "1,1", "2,1"))
    assert "column 'y', row 2" in refused(*_file(tmp_path / "d.csv", "a,y", "1,1", "2,"))


def test_an_agent_without_records(refused: Any, tmp_path: Path) -> None:
    flags = _file(tmp_path / "d.csv", "a,y", "1,0", "2,1", "3,1")
    assert "agents 4" in refused(*flags, "--agents", 4)


def test_an_owner_that_is_missing(refused: Any, tmp_path: Path) -> None:
    flags = _file(tmp_path / "d.csv", "a,y,o", "1,0,me", "2,1,", "3,1,you")
    assert "column 'o', row 2" in refused(*flags, "--owner", "o")
    assert "owner column 'you'" in refused(*flags, "--owner", "you")


def test_files_that_are_not_there_or_not_tables(refused: Any, tmp_path: Path) -> None:
    flags = _file(tmp_path / "d.csv", "a,y", "1,0", "2,1")
    assert "missing.csv" in refused(*flags, "--data", tmp_path / "missing.csv")
    assert "target column 'z'" in refused(*flags, "--target", "z")
    assert "target" in refused("--data", tmp_path / "d.csv", *BUDGET)
    (tmp_path / "empty.csv").write_text("")
    assert "empty" in refused(*flags, "--data", tmp_path / "empty.csv")
    (tmp_path / "broken.parquet").write_text("not parquet")
    assert "broken.parquet" in refused(*flags, "--data", tmp_path / "broken.parquet")


def _spec(tmp_path: Path, text: str) -> tuple[object, ...]:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return ("--spec", path)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[run]\nepsilom = 1\n", ("key in [run]", "'epsilom'; did you mean 'epsilon'?", "run.toml")),
        ("[date]\nagents = 1\n", ("table", "'date'; did you mean 'data'?", "run.toml")),
        ("[run]\nepsilon = 'one'\n", ("run.toml", "epsilon = 'one'", "number")),
        ("[run]\nrounds = 2.5\n", ("run.toml", "rounds = 2.5", "a whole number")),
        ("[run]\nepsilon = nan\n", ("run.toml", "epsilon")),
        ("run = 3\n", ("run.toml", "[run]")),
        ("[run\n", ("run.toml", "not TOML")),
    ],
)
def test_a_wrong_spec_file(refused: Any, tmp_path: Path, text: str, parts: tuple[str, ...]) -> None:
    message = refused(*_spec(tmp_path, text))
    for part in parts:
        assert part in message


def test_a_spec_file_that_cannot_be_read(refused: Any, tmp_path: Path) -> None:
    assert "missing.toml" in refused("--spec", tmp_path / "missing.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    assert "binary.toml" in refused("--spec", tmp_path / "binary.toml")


def test_folders_that_are_taken(dpadmm: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert dpadmm("train", *SMALL, *BUDGET, "--out", out).exit_code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for more in ((), ("--resume",)):
        result = dpadmm("train", *SMALL, *BUDGET, "--out", out, *more)
        assert result.exit_code == 2
        assert "holds a finished run" in result.stderr
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    (tmp_path / "file").write_text("mine")
    result = dpadmm("train", *SMALL, *BUDGET, "--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "is a file" in result.stderr
    assert (tmp_path / "file").read_text() == "mine"
