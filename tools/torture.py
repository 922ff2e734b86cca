"""The long tests, in parts: what was done is kept in a file, and the next call goes on from there.

    python tools/torture.py --minutes 20          all parts in turn, each for its share of the time
    python tools/torture.py --only kills,races    some of them
    python tools/torture.py --summary             what was done so far

Parts: `kills` (SIGKILL before every step of joining, answering, debiting and sending; the ledger must hold whatever
left), `races` (two processes for the last of a budget), `malformed` (frames and requests; memory must stay flat), and
`owners` (ten owners behind a slow and lossy network, run after run; needs root for network namespaces).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "helpers"), str(TESTS / "owner")]

TARGETS = {"kills": 10_000, "races": 1_000, "malformed": 100_000, "owners": 3_600}
UNITS = {"kills": "kills", "races": "races", "malformed": "frames and requests", "owners": "seconds"}
Part = dict[str, Any]
ROUNDS = 16
NEEDED = {"file: BEGIN IMMEDIATE", "file: COMMIT", "log: write", "log: sync", "send", "sent"}
"""Steps that a whole turn of kills must have met, or the steps are not those of an answer any more."""


class Failure(Exception):
    """Something was found; the part stops and says what."""


def check(condition: object, what: str) -> None:
    if not condition:
        raise Failure(what)


# -- kills and races ---------------------------------------------------------------------------------------------------


def sent(out: Path) -> dict[int, str]:
    """What left, by round; the same round must never have left in two versions."""
    found: dict[int, str] = {}
    for line in out.read_text().splitlines() if out.exists() else []:
        number, mark = line.split()
        check(found.setdefault(int(number), mark) == mark, f"round {number} left twice, differently")
    return found


def check_ledger(path: Path, out: Path) -> None:
    """The chain holds, nothing is locked, and what left is counted; one may have been written and not sent."""
    from dpadmm.privacy.ledger.sqlite import SqliteLedger
    from dpadmm.privacy.ledger.verify import verify

    left = len(sent(out))
    if not path.exists():
        check(not left, "releases left without a ledger")
        return
    ledger = SqliteLedger.open(path)
    try:
        check(ledger.locked == "", f"an honest crash has locked it: {ledger.locked}")
        check(verify(ledger) == [], f"{verify(ledger)[:1]}")
        spent = sum(ledger.spent().values())
        check(left <= spent <= left + 1, f"{spent} spent, {left} left")
    finally:
        ledger.close()


def kills(part: Part, until: float) -> None:
    from test_torture import Zygote

    zygote = Zygote()
    try:
        while part["done"] < TARGETS["kills"] and time.monotonic() < until:
            with tempfile.TemporaryDirectory() as folder:
                _one_ledger(part, until, zygote, Path(folder))
    finally:
        zygote.close()


def _one_ledger(part: Part, until: float, zygote: Any, home: Path) -> None:
    path, out, note = home / "ledger", home / "sent", home / "step"
    algorithm = ("dp-admm", "pvp")[part.setdefault("ledgers", 0) % 2]
    part["ledgers"] += 1
    steps, turns = part.setdefault("steps", {}), part.setdefault("turns", {})
    for round in range(1, ROUNDS + 1):
        # Each kind of attempt is killed at every step in turn. A kill behind the transaction leaves less to be done, so
        # a round is begun by one kill, gone on with by one, and then let come to its end.
        for kind in ("joining" if round == 1 else "answering", "going on", ""):
            turn = turns.setdefault(kind, {"next": 1, "whole": 0}) if kind else {"next": 0}
            (code,) = zygote.run("die", [str(path), str(out), algorithm, ROUNDS, turn["next"], round, str(note)])
            check_ledger(path, out)
            if code == 0:
                if turn["next"]:  # it was beyond the last step: that was a whole turn
                    check(kind != "answering" or steps.keys() >= NEEDED, f"not met: {NEEDED - steps.keys()}")
                    turn.update(next=1, whole=turn["whole"] + 1)
                break
            check(code == -signal.SIGKILL, f"a child ended with {code}")
            turn["next"] += 1
            part["done"] += 1
            steps[note.read_text()] = steps.get(note.read_text(), 0) + 1
            if time.monotonic() > until or part["done"] >= TARGETS["kills"]:
                return
        check(sorted(sent(out)) == list(range(1, round + 1)), "a round did not leave after all")


def races(part: Part, until: float) -> None:
    import owners as sample
    from ledgers import amount
    from test_torture import Zygote

    from dpadmm.privacy.ledger.sqlite import SqliteLedger
    from dpadmm.privacy.ledger.verify import verify

    zygote, winners = Zygote(), part.setdefault("winners", {})
    try:
        while part["done"] < TARGETS["races"] and time.monotonic() < until:
            kind = ("join", "step")[part["done"] % 2]
            with tempfile.TemporaryDirectory() as folder:
                path, out = Path(folder, "ledger"), Path(folder, "won")
                sample.ledger(path).close()
                codes = zygote.run(kind, [str(path), str(out), "first"], [str(path), str(out), "second"])
                check(codes == [0, 0], f"children ended with {codes}")
                won = out.read_text().split()
                check(len(won) == 1, f"{kind}: {len(won)} have won")
                ledger = SqliteLedger.open(path)
                check(ledger.locked == "" and verify(ledger) == [], "the ledger does not add up")
                check(amount(ledger, held=True) <= 2.5, "more than allowed")
                ledger.close()
            winners[won[0]] = winners.get(won[0], 0) + 1
            part["done"] += 1
    finally:
        zygote.close()


# -- malformed frames and requests -------------------------------------------------------------------------------------


def malformed(part: Part, until: float) -> None:
    from small_federation import SmallFederation

    from dpadmm.federation.client.dispatch import METHODS
    from dpadmm.federation.frames import Frame, FrameError, encode

    memory = part.setdefault("megabytes", [])
    with tempfile.TemporaryDirectory() as folder:
        lived = SmallFederation(Path(folder))
        desk, terms = lived.desks()["ahorn"], lived.terms()
        try:
            good = {"run": "study", "terms": terms.dumps(), "seen": None, "known": []}
            check("joined" in desk.answer("join", good), "the run cannot be joined")
            steps = lived.steps("ahorn")
            while part["done"] < TARGETS["malformed"] and time.monotonic() < until:
                draw = random.Random(part["done"])
                method = draw.choice(sorted(METHODS))
                call = {name: odd(draw, good.get(name)) for name in METHODS[method]}
                if draw.random() < 0.1:
                    call[odd_text(draw)] = odd(draw, None)
                if draw.random() < 0.5:
                    reply = desk.answer(method, call)
                    check(isinstance(reply, dict) and "value" not in reply, f"number {part['done']}: {reply}")
                    part["answers"] = part.get("answers", 0) + 1
                else:
                    data = bytearray(Frame(draw.randrange(9), method, encode({"run": odd_text(draw)})).dumps())
                    for _ in range(draw.randrange(1, 6)):
                        data[draw.randrange(len(data))] = draw.randrange(256)
                    try:
                        Frame.loads(
                            bytes(data[: draw.randrange(len(data) + 1)]) if draw.random() < 0.5 else bytes(data)
                        )
                    except FrameError:
                        part["no frames"] = part.get("no frames", 0) + 1
                part["done"] += 1
                if part["done"] % 1000 == 0:
                    check(lived.steps("ahorn") == steps, "something was released")
                    memory.append(round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1))
        finally:
            desk.close()


def odd(draw: random.Random, good: Any) -> Any:
    """Something that may stand in a call, and hardly ever belongs there."""
    choice = draw.randrange(10)
    if choice == 0:
        return good
    if choice == 1 and isinstance(good, str):
        place = draw.randrange(len(good))
        return good[:place] + odd_text(draw) + good[place + draw.randrange(9) :]
    plain = [None, True, -1, 2**62, 0.5, "study", odd_text(draw), draw.randbytes(draw.randrange(80))]
    nested = [[], [odd_text(draw)] * draw.randrange(5), {odd_text(draw): None}, {"ahorn": [["a", "b", ""]]}]
    return draw.choice([*plain, *nested])


def odd_text(draw: random.Random) -> str:
    return "".join(chr(draw.choice([0, 9, 27, 39, 65, 0x7F, 0x202E, 0x1F600])) for _ in range(draw.randrange(12)))


# -- owners on a slow and lossy network --------------------------------------------------------------------------------


def owners(part: Part, until: float) -> None:
    import slow_network
    from process_federation import ProcessFederation
    from process_federation import until as wait_until

    names = tuple(f"owner-{number}" for number in range(10))
    home = Path(tempfile.mkdtemp())
    try:
        with slow_network.two_hosts(delay=0.05, loss=0.02) as hosts:
            town = ProcessFederation(home, host=slow_network.ADDRESSES[0], owners=names, counts=(40,) * 10)
            town.networks = {"coordinator": hosts[0], **dict.fromkeys(names, hosts[1])}
            with town:
                wait_until(lambda: town.present() == set(names), 300.0, "not all owners came")
                last = time.monotonic()
                while part["done"] < TARGETS["owners"] and time.monotonic() < until:
                    number = part["runs"] = part.get("runs", 0) + 1
                    folder = town.prepare(f"run-{number}", rounds=10, owners=list(names), timeout=60.0, epsilon=0.5)
                    status = town.run(folder, limit=600.0)
                    check(status["state"] == "finished", f"run {number}: {status}")
                    part["releases"] = part.get("releases", 0) + 100
                    part["done"] += time.monotonic() - last
                    last = time.monotonic()
                    memory = [_megabytes(process.pid) for process in town.processes.values()]
                    part.setdefault("megabytes", []).append([min(memory), max(memory)])
    except slow_network.Unavailable as reason:
        part["not here"] = str(reason)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _megabytes(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


# -- all of it ---------------------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[Part, float], None]] = {
    "kills": kills,
    "races": races,
    "malformed": malformed,
    "owners": owners,
}


def run(progress: Path, minutes: float, only: list[str]) -> bool:
    """Works on the parts that are not complete; whether nothing was found."""
    state: dict[str, Part] = json.loads(progress.read_text()) if progress.exists() else {}
    left = [name for name in only if state.get(name, {}).get("done", 0) < TARGETS[name]]
    end = time.monotonic() + minutes * 60.0
    for place, name in enumerate(left):
        part = state.setdefault(name, {"done": 0, "found": []})
        share = (end - time.monotonic()) / (len(left) - place)
        try:
            PARTS[name](part, time.monotonic() + share)
        except Failure as found:
            part["found"].append(str(found))
        finally:
            beside = progress.with_name(f"{progress.name}.partial")
            beside.write_text(json.dumps(state, indent=1))
            beside.replace(progress)
    summary(state)
    return not any(part["found"] for part in state.values())


def summary(state: dict[str, Part]) -> None:
    for name, target in TARGETS.items():
        part = state.get(name, {"done": 0, "found": []})
        print(
            f"{name}: {part['done']:,.0f} of {target:,} {UNITS[name]}; found: {'; '.join(part['found']) or 'nothing'}"
        )
        for key, value in part.items():
            if key == "megabytes" and value:
                print(f"  memory, MB: {value[0]} at first, {value[-1]} at last")
            elif key == "steps":
                for step, count in sorted(value.items()):
                    print(f"  {count:6,} before {step}")
            elif key not in ("done", "found", "megabytes"):
                print(f"  {key}: {value}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long to work this time")
    parser.add_argument("--only", default=",".join(TARGETS), help="parts, with commas between them")
    parser.add_argument("--progress", type=Path, default=Path(".torture.json"), help="where it is kept what was done")
    parser.add_argument("--summary", action="store_true", help="only say what was done so far")
    given = parser.parse_args()
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("NUMBA_THREADING_LAYER", "workqueue")
    if given.summary:
        summary(json.loads(given.progress.read_text()) if given.progress.exists() else {})
        return
    with tempfile.TemporaryDirectory() as state:
        os.environ["DPADMM_STATE"] = state  # keys and logs of the ledgers that are made here
        good = run(given.progress, given.minutes, given.only.split(","))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
