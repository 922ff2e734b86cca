"""What federation.md and owner.md tell people to type: every command, literally and in order, in an empty folder, with
the installed wheel."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from pages import Shell, Unavailable, blocks, commands, shell, until
from pages import wheel as installed

from dpadmm.federation.client.owner_folder import OwnerFolder
from dpadmm.federation.server.federation import Federation


def people(path: Path, count: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows = ["age,sex,ill"]
    for age in draw.uniform(0, 110, count):
        rows.append(f"{age:.1f},{draw.choice(['f', 'm'])},{'yes' if age + draw.normal(0, 20) > 60 else 'no'}")
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """An empty folder, closed to others as a home is."""
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the wheel of this checkout is installed."""
    try:
        return installed(tmp_path_factory.mktemp("wheel"))
    except Unavailable as reason:
        pytest.skip(f"no wheel can be built here: {reason}")


def policy(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)


def test_federation_page_leads_from_nothing_to_a_finished_run_in_ten_commands(here: Path, wheel: Path) -> None:
    columns, mine, spec = blocks("docs/federation.md", "toml")
    (here / "columns.toml").write_text(columns)
    (here / "spec.toml").write_text(spec)
    for seed, name in enumerate(("north", "south", "west")):
        policy(here / f"{name}.toml", mine.replace("north", name))
        people(here / f"{name}.csv", 300 + 10 * seed, seed)
    people(here / "public.csv", 100, 9)
    lines = commands("docs/federation.md")
    (submitted,) = [place for place, line in enumerate(lines) if line.startswith("dpadmm submit")]
    assert submitted < 10
    with shell(here, wheel) as made:
        said = made.page("docs/federation.md")
        assert "saved in" in said[lines[submitted]]
        result = json.loads((here / "study" / "runs" / "spec" / "result.json").read_text())
        assert (result["records"], result["agents"], result["simulated"]) == (930, 3, False)
        assert result["epsilon"] <= 1.0 + 1e-9
        assert result["test_error"] < 0.5
        for name in ("north", "south", "west"):
            assert name in said["dpadmm federation status study"]
        assert "running" in said["dpadmm agent status north"]
    fingerprints = {name: card.fingerprint for name, card in Federation.open(here / "study").pins().items()}
    terms = json.loads((here / "study" / "runs" / "spec" / "terms.json").read_text())
    assert dict(zip(terms["owners"], terms["identities"], strict=True)) == fingerprints


def test_owner_page_leads_from_an_invitation_to_an_approved_run_and_to_the_end(here: Path, wheel: Path) -> None:
    """The coordinator and another owner, who are not on the page, do their part beside it."""
    columns, mine, _ = blocks("docs/federation.md", "toml")
    (here / "columns.toml").write_text(columns)
    policy(here / "policy.toml", blocks("docs/owner.md", "toml")[0])
    policy(here / "south.toml", mine.replace("north", "south"))
    people(here / "patients.csv", 300, 0)
    people(here / "south.csv", 250, 1)
    (here / "trial.toml").write_text(
        '[run]\nalgorithm = "dp-admm"\nrounds = 5\nepsilon = 1.0\ndelta = 1e-6\n[federation]\ntimeout = 60\n'
    )
    with shell(here, wheel) as made:
        made.run("dpadmm federation init study --host localhost --columns columns.toml --port 8003")
        made.run("cp study/invitation.json .")
        made.run("dpadmm agent init south --invitation invitation.json --policy south.toml --data south.csv")
        submitted: list[subprocess.Popen[bytes]] = []

        def added() -> None:
            made.run("dpadmm federation add study north.card.json south.card.json")
            made.run("dpadmm coordinator start study &")
            made.run("dpadmm agent start south &")

        def proposed() -> None:
            until(lambda: OwnerFolder.of("north", here / "state").is_running, "the agent did not start")
            made.run("dpadmm submit trial.toml --federation study -q &")
            submitted.append(made.background[-1])
            until(lambda: bool(waiting(here)), "nothing waits for the owner")

        def finished() -> None:
            assert submitted[0].wait(120.0) == 0

        def named() -> None:  # the page calls an owner's ledger so
            made.run("mv state/agents/north/patients-2026.ledger ledger.db")

        before = {
            "dpadmm agent start north": added,
            "dpadmm agent approve": proposed,
            "dpadmm agent stop": finished,
            "dpadmm ledger show": named,
        }
        said = made.page("docs/owner.md", before)
        assert "Approved: run 'trial'" in said["dpadmm agent approve north trial"]
        assert "north has stopped." in said["dpadmm agent stop north"]
        spending = json.loads(made.run("dpadmm ledger show ledger.db --policy policy.toml --json"))
        assert spending["epsilon_spent"] == pytest.approx(1.0, abs=1e-6)
        _nobody_listens_or_has_children(made)


def waiting(here: Path) -> object:
    folder = OwnerFolder.of("north", here / "state")
    return folder.decisions(folder.identity().card).waiting()


def _nobody_listens_or_has_children(made: Shell) -> None:
    """Of the agents that still run."""
    import psutil

    agents = [p for p in made.background if p.poll() is None and "agent" in " ".join(psutil.Process(p.pid).cmdline())]
    assert agents
    for each in agents:
        process = psutil.Process(each.pid)
        assert process.children() == []
        assert [c for c in process.net_connections() if c.status == psutil.CONN_LISTEN] == []
