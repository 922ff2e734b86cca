"""The ledger on disk: reservations, debits and totals, what is kept, and disks that are full or cannot be written."""

import inspect
import math
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ledgers import CAP, GAUSSIAN, LAPLACE, PURE, amount, debit, filled, join, kinds

from dpadmm.errors import Refused
from dpadmm.privacy import gaussian
from dpadmm.privacy.accounting import best
from dpadmm.privacy.events import DpEvent, GaussianDpEvent, PoissonSampledDpEvent, Relation
from dpadmm.privacy.filter import Cap, Charge
from dpadmm.privacy.gdp import mu_of_pure
from dpadmm.privacy.ledger.protocol import Step
from dpadmm.privacy.ledger.sqlite import REASONS, SqliteLedger
from dpadmm.privacy.ledger.verify import verify
from dpadmm.privacy.units import RECORD, Unit


def test_reserving_debiting_finishing_and_giving_back(ledger: SqliteLedger) -> None:
    join(ledger, "run", {GAUSSIAN: 3, PURE: 1})
    assert (ledger.spent(), ledger.committed()) == ({}, {GAUSSIAN: 3, PURE: 1})
    debit(ledger, "run", 1, GAUSSIAN)
    debit(ledger, "run", 2, PURE)
    run = ledger.runs()["run"]
    assert run.held == {GAUSSIAN: 2}
    assert ledger.spent() == {GAUSSIAN: 1, PURE: 1}
    assert ledger.committed() == {GAUSSIAN: 3, PURE: 1}
    ledger.finish("run")
    assert ledger.committed() == ledger.spent() == {GAUSSIAN: 1, PURE: 1}
    assert ledger.state("run") is None
    assert kinds(ledger) == ["create", "reserve", "debit", "debit", "finish"]
    assert [*ledger.entries()][-1]["given_back"] == [[{"kind": "GaussianDpEvent", "noise_multiplier": 20.0}, 2]]
    ledger.finish("run")
    assert len(kinds(ledger)) == 5  # finishing again is no news
    with pytest.raises(Refused, match="finished"):
        join(ledger, "run", {GAUSSIAN: 3, PURE: 1})
    with pytest.raises(Refused, match="nothing is left"):
        debit(ledger, "run", 3, GAUSSIAN)
    with pytest.raises(Refused, match="not in this ledger"):
        ledger.finish("another")
    assert verify(ledger) == []


def _most() -> int:
    """How many of these releases the filter permits."""
    return next(n for n in range(1, 10_000) if not CAP.within(CAP.cost(Charge({GAUSSIAN: n + 1}, RECORD))))


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_the_total_over_three_runs_is_the_root_of_squares(ledger: SqliteLedger, delta: float) -> None:
    runs: dict[str, dict[DpEvent, int]] = {
        "gaussian": {GAUSSIAN: 20},
        "pure": {PURE: 5},
        "mixed": {GaussianDpEvent(31.0): 3, LAPLACE: 1, GAUSSIAN: 2},
    }
    for name, tally in runs.items():
        join(ledger, name, tally)
    squares = 0.0
    for name, tally in runs.items():
        for event, count in tally.items():
            for number in range(count):
                debit(ledger, name, f"{event}{number}", event)
                squares += {GAUSSIAN: 20.0**-2, PURE: mu_of_pure(0.01) ** 2, LAPLACE: mu_of_pure(0.02) ** 2}.get(
                    event, 31.0**-2
                )
    assert amount(ledger, delta) == pytest.approx(gaussian.epsilon(math.sqrt(squares), delta), rel=1e-9)
    assert amount(ledger, delta) == amount(ledger, delta, held=True)
    # Composing each run alone and adding the epsilons would be more.
    assert amount(ledger, delta) < sum(best(t, delta, Relation.REPLACE).epsilon for t in runs.values())
    assert verify(ledger) == []


def test_a_run_that_does_not_fit_is_refused_at_the_start(ledger: SqliteLedger) -> None:
    most = next(n for n in range(1, 10_000) if best({GAUSSIAN: n + 1}, 1e-6, Relation.REPLACE).epsilon > 3.0)
    with pytest.raises(Refused, match=r"epsilon 3\.\d+ at delta 1e-06; its owner allows 3"):
        join(ledger, "long", {GAUSSIAN: most + 1})
    assert (ledger.runs(), kinds(ledger)) == ({}, ["create"])
    join(ledger, "fits", {GAUSSIAN: most})
    with pytest.raises(Refused, match="would come to"):
        join(ledger, "more", {GAUSSIAN: 1})
    ledger.finish("fits")
    join(ledger, "more", {GAUSSIAN: most})
    with pytest.raises(Refused, match="epsilon inf"):
        join(ledger, "bare", {GaussianDpEvent(0.0): 1})


