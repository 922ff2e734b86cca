"""`dpadmm train --topology`: runs without a server."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

SMALL = ("train", "--data", "synthetic", "--rounds", 4)
PURE = ("--mechanism", "gamma-norm")  # the paper's
RING = (*SMALL, "--topology", "ring:4", "--algorithm", "private-r-admm", *PURE)


def _summary(result: Any) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.count("\n") == 1
    return dict(json.loads(result.stdout))


def test_the_example_of_the_help(dpadmm: Any) -> None:
    flags = ("--topology", "erdos-renyi:20:0.3", "--algorithm", "private-mr-admm", "--epsilon", 12, *PURE)
    summary = _summary(dpadmm(*SMALL, *flags, "--json"))
    assert (summary["agents"], summary["rounds"], summary["topology"]) == (20, 4, "erdos-renyi:20:0.3")
    assert (summary["delta"], summary["accountant"], summary["fully_accounted"]) == (0.0, "pure", True)
    assert 11.99 < summary["epsilon"] <= 12.0
    assert summary["claimed_epsilon"] > summary["epsilon"]
    assert summary["edges"] > 20
    assert summary["augmented_objective"] is None
    assert summary["epsilon_by_agent"] == []
    text = " ".join(dpadmm(*SMALL, *flags).stdout.split())
    for part in ("mean of the nodes", "nodes' own models", "no server", "which is safe but wasteful"):
        assert part in text
    assert "global model" not in text


def test_gaussian_noise_by_its_name(dpadmm: Any) -> None:
    flags = ("--mechanism", "gaussian", "--epsilon", 1, "--rounds", 2, "--measure-every", 2)
    summary = _summary(dpadmm(*RING, *flags, "--delta", 1e-5, "--json"))
    assert 0.99 < summary["epsilon"] <= 1.0
    assert summary["delta"] == 1e-5
    assert summary["claimed_epsilon"] is None
    assert summary["accountant"] != "pure"
    assert "delta" in dpadmm(*RING, *flags).stderr


def test_noise_by_its_density(dpadmm: Any) -> None:
    one = _summary(dpadmm(*RING, "--alpha", 20, "--json"))
    each = _summary(dpadmm(*RING, "--alpha", "20,20,20,20", "--json"))
    assert one["epsilon"] == each["epsilon"] > 0
    assert one["train_loss"] == each["train_loss"]
    # Noise costs alpha times the sensitivity, and is heard twice; the rest are determinants.
    loud = _summary(dpadmm(*RING, "--alpha", "20,20,10,20", "--json"))
    assert loud["epsilon"] == one["epsilon"]  # of the worst agent
    assert loud["train_loss"] != one["train_loss"]
    assert _summary(dpadmm(*RING, "--alpha", "40", "--json"))["epsilon"] > one["epsilon"]


def test_budgets_for_every_agent(dpadmm: Any, tmp_path: Path) -> None:
    flags = ("--epsilons", "1,2,0.5,4", "--out", tmp_path / "run")
    summary = _summary(dpadmm(*RING, *flags, "--json"))
    for spent, budget in zip(summary["epsilon_by_agent"], (1.0, 2.0, 0.5, 4.0), strict=True):
        assert 0.999 * budget < spent <= budget
    assert summary["epsilon"] == max(summary["epsilon_by_agent"])
    spec = tomllib.loads((tmp_path / "run" / "spec.toml").read_text())
    assert spec["run"]["epsilons"] == [1.0, 2.0, 0.5, 4.0]
    assert "epsilon" not in spec["run"]
    gaussian = ("--algorithm", "pvp-graph", "--epsilons", "1,2,0.5,4", "--deltas", "1e-5,1e-6,1e-7,1e-5")
    private = _summary(dpadmm(*SMALL, "--topology", "ring:4", *gaussian, "--json"))
    for spent, budget in zip(private["epsilon_by_agent"], (1.0, 2.0, 0.5, 4.0), strict=True):
        assert 0.999 * budget < spent <= budget
    assert private["delta"] == 1e-5


def test_penalties_and_damping_reach_the_run(dpadmm: Any) -> None:
    flags = (*SMALL, "--topology", "ring:4", "--algorithm", "r-admm", "--json")
    found = [
        _summary(dpadmm(*flags, *more))["train_loss"]
        for more in ((), ("--damping", 0.01), ("--dual-rho", 0.001), ("--rho", 0.01), ("--damping", 0.5 / 1750))
    ]
    assert len(set(found[:4])) == 4
    assert found[4] == found[0]  # the paper's gamma


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ring.edges", "# a ring\n0 1\n1,2\n2 3\n3 0\n"),
        ("ring.json", '\n{"edges": [[3, 0], [2, 3], [1, 2], [0, 1]]}\n'),
        ("ring.adjlist", "0 1 3\n1 2\n2 3\n"),
    ],
)
def test_a_network_in_a_file(dpadmm: Any, tmp_path: Path, name: str, content: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    flags = ("--epsilon", 1, "--json")
    from_file = _summary(dpadmm(*RING, "--topology", f"@{file}", *flags, "--out", tmp_path / "run"))
    assert from_file["train_loss"] == _summary(dpadmm(*RING, *flags))["train_loss"]
    assert (from_file["agents"], from_file["edges"]) == (4, 4)
    file.unlink()  # the spec holds the network itself
    again = _summary(dpadmm("train", "--spec", tmp_path / "run" / "spec.toml", "--json"))
    assert again["train_loss"] == from_file["train_loss"]


def test_owners_are_joined_by_name(dpadmm: Any, records: Path, tmp_path: Path) -> None:
    file = tmp_path / "clinics.edges"
    file.write_text("south north\n")
    owners = ("--data", records, "--target", "ill", "--owner", "clinic", "--test", 0)
    flags = ("train", *owners, "--rounds", 2, "--algorithm", "r-admm", "--json")
    named = _summary(dpadmm(*flags, "--topology", f"@{file}", "--out", tmp_path / "run"))
    assert (named["agents"], named["edges"]) == (2, 1)
    assert json.loads(named["topology"]) == {"edges": [[0, 1]]}
    assert named["train_loss"] == _summary(dpadmm(*flags, "--topology", "path:2"))["train_loss"]
    file.write_text("south nroth\n")
    result = dpadmm(*flags, "--topology", f"@{file}")
    assert result.exit_code == 2
    assert "'nroth': no owner(s) by the name" in result.stderr


@pytest.mark.parametrize("kept", [1, 2])
def test_a_run_is_resumed_with_its_nodes(dpadmm: Any, tmp_path: Path, kept: int) -> None:
    """Also between a round and the one that recycles it."""
    from dpadmm.engine.output import checkpoint

    out, save = tmp_path / "stopped", checkpoint.save
    flags = (*RING, "--rounds", 25, "--epsilon", 4, "--measure-every", 4)
    number = 10 if kept == 2 else 11

    def stop(path: Path, digest: str, state: Any, history: Any) -> None:
        save(path, digest, state, history)
        if state.round == number:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "save", stop)
        if kept == 1:
            from dpadmm.engine import run as running

            run = running.run_prepared
            patch.setattr(running, "run_prepared", lambda *a: run(*a[:3], 11, *a[4:]))
        result = dpadmm(*flags, "--out", out, "--json")
    assert result.exit_code == 130
    assert f"dpadmm train --out {out} --resume" in result.stderr
    _summary(dpadmm("train", "--out", out, "--resume", "--json"))
    whole = tmp_path / "whole"
    _summary(dpadmm(*flags, "--out", whole, "--json"))
    for name in ("history.csv", "nodes.csv", "model.json", "spec.toml"):
        assert (out / name).read_text() == (whole / name).read_text()
    with (out / "nodes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(int(row["round"]), int(row["node"])) for row in rows] == [
        (round, node) for round in (4, 8, 12, 16, 20, 24, 25) for node in range(4)
    ]
    head = (out / "history.csv").read_text().splitlines()[0].split(",")
    assert head[-4:] == ["epsilon", "printed_epsilon", "noise", "signal"]
    assert "augmented_objective" not in head


def test_another_network_is_another_spec(dpadmm: Any, tmp_path: Path) -> None:
    from dpadmm.engine.output import checkpoint

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "save", stop)
        assert dpadmm(*RING, "--epsilon", 1, "--out", out).exit_code == 130
    assert "another spec" in dpadmm("train", "--topology", "path:4", "--out", out, "--resume").stderr
    assert "another spec" in dpadmm("train", "--damping", 0.1, "--out", out, "--resume").stderr
    assert dpadmm(*RING, "--epsilon", 1, "--out", out, "--resume").exit_code == 0


def test_the_help_shows_the_options(dpadmm: Any) -> None:
    text = dpadmm("train", "--help").stdout
    for flag in ("--topology", "--damping", "--dual-rho", "--epsilons", "--deltas", "--alpha", "erdos-renyi:20:0.3"):
        assert flag in text


WRONG = [
    (("--topology", "ring:5", "--agents", 4), ("'ring:5' has 5 nodes", "4 agents")),
    (("--topology", '{"edges":[[0,1],[2,3]]}'), ("2 parts", "to connect it")),
    (("--topology", '{"edges":[[0,1],[1,1]]}'), ("joined to itself", "leave that edge out")),
    (("--topology", '{"edges":[[0,1],[1,3]]}'), ("1 node(s) without neighbours",)),
    (("--topology", '{"edges":[]}'), ("no edges",)),
    (("--topology", '{"edges":'), ("not JSON",)),
    (("--topology", "erdos-renyi:200:0.001"), ("so few edges",)),
    (("--topology", "erdos-renyi:20:0.3:x"), ("seed 'x'", "whole number")),
    (("--topology", "erdos-renyi:20:2"), ("probability '2'",)),
    (("--topology", "ring:1"), ("1 node(s)", "at least 2")),
    (("--topology", "ring:-3"), ("'-3'", "whole number")),
    (("--topology", "ring:1000000"), ("1,000,000 nodes", "200,000 are the most")),
    (("--topology", "rnig:4"), ("'rnig'; did you mean 'ring'?",)),
    (("--topology", ""), ("topology ''",)),
    (("--topology", "@missing.edges"), ("'missing.edges' cannot be read",)),
    (("--algorithm", "dp-admm", "--delta", 1e-5), ("'ring:4'", "'dp-admm' has a server", "private-mr-admm")),
    (("--dual-rho", 0), ("dual_rho = 0.0 must be",)),
    (("--damping", -1), ("damping", "must be 0 or a number")),
    (("--algorithm", "dvp-graph", "--damping", 1), ("'dvp-graph' has no damping to set",)),
    (("--set", "box:1"), ("'box'",)),
    (("--mechanism", "gaussian"), ("delta = 0",)),
    (("--mechanism", "laplace"), ("'laplace'",)),
    (("--epsilons", "1,2,3,4"), ("epsilon", "epsilons", "not both")),
    (("--alpha", 1), ("epsilon", "alpha", "not both")),
    (("--deltas", "1e-5,1e-6"), ("2 deltas for 1 epsilons",)),
]
LISTS = [
    (("--epsilons", "1,2,3"), ("3 budgets for 4 agents",)),
    (("--epsilons", "1,2,3,0"), ("epsilons = 0.0 must be",)),
    (("--epsilons", "1,2,3,nan"), ("epsilons", "finite numbers")),
    (("--epsilons", "1,2,3,inf"), ("epsilons", "finite numbers")),
    (("--epsilons", "1,2,,3"), ("--epsilons 1,2,,3: must be numbers, separated by commas",)),
    (("--epsilons", ""), ("--epsilons", "must be numbers")),
    (("--epsilons", "1;2;3;4"), ("--epsilons 1;2;3;4", "must be numbers")),
    (("--epsilons", "1,2,3,4", "--deltas", "1e-5,x"), ("--deltas 1e-5,x", "must be numbers")),
    (("--epsilons", "1,2,3,4", "--deltas", "1e-5,1e-5"), ("2 deltas for 4 epsilons",)),
    (("--epsilons", "1,2,3,4", "--deltas", "1e-5,1e-5,1e-5,1"), ("delta",)),
    (("--alpha", "1,2"), ("2 alphas for 4 agents",)),
    (("--alpha", "5", "--deltas", "1e-5,1e-6"), ("2 deltas for 4 agents",)),
    (("--alpha", "5", "--deltas", "2"), ("delta", "2")),
    (("--algorithm", "r-admm", "--deltas", "1e-5,1e-6,1e-5,1e-6,1e-5"), ("5 deltas for 4 agents",)),
    (("--alpha", "0"), ("alpha = 0.0 must be",)),
    (("--alpha", "1,2,3,-4"), ("alpha = -4.0 must be",)),
    (("--alpha", "one"), ("--alpha one", "must be numbers")),
    (("--alpha", "1", "--algorithm", "pvp-graph", "--delta", 1e-5), ("'pvp-graph'", "density")),
    (("--alpha", "1", "--mechanism", "gaussian", "--delta", 1e-5), ("'gamma-norm'",)),
    (("--epsilon", 1, "--algorithm", "r-admm"), ("'r-admm' is not private", "epsilon 1")),
    (("--epsilons", "1,2,3,4", "--algorithm", "r-admm"), ("'r-admm' is not private", "epsilons")),
    (("--epsilons", "1,2,3,4", "--paper-noise"), ("the same for all agents",)),
    ((), ("'private-r-admm' is private",)),
]


def _refused(dpadmm: Any, out: Path, *flags: object) -> str:
    result = dpadmm(*flags, "--out", out, "--json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert not out.exists()
    return str(result.stderr)


@pytest.mark.parametrize(("flags", "parts"), WRONG, ids=lambda value: " ".join(map(str, value)))
def test_a_wrong_value(dpadmm: Any, tmp_path: Path, flags: tuple[object, ...], parts: tuple[str, ...]) -> None:
    message = _refused(dpadmm, tmp_path / "run", *RING, "--epsilon", 1, *flags)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(("flags", "parts"), LISTS, ids=lambda value: " ".join(map(str, value)))
def test_a_wrong_budget(dpadmm: Any, tmp_path: Path, flags: tuple[object, ...], parts: tuple[str, ...]) -> None:
    own = "r-admm" in flags  # which has no noise whose mechanism could be named
    start = (*SMALL, "--topology", "ring:4") if own else RING
    message = _refused(dpadmm, tmp_path / "run", *start, *flags)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"0 1\n2 3\n", "2 parts"),
        (b"0 1\n1 1\n", "joined to itself"),
        (b"0 1 2\n", "line 1: 3 labels"),
        (b"# nothing\n", "no edge"),
        (b"\xff\xfe\x00", "is not text"),
    ],
    ids=["disconnected", "loop", "three", "empty", "binary"],
)
def test_a_wrong_network_in_a_file(dpadmm: Any, tmp_path: Path, content: bytes, part: str) -> None:
    file = tmp_path / "net.edges"
    file.write_bytes(content)
    assert part in _refused(dpadmm, tmp_path / "run", *RING, "--epsilon", 1, "--topology", f"@{file}")


def test_an_algorithm_on_graphs_without_a_graph(dpadmm: Any, tmp_path: Path) -> None:
    flags = (*SMALL, "--algorithm", "private-r-admm", "--agents", 4, "--epsilon", 1)
    assert "needs a topology" in _refused(dpadmm, tmp_path / "run", *flags)
    server = (*SMALL, "--agents", 4, "--epsilon", 1, "--delta", 1e-5, "--dual-rho", 1)
    assert "has a server, and one rho" in _refused(dpadmm, tmp_path / "run", *server)
