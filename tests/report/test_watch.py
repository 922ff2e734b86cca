"""A run is watched while it goes on, crashes, or is over before anybody looks; the run notices nothing of it."""

from __future__ import annotations

import csv
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpadmm.engine.output.status import process
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.report import server as module
from dpadmm.report import watching
from dpadmm.report.server import PageServer, is_loopback
from dpadmm.report.watching import Watched

RUN = ("--data", "synthetic", "--agents", "4", "--epsilon", "1", "--delta", "1e-5")


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GLANCE", 0.02)
    monkeypatch.setattr(module, "KEEP_ALIVE", 0.1)
    monkeypatch.setattr(watching, "GRACE", 0.3)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    train(source="synthetic", agents=4, rounds=6, epsilon=1.0, delta=1e-5, out=out)
    return out


def under_way(folder: Path, finished: Path, round: int = 3, **status: Any) -> Path:
    """A run as it is in the middle, of a process that lives: this one."""
    folder.mkdir()
    for name in ("spec.toml", "plan.json"):
        shutil.copy(finished / name, folder)
    lines = (finished / "history.csv").read_text().splitlines(keepends=True)
    (folder / "history.csv").write_text("".join(lines[: round + 1]))
    say(folder, round=round, **status)
    return folder


def say(folder: Path, **status: Any) -> None:
    told = {"state": "running", "round": 3, "rounds": 6, "run": 0, "runs": 1, "error": "", **process(), **status}
    (folder / ".beside").write_text(json.dumps(told))
    (folder / ".beside").replace(folder / "status.json")


class Watching:
    """A server in a thread."""

    def __init__(self, folder: Path, patience: float = 0.3) -> None:
        self.server = PageServer(Watched(folder, patience), "127.0.0.1", 0)
        self.port = self.server.server_address[1]
        self.states: list[str] = []
        self.lines: list[http.client.HTTPConnection] = []
        self.replies: list[http.client.HTTPResponse] = []
        self.thread = threading.Thread(target=self.server.watch, args=(self.states.append,), daemon=True)
        self.thread.start()

    def get(self, path: str = "/", host: str | None = None, method: str = "GET") -> http.client.HTTPResponse:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        self.lines.append(line)
        line.request(method, path, headers={} if host is None else {"Host": host})
        self.replies.append(line.getresponse())
        return self.replies[-1]

    def close(self) -> None:
        for each in (*self.replies, *self.lines):
            each.close()

    def stops(self, seconds: float = 10.0) -> bool:
        self.thread.join(seconds)
        return not self.thread.is_alive()


@pytest.fixture
def watch() -> Iterator[Callable[..., Watching]]:
    made: list[Watching] = []

    def start(folder: Path, patience: float = 0.3) -> Watching:
        made.append(Watching(folder, patience))
        return made[-1]

    yield start
    for each in made:  # whatever a test has left
        each.close()
        each.server.watched._ended = each.server.watched._seen = -1e9
        assert each.stops()