def test_joining_again_is_no_news_and_other_terms_are_refused(ledger: SqliteLedger) -> None:
    join(ledger, "run", {GAUSSIAN: 2})
    join(ledger, "run", {GAUSSIAN: 2})
    assert kinds(ledger) == ["create", "reserve"]
    with pytest.raises(Refused, match="other terms"):
        ledger.reserve("run", "other", [{GAUSSIAN: 2}], CAP, Unit(), {}, True)


def test_more_than_was_agreed_is_refused(ledger: SqliteLedger) -> None:
    join(ledger, "run", {GAUSSIAN: 1})
    debit(ledger, "run", 1, GAUSSIAN)
    for event in (GAUSSIAN, PURE, GaussianDpEvent(1e9)):
        with pytest.raises(Refused, match="nothing is left"):
            debit(ledger, "run", 2, event)
    with pytest.raises(Refused, match="nothing is left"):
        debit(ledger, "never joined", 1, GAUSSIAN)
    assert ledger.spent() == {GAUSSIAN: 1}
    assert kinds(ledger) == ["create", "reserve", "debit"]


def test_without_a_hold_others_may_take_the_room(ledger: SqliteLedger) -> None:
    most = _most()
    join(ledger, "loose", {GAUSSIAN: most}, hold=False)
    assert ledger.committed() == {}
    debit(ledger, "loose", 1, GAUSSIAN)
    join(ledger, "other", {GAUSSIAN: most - 1}, hold=False)
    for number in range(most - 1):
        debit(ledger, "other", number, GAUSSIAN)
    with pytest.raises(Refused, match="would come to"):
        debit(ledger, "loose", 2, GAUSSIAN)
    assert ledger.spent() == {GAUSSIAN: most}
    assert verify(ledger) == []


def test_a_run_without_a_hold_cannot_eat_what_is_held_for_another(ledger: SqliteLedger) -> None:
    most = _most()
    join(ledger, "loose", {GAUSSIAN: 5}, hold=False)
    join(ledger, "firm", {GAUSSIAN: most - 1}, hold=True)
    debit(ledger, "loose", 1, GAUSSIAN)
    with pytest.raises(Refused, match="would come to"):
        debit(ledger, "loose", 2, GAUSSIAN)
    for number in range(most - 1):
        debit(ledger, "firm", number, GAUSSIAN)
    assert ledger.spent() == {GAUSSIAN: most}


def test_a_stricter_budget_binds_at_once(ledger: SqliteLedger) -> None:
    join(ledger, "run", {GAUSSIAN: 10})
    debit(ledger, "run", 1, GAUSSIAN)
    spent = amount(ledger)
    with pytest.raises(Refused, match="would come to"):
        debit(ledger, "run", 2, GAUSSIAN, cap=Cap(spent, 1e-6))
    assert ledger.spent() == {GAUSSIAN: 1}
    debit(ledger, "run", 2, GAUSSIAN)


def test_a_subsampled_release_is_kept_and_counted(path: Path) -> None:
    ledger = SqliteLedger.create(path, "patients", "d" * 64, Relation.ZERO_OUT)
    event = PoissonSampledDpEvent(0.01, GaussianDpEvent(1.5))
    join(ledger, "run", {event: 2})
    debit(ledger, "run", 1, event)
    assert SqliteLedger.open(path).spent() == {event: 1}
    assert verify(SqliteLedger.open(path)) == []


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_reopening_gives_the_same(ledger: SqliteLedger, path: Path) -> None:
    filled(ledger)
    ledger.refuse("no")
    before = (
        ledger.runs(),
        ledger.spent(),
        [*ledger.entries()],
        ledger.refusals(),
        ledger.meta,
        ledger.position("second"),
    )
    ledger.close()
    again = SqliteLedger.open(path)
    after = (again.runs(), again.spent(), [*again.entries()], again.refusals(), again.meta, again.position("second"))
    assert after == before
    assert (again.dataset, again.relation) == ("patients", Relation.REPLACE)
    assert again.terms("second") == {"rounds": 3}
    assert again.terms("third") is None
    assert verify(again) == []


def test_a_repeated_step_returns_what_is_stored(ledger: SqliteLedger, path: Path) -> None:
    join(ledger, "run", {GAUSSIAN: 2})
    first = debit(ledger, "run", 1, GAUSSIAN)
    again = ledger.commit(Step("run", "1", "in", (GAUSSIAN,), np.zeros((1, 3)), {"round": np.array(9)}, 0), CAP)
    assert again.value.tobytes() == first.value.tobytes()
    assert (again.seal, again.events, again.inputs) == (first.seal, first.events, first.inputs)
    found = SqliteLedger.open(path).find("run", "1")
    assert found is not None
    assert (found.value.tobytes(), found.seal) == (first.value.tobytes(), first.seal)
    state = ledger.state("run")
    assert state is not None
    assert int(state["round"]) == 1  # the second commit changed nothing
    with pytest.raises(Refused, match="other inputs"):
        debit(ledger, "run", 1, GAUSSIAN, inputs="else")
    assert ledger.find("run", "2") is None
    assert ledger.spent() == {GAUSSIAN: 1}


