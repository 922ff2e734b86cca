"""A small server for one page: `/` is the page, `/events` what is new in it. Nothing else is answered, and nothing is
ever changed. It listens on this machine only, unless asked otherwise."""

from __future__ import annotations

import ipaddress
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import urlsplit

from dpadmm.errors import InputError
from dpadmm.report.watching import GLANCE, Watched

KEEP_ALIVE = 10.0  # seconds of silence after which a reader is asked whether it is still there
MOST_READERS = 32
TIMEOUT = 30.0  # seconds a client may take for its request, or for taking in an answer
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page's own policy is in the page
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class PageServer(ThreadingHTTPServer):
    """Serves what is watched."""

    daemon_threads = True

    def __init__(self, watched: Watched, host: str, port: int) -> None:
        self.watched, self.host = watched, host
        self.readers = threading.BoundedSemaphore(MOST_READERS)
        try:
            self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InputError(f"cannot listen on {host}, port {port}: {error}.") from None

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.server_address[1]}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle of an answer is nobody's business; anything else is a bug."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def admits(self, host: str | None) -> bool:
        """Whether a request was meant for this server. A page elsewhere can have its own name point here (DNS
        rebinding), but then that name is in the request; addresses and names of this machine cannot be had that way."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in ("localhost", self.host.lower()):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not is_loopback(self.host)

    def watch(self, told: Callable[[str], None] = lambda state: None) -> str:
        """Serves until the run is over and everybody has seen it; the state that it ended in."""
        self.watched.look()  # before anybody is answered
        answering = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        answering.start()
        pause = threading.Event()
        known, took = "", 0.0
        try:
            while True:
                if self.watched.state != known:
                    known = self.watched.state
                    told(known)
                if self.watched.done():
                    return known
                pause.wait(max(GLANCE, 4.0 * took))  # most of the time is the run's
                began = time.monotonic()
                self.watched.look()
                took = time.monotonic() - began
        finally:
            self.watched.stop()
            self.shutdown()
            self.server_close()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "dpadmm", ""
    timeout = TIMEOUT

    @property
    def _page(self) -> PageServer:
        return cast(PageServer, self.server)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is for the person who watches."""

    def end_headers(self) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def do_GET(self) -> None:
        if not self._page.admits(self.headers.get("Host")):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "This page is not served under that name")
        elif self.path == "/":
            self._answer(self._page.watched.page().encode())
        elif self.path == "/events":
            self._events()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _answer(self, page: bytes) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def _events(self) -> None:
        if not self._page.readers.acquire(blocking=False):
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, "Too many readers")
            return
        watched = self._page.watched
        watched.come()
        ended = False
        try:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            number, over = 0, False
            while not (over or watched.stopped):
                number, text, over = watched.next(number, KEEP_ALIVE)
                self._send(": still here\n\n" if text is None else f"event: document\ndata: {text}\n\n")
            if over:
                self._send("event: end\ndata: {}\n\n")
                ended = True
        except OSError:
            pass  # it has gone away
        finally:
            watched.leave(ended)
            self._page.readers.release()
            self.close_connection = True

    def _send(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()