def events(reply: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    """Names and data, to the end of the stream."""
    name = ""
    for line in reply:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield name, json.loads(text.removeprefix("data: "))
        elif text.startswith(":"):
            yield "comment", text


def until(reply: http.client.HTTPResponse, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The run of the first document that is as wanted."""
    for name, data in events(reply):
        if name == "document" and wanted(data["runs"][0]):
            return data["runs"][0]
    raise AssertionError("the stream ended before")


def embedded(page: str) -> dict[str, Any]:
    return json.loads(page.partition('<script id="report" type="application/json">')[2].partition("</script>")[0])


def test_a_run_that_was_over_before_anybody_looked(finished: Path, watch: Any) -> None:
    server = watch(finished, patience=30.0)
    page = server.get()
    assert page.status == 200
    text = page.read().decode()
    assert "data-live" in text.partition(">")[0] + text.partition("<html")[2].partition(">")[0]
    (run,) = embedded(text)["runs"]
    assert (run["state"], run["round"]) == ("finished", 6)
    assert [name for name, _ in events(server.get("/events"))] == ["document", "end"]
    assert server.stops(5.0)  # soon after, and long before its patience ends
    assert server.states == ["finished"]


def test_nobody_came(finished: Path, watch: Any) -> None:
    began = time.monotonic()
    assert watch(finished, patience=0.5).stops(5.0)
    assert time.monotonic() - began >= 0.5


def test_a_slow_reader_is_waited_for(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "GRACE", 0.05)
    watched = Watched(finished, 0.0)
    watched.come()
    watched.look()
    time.sleep(0.1)
    assert not watched.done()  # it has not been told of the end
    watched.leave(shown_the_end=True)
    assert not watched.done()  # its browser may ask again
    time.sleep(0.1)
    assert watched.done()
    watched.page()
    assert not watched.done()  # somebody else has come


def test_a_run_is_followed_to_its_end(finished: Path, tmp_path: Path, watch: Any) -> None:
    folder = under_way(tmp_path / "run", finished)
    server = watch(folder)
    stream, other = server.get("/events"), server.get("/events")
    run = until(stream, lambda run: True)
    assert (run["state"], run["round"]) == ("running", 3)
    assert "up to round 3 of 6" in run["guarantee"]["plain"]
    with (finished / "history.csv").open(newline="") as table:
        spent = next(float(row["epsilon"]) for row in csv.DictReader(table) if row["round"] == "3")
    (told,) = re.findall(r"epsilon (\S+) up to round 3", run["guarantee"]["exact"])
    assert spent <= float(told) < spent + 1e-4
    say(folder, round=4)
    assert until(stream, lambda run: run["round"] == 4)["state"] == "running"
    for name in ("history.csv", "model.json", "result.json"):
        shutil.copy(finished / name, folder)
    for each in (stream, other):
        *_, (before, document), (last, _) = [event for event in events(each) if event[0] != "comment"]
        assert (before, last) == ("document", "end")
        assert document["runs"][0]["state"] == "finished"
        assert "coefficients-0" in [chart["id"] for chart in document["charts"]]
    assert server.stops(5.0)
    assert server.states == ["running", "finished"]


def test_nothing_new_is_nothing_sent_but_a_sign_of_life(finished: Path, tmp_path: Path, watch: Any) -> None:
    stream = events(watch(under_way(tmp_path / "run", finished)).get("/events"))
    assert [next(stream)[0] for _ in range(4)] == ["document", "comment", "comment", "comment"]


def test_a_folder_that_is_not_there_yet(finished: Path, tmp_path: Path, watch: Any) -> None:
    server = watch(tmp_path / "later")
    assert embedded(server.get().read().decode())["runs"][0]["warnings"][0].startswith("Waiting: there is no ")
    stream = server.get("/events")
    assert until(stream, lambda run: True)["rounds"] == 0
    (tmp_path / "later").mkdir()
    until(stream, lambda run: "no spec.toml" in str(run["warnings"]))
    (tmp_path / "later").rmdir()
    under_way(tmp_path / "later", finished)
    assert until(stream, lambda run: run["rounds"] == 6)["round"] == 3


def test_a_file_that_is_being_written_is_waited_for(finished: Path, tmp_path: Path, watch: Any) -> None:
    folder = under_way(tmp_path / "run", finished)
    stream = watch(folder).get("/events")
    until(stream, lambda run: True)
    (folder / "plan.json").write_text('{"priv')
    (folder / "history.csv").write_bytes((folder / "history.csv").read_bytes() + b"0,4,0.")
    time.sleep(0.2)
    shutil.copy(finished / "plan.json", folder)
    say(folder, round=5)
    seen = []
    until(stream, lambda run: seen.append((run["rounds"], run["warnings"])) or run["round"] == 5)
    assert seen[-1] == (6, [])
    assert set(map(str, seen)) == {str((6, []))}  # and never a page that makes no sense


def test_a_process_that_is_killed(tmp_path: Path, watch: Any) -> None:
    """A real one, in the middle of its rounds."""
    folder = tmp_path / "run"
    command = [sys.executable, "-c", "from dpadmm.cli.main import main; main()", "train", *RUN, "--rounds", "1000000"]
    command += ["--measure-every", "10", "--quiet", "--out", str(folder)]
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1"}
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        server = watch(folder)
        stream = server.get("/events")
        run = until(stream, lambda run: run["round"] > 0)
        assert (run["state"], run["rounds"]) == ("running", 1_000_000)
        child.send_signal(signal.SIGKILL)
        last = until(stream, lambda run: run["state"] != "running")
        assert (last["state"], last["error"]) == ("crashed", "the process ended without a word.")
        assert last["round"] >= run["round"]
        assert [name for name, _ in events(stream)] == ["end"]
        assert server.stops(5.0)
        assert server.states == ["running", "crashed"]
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    ("said", "state", "error"),
    [
        ({"state": "interrupted"}, "interrupted", ""),
        ({"state": "crashed", "error": "InputError: no"}, "crashed", "InputError: no"),
        ({"born": "long ago"}, "crashed", "the process ended without a word."),
    ],
)
def test_how_it_ended(finished: Path, tmp_path: Path, watch: Any, said: Any, state: str, error: str) -> None:
    stream = watch(under_way(tmp_path / "run", finished, **said)).get("/events")
    (_, document), (last, _) = list(events(stream))
    run = document["runs"][0]
    assert (run["state"], run.get("error", ""), last) == (state, error, "end")


def test_a_state_that_nobody_knows_is_not_shown(finished: Path, tmp_path: Path) -> None:
    watched = Watched(under_way(tmp_path / "run", finished, state="dreaming"), 1.0)
    watched.look()
    assert watched.state == "running"
    assert not watched.done()
    watched._wrong_since = -1e9  # for long
    watched.look()
    assert "dreaming" in str(watched.next(0, 0.0)[1])


def test_readers_that_go_away_are_forgotten(finished: Path, tmp_path: Path, watch: Any) -> None:
    folder = under_way(tmp_path / "run", finished)
    server = watch(folder)
    raw = socket.create_connection(("127.0.0.1", server.port))
    raw.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert raw.recv(20).startswith(b"HTTP/1.1 200")
    assert server.server.watched._readers == 1
    raw.close()
    deadline = time.monotonic() + 5
    while server.server.watched._readers and time.monotonic() < deadline:
        time.sleep(0.02)
    assert server.server.watched._readers == 0
    say(folder, state="interrupted")
    assert server.stops(5.0)


def test_only_so_many_readers(finished: Path, tmp_path: Path, watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_READERS", 2)
    server = watch(under_way(tmp_path / "run", finished))
    streams = [server.get("/events") for _ in range(2)]
    assert [next(events(stream))[0] for stream in streams] == ["document"] * 2
    assert server.get("/events").status == 503
    assert server.get("/").status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "10.0.0.7", "127.0.0.1.evil.example", "", "[::1"])
def test_pages_elsewhere_cannot_ask_under_their_own_names(
    finished: Path, tmp_path: Path, watch: Any, host: str
) -> None:
    server = watch(under_way(tmp_path / "run", finished))
    for path in ("/", "/events"):
        reply = server.get(path, host)
        assert reply.status == 421
        assert b"report" not in reply.read()


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1", "LOCALHOST:1", "[::1]:80"])
def test_names_of_this_machine(finished: Path, tmp_path: Path, watch: Any, host: str) -> None:
    assert watch(under_way(tmp_path / "run", finished)).get("/", host).status == 200


@pytest.mark.parametrize(
    "path", ["/spec.toml", "/../spec.toml", "/..%2fspec.toml", "/events/", "/?x", "/events?x", "/%2e%2e/", "*", "x"]
)
def test_there_is_nothing_else(finished: Path, tmp_path: Path, watch: Any, path: str) -> None:
    reply = watch(under_way(tmp_path / "run", finished)).get(path)
    assert reply.status == 404
    assert b"epsilon" not in reply.read()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_nothing_can_be_changed(finished: Path, tmp_path: Path, watch: Any, method: str) -> None:
    assert watch(under_way(tmp_path / "run", finished)).get(method=method).status == 501


def test_headers(finished: Path, tmp_path: Path, watch: Any) -> None:
    server = watch(under_way(tmp_path / "run", finished))
    for reply in (server.get(), server.get("/events"), server.get("/nowhere"), server.get(host="evil.example")):
        assert reply.getheader("X-Content-Type-Options") == "nosniff"
        assert reply.getheader("Cache-Control") == "no-store"
        assert reply.getheader("Content-Security-Policy") == "frame-ancestors 'none'"
        assert reply.getheader("Referrer-Policy") == "no-referrer"
        assert reply.getheader("Cross-Origin-Resource-Policy") == "same-origin"
        assert reply.getheader("Access-Control-Allow-Origin") is None
        assert reply.getheader("Server") == "dpadmm "
    assert server.get().getheader("Content-Type") == "text/html; charset=utf-8"
    assert server.get("/events").getheader("Content-Type") == "text/event-stream"


def test_watching_only_reads(finished: Path, watch: Any) -> None:
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in finished.iterdir()}
    server = watch(finished)
    server.get().read()
    assert list(events(server.get("/events")))
    assert server.stops()
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in finished.iterdir()} == before


def test_where_it_listens(finished: Path) -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("example.org")
    with PageServer(Watched(finished, 1.0), "127.0.0.1", 0) as first:
        port = first.server_address[1]
        assert first.address == f"http://127.0.0.1:{port}/"
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1, port {port}"):
            PageServer(Watched(finished, 1.0), "127.0.0.1", port)
    with pytest.raises(InputError, match="cannot listen on no-such-host"):
        PageServer(Watched(finished, 1.0), "no-such-host.invalid", 0)
    with PageServer(Watched(finished, 1.0), "0.0.0.0", 0) as everywhere:
        assert everywhere.admits("192.168.1.5:80")
        assert not everywhere.admits("evil.example")