def test_a_commit_from_an_old_position_is_refused(ledger: SqliteLedger, path: Path) -> None:
    join(ledger, "run", {GAUSSIAN: 3})
    debit(ledger, "run", 1, GAUSSIAN)
    arguments: Any = ((GAUSSIAN,), np.zeros((1, 3)), {"round": np.array(2)})
    with pytest.raises(Refused, match="moved on"):
        SqliteLedger.open(path).commit(Step("run", "2", "in", *arguments, 0), CAP)
    assert ledger.spent() == {GAUSSIAN: 1}
    ledger.commit(Step("run", "2", "in", *arguments, ledger.position("run")), CAP)
    assert ledger.spent() == {GAUSSIAN: 2}


def test_refusals_are_counted_and_bounded(ledger: SqliteLedger) -> None:
    ledger._connection.execute("PRAGMA synchronous = OFF")
    for number in range(REASONS + 30):
        ledger.refuse(f"reason {number}")
    ledger.refuse("reason 3")
    reasons = {reason: times for reason, times, _ in ledger.refusals()}
    assert len(reasons) == REASONS + 1
    assert (reasons["reason 3"], reasons["other reasons"]) == (2, 30)
    assert kinds(ledger) == ["create"]


# -- disks -------------------------------------------------------------------------------------------------------------


def unchanged(path: Path, entries: int, spent: dict[DpEvent, int]) -> None:
    again = SqliteLedger.open(path)
    assert (len(kinds(again)), again.spent(), verify(again)) == (entries, spent, [])
    assert again.find("run", "2") is None


def test_a_full_disk_is_a_refusal(ledger: SqliteLedger, path: Path) -> None:
    join(ledger, "run", {GAUSSIAN: 3})
    debit(ledger, "run", 1, GAUSSIAN)
    (pages,) = ledger._connection.execute("PRAGMA page_count").fetchone()
    ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Refused, match=r"cannot be written \(database or disk is full\); nothing was released"):
        debit(ledger, "run", 2, GAUSSIAN, size=10_000)
    unchanged(path, 3, {GAUSSIAN: 1})
    ledger._connection.execute(f"PRAGMA max_page_count = {10 * pages}")
    debit(ledger, "run", 2, GAUSSIAN, size=1000)
    assert SqliteLedger.open(path).spent() == {GAUSSIAN: 2}


def test_a_ledger_that_cannot_be_written_is_a_refusal(ledger: SqliteLedger, path: Path) -> None:
    join(ledger, "run", {GAUSSIAN: 3})
    late = debit(ledger, "run", 1, GAUSSIAN)
    assert late.seal is not None
    ledger._connection.execute("PRAGMA query_only = 1")
    for attempt in (
        lambda: debit(ledger, "run", 2, GAUSSIAN),
        lambda: join(ledger, "more", {PURE: 1}),
        lambda: ledger.finish("run"),
        lambda: ledger.refuse("no"),
        lambda: ledger.lock("why"),
        lambda: ledger.check_seal(ledger.seal("0" * 64)),
    ):
        with pytest.raises(Refused, match="readonly"):
            attempt()
    unchanged(path, 3, {GAUSSIAN: 1})


def test_a_ledger_that_cannot_be_read_is_a_refusal(ledger: SqliteLedger, path: Path) -> None:
    filled(ledger)
    ledger._connection.execute("DROP TABLE releases")
    ledger._connection.execute("DROP TABLE states")
    for attempt in (lambda: ledger.find("first", "1"), lambda: ledger.state("first"), lambda: ledger.position("first")):
        with pytest.raises(Refused, match="cannot be used"):
            attempt()


def _limited(path: str) -> None:
    """In a process whose files may not grow: what it can still do."""
    ledger = SqliteLedger.open(Path(path))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (Path(path).stat().st_size, resource.RLIM_INFINITY))
    value = np.zeros((1, 20_000))
    state = {"round": np.array(2)}
    try:
        step = Step("run", "2", "in", (GaussianDpEvent(20.0),), value, state, ledger.position("run"))
        ledger.commit(step, Cap(3.0, 1e-6))
    except Refused as refused:
        print(f"refused: {refused}")


def test_a_file_that_may_not_grow_is_a_refusal(ledger: SqliteLedger, path: Path) -> None:
    join(ledger, "run", {GAUSSIAN: 3})
    debit(ledger, "run", 1, GAUSSIAN)
    imports = (
        "import resource, signal, sys\nfrom pathlib import Path\nimport numpy as np\n"
        "from dpadmm.errors import Refused\nfrom dpadmm.privacy.filter import Cap\n"
        "from dpadmm.privacy.events import GaussianDpEvent\nfrom dpadmm.privacy.ledger.protocol import Step\n"
        "from dpadmm.privacy.ledger.sqlite import SqliteLedger\n"
    )
    script = f"{imports}{inspect.getsource(_limited)}_limited(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("refused: the ledger cannot be written (")
    unchanged(path, 3, {GAUSSIAN: 1})
