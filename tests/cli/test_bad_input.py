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
        (("--delta", 1), ("delta = 1.0 must be",)),
        (("--delta", 2), ("delta = 2.0 must be",)),
        (("--delta", -0.1), ("delta", "-0.1")),
        (("--delta", 0), ("delta = 0",)),
        (("--agents", 0), ("agents 0",)),
        (("--agents", 8001), ("agents 8001", "8000")),
        (("--rounds", 0), ("rounds = 0 must be a whole number from 1",)),
        (("--repeats", 0), ("repeats = 0 must be",)),
        (("--measure-every", 0), ("measure_every = 0 must be",)),
        (("--seed", -1), ("seed = -1 must be",)),
        (("--test", "inf"), ("test", "inf")),
        (("--test", -1), ("-1",)),
        (("--test", 10000), ("10000",)),
        (("--norm-bound", 0), ("norm_bound = 0.0 must be",)),
        (("--rho", 0), ("rho = 0.0 must be",)),
        (("--radius", -1), ("radius = -1.0 must be",)),
        (("--strength", -1), ("strength = -1.0 must be 0 or",)),
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
        (("--set", "box:0.1,bal:2"), ("'bal'; did you mean 'ball'?",)),
        (("--set", "box:0.1,"), ("set ''",)),
        (("--set", '{"ball": {"radius": -1}}'), ("'ball'", "radius = -1")),
        (("--set", '{"ball": {"radios": 1}}'), ("'radios'; did you mean 'radius'?",)),
        (("--set", '{"ball": '), ("not JSON",)),
        (("--set", '{"ball": {"centre": [0, 0]}}'), ("'ball'", "2 coefficient", "20")),
        (("--algorithm", "obj-g", "--updates", 0), ("updates = 0", "from 1 to 10,000")),
        (("--algorithm", "obj-g", "--updates", -3), ("updates", "from 1 to 10,000")),
        (("--updates", 2), ("'dp-admm'", "no updates to set")),
        (("--algorithm", "obj-g", "--rho", 1, "--rho-schedule", "balanced"), ("rho", "rho schedule", "not both")),
        (("--algorithm", "obj-g", "--rho", 0), ("rho = 0.0 must be",)),
        (("--algorithm", "obj-g", "--rho-schedule", "growing:0"), ("'growing'", "base = 0.0 must be")),
        (("--algorithm", "obj-g", "--rho-schedule", "constant:2:3"), ("'constant'", "2 number")),
        (("--algorithm", "obj-g", "--rho-schedule", "constant:0"), ("'constant'", "fixed = 0.0 must be")),
        (("--algorithm", "dvp", "--rho-schedule", "growing"), ("'objective'", "known before its noise", "'growing'")),
        (("--unit-gain",), ("'dp-admm'", "no unit gain to set")),
        (("--algorithm", "obj-g", "--unit-gain"), ("'obj-g'", "no unit gain to set")),
        (("--algorithm", "obj-g", "--schedule", "theorem-5.3"), ("'theorem-5.3'", "bounded set", "'ryu-kim'")),
        (("--algorithm", "obj-g", "--schedule", "free-5.3:0", "--set", "box"), ("'free-5.3'", "theta = 0.0 must be")),
        (
            ("--algorithm", "obj-g", "--schedule", "theorem-5.3", "--set", "box", "--penalty", "l1"),
            ("'theorem-5.3'", "'l1'", "kink", "'theorem-5.4'"),
        ),
        (
            ("--algorithm", "obj-g", "--schedule", "theorem-5.5", "--set", "box", "--penalty", "none"),
            ("'theorem-5.5'", "strongly convex", "'l2'"),
        ),
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
        ("--rho-schedule", "balancd", "balanced"),
        ("--weighting", "record", "records"),
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
        (("--noise-multiplier", -1, "--delta", 1e-5), "noise_multiplier = -1.0 must be 0 or"),
        (("--noise-multiplier", 1), "delta"),
        (("--noise-multiplier", 1, "--delta", 0), "delta"),
        (("--noise-multiplier", 1, "--delta", 2), "delta = 2.0 must be"),
        (("--algorithm", "admm", "--noise-multiplier", 1), "'admm' is not private"),
    ],
)
def test_a_wrong_noise_multiplier(refused: Any, flags: tuple[object, ...], part: str) -> None:
    assert part in refused(*SMALL, *flags)


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_a_set_in_a_file_that_cannot_be_read(refused: Any, tmp_path: Path, name: str) -> None:
    message = refused(*SMALL, *BUDGET, "--algorithm", "obj-g", "--set", f"@{tmp_path / name}")
    assert f"--set @{tmp_path / name}: the set" in message
    assert "cannot be read" in message


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"\xff\xfe\x00", "is not text"),
        (b"", "set ''"),
        (b'{"bal": {}}', "'bal'; did you mean 'ball'?"),
        (b"@x", "@x"),
    ],
    ids=["binary", "empty", "wrong", "a file in a file"],
)
def test_a_set_in_a_file_that_says_nothing_of_use(refused: Any, tmp_path: Path, content: bytes, part: str) -> None:
    file = tmp_path / "set.json"
    file.write_bytes(content)
    assert part in refused(*SMALL, *BUDGET, "--algorithm", "obj-g", "--set", f"@{file}")


@pytest.mark.parametrize("data", ["mnist", "mnist-writers", "femnist"])
def test_data_sets_that_do_not_ship_name_their_files(
    refused: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: str
) -> None:
    from dpadmm.datasets.registry import DATASETS

    monkeypatch.delenv("DPADMM_DATA", raising=False)
    flags = ("--data", data, "--loss", "softmax", "--algorithm", "obj-g", "--rounds", 2, *BUDGET)
    message = refused(*flags)
    assert len(DATASETS[data].needs) >= 2
    for part in (
        *DATASETS[data].needs,
        f"{data!r} does not ship",
        "no directory was named",
        "--data-dir",
        "DPADMM_DATA",
    ):
        assert part in message
    assert str(tmp_path) in refused(*flags, "--data-dir", tmp_path)
    monkeypatch.setenv("DPADMM_DATA", str(tmp_path / "nowhere"))
    assert f"there is no directory {tmp_path / 'nowhere'}" in refused(*flags)


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
