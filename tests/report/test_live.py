"""A page that a server feeds: it follows, keeps what its reader has done, ends, and says when the server is gone."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dpadmm.report.document import Document
from dpadmm.report.page import html

STATUS = "document.getElementById('status').textContent"
LOST = "connection lost; the server may have stopped"


class Feed:
    """Serves one page, and events as a test puts them in; `None` cuts the connection."""

    def __init__(self, document: Document) -> None:
        self.events: queue.Queue[str | None] = queue.Queue()
        self.connections = 0
        page, feed = html(document, live=True).encode(), self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Nothing."""

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html" if self.path == "/" else "text/event-stream")
                self.end_headers()
                if self.path == "/":
                    self.wfile.write(page)
                    return
                feed.connections += 1
                self.wfile.write(b"retry: 50\n\n")  # the browser's own pause is three seconds
                while (event := feed.events.get()) is not None:
                    self.wfile.write(event.encode())

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/"

    def send(self, document: Document) -> None:
        self.events.put(f"event: document\ndata: {json.dumps(document.to_json())}\n\n")

    def end(self) -> None:
        self.events.put("event: end\ndata:\n\n")

    def cut(self) -> None:
        self.events.put(None)

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.cut()


def at(documents, round: int, **changes: object) -> Document:
    """A run that has come so far, of a hundred rounds."""
    run = documents.run(rounds=100, **{"state": "running", "round": round, **changes})
    return documents.document([run], [documents.error_chart(round), documents.budget_chart(100)])


@pytest.fixture
def feed(documents) -> Iterator[Feed]:
    opened = Feed(at(documents, 12))
    yield opened
    opened.stop()


def test_a_live_page_is_drawn_at_once_follows_and_ends(page, documents, feed):
    page.go(feed.address)
    assert page.points("error") == [12]
    assert page.ask(STATUS) == "round 12 of 100"
    feed.send(at(documents, 40))
    page.wait(f"{STATUS} === 'round 40 of 100'")
    assert page.points("error") == [40]
    feed.send(at(documents, 100, state="finished"))
    feed.end()
    page.wait(f"{STATUS} === 'finished'")
    feed.cut()
    page.ask("new Promise((done) => setTimeout(done, 300))")
    assert page.ask(STATUS) == "finished"
    assert feed.connections == 1
    assert page.messages() == []
    asked = {
        each for each in page.requests() if not each.startswith(("data:", "chrome"))
    }  # nor the browser's own pages
    assert asked == {feed.address, feed.address + "events"}


def test_what_the_reader_has_done_stays(page, documents, feed):
    page.go(feed.address)
    page.ask("document.getElementById('theme').click()")
    page.ask("document.getElementById('chart-epsilon-legend-1').click()")
    page.ask("document.getElementById('chart-error-numbers').click()")
    page.wait("document.querySelectorAll('#chart-error .numbers tbody tr').length === 12")
    page.drag("error", 0.3, 0.8)
    assert page.points("error") == [5]
    page.ask("document.getElementById('chart-error-plot').focus()")
    page.key("End")
    before = page.tip("error")
    page.ask(
        "window.old = document.querySelector('#chart-error'), window.same = document.querySelector('#chart-epsilon')"
    )
    feed.send(at(documents, 20))
    page.wait(f"{STATUS} === 'round 20 of 100'")
    assert page.ask("document.querySelector('#chart-error') !== window.old")
    assert page.ask("document.querySelector('#chart-epsilon') === window.same")  # nothing new there
    assert page.ask("document.documentElement.dataset.theme") == "dark"
    assert page.points("epsilon") == [100]
    assert page.ask("document.querySelectorAll('#chart-error .numbers tbody tr').length") == 20
    assert page.points("error") == [5]
    assert page.ask("document.activeElement.id") == "chart-error-plot"
    assert page.tip("error") == before


def test_a_drag_is_not_disturbed(page, documents, feed):
    page.go(feed.address)
    x, y = page.place("error", 0.3)
    to, _ = page.place("error", 0.8)
    page.point("mouseMoved", x, y)
    page.point("mousePressed", x, y, button="left", clickCount=1)
    page.point("mouseMoved", to, y, button="left", buttons=1)
    feed.send(at(documents, 20))
    page.ask("new Promise((done) => setTimeout(done, 300))")
    assert page.ask(STATUS) == "round 12 of 100"
    page.point("mouseReleased", to, y, button="left", clickCount=1)
    page.wait(f"{STATUS} === 'round 20 of 100'")
    assert page.points("error") == [5]


def test_a_crash_is_told(page, documents, feed):
    page.go(feed.address)
    feed.send(at(documents, 13, state="crashed", error="the disk is full"))
    page.wait(f"{STATUS} === 'crashed: the disk is full (round 13 of 100)'")


def test_a_lost_connection_is_told_and_taken_up_again(page, documents, feed):
    page.go(feed.address)
    page.wait(f"{STATUS} === 'round 12 of 100'")
    feed.cut()
    feed.send(at(documents, 50))
    page.wait(f"{STATUS} === 'round 50 of 100'")
    assert feed.connections == 2
    feed.stop()
    page.wait(f"{STATUS} === arguments[0]", LOST)
    assert page.points("error") == [50]
