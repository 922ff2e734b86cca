"""The coordinator's end: who is present, and what they answer.

Owners dial in. Whoever completes the handshake holds the key of a certificate that is pinned; on every stream the
certificate is compared with the pins again, byte for byte, and a pin that goes ends the stream. One owner has one
stream: a newer one replaces an older one, because that is what an owner has whose connection broke unnoticed.

Nothing that an owner sends raises here. What is no message ends its stream, and whoever does not answer is missing from
the replies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from dpadmm.errors import InputError
from dpadmm.federation.frames import Frame, FrameError, decode, encode
from dpadmm.federation.grpc import wire
from dpadmm.federation.grpc.line import Line
from dpadmm.federation.grpc.relaying import Relays
from dpadmm.federation.grpc.session import Session
from dpadmm.federation.messages import VERSION

Pins = Callable[[], Mapping[str, bytes]]
"""The certificates that are pinned now, by owner (DER)."""

_STREAMS = 512  # at the same time
_GLANCE = 0.5  # seconds between looks at the pins


class Hub:
    """The streams of all owners.

    Args:
        key: The coordinator's private key for TLS (PEM).
        certificate: Its certificate (PEM).
        pins: Tells which certificates are pinned; called at every stream and about twice a second.
        tell: Told what happens to connections.
    """

    def __init__(
        self, key: bytes, certificate: bytes, pins: Pins, tell: Callable[[str], None] = lambda text: None
    ) -> None:
        self._key, self._certificate, self._pins, self._tell = key, certificate, pins, tell
        self._lines: dict[str, Line] = {}
        self._lock = threading.Lock()
        self._relays = Relays(self._line)
        self._closed = threading.Event()
        self._known = dict(pins())
        self._configured = self._configuration(self._known)
        self._credentials = grpc.dynamic_ssl_server_credentials(
            self._configured, lambda: self._configured, require_client_authentication=True
        )
        self._server = grpc.server(
            ThreadPoolExecutor(_STREAMS, thread_name_prefix="stream"),
            handlers=[_Streams(self._stream)],
            options=wire.SERVER_OPTIONS,
            maximum_concurrent_rpcs=_STREAMS,
        )
        self._watch = threading.Thread(target=self._watch_pins, name="pins", daemon=True)

    def start(self, address: str) -> int:
        """Listens at an address, HOST:PORT; the port, which 0 leaves to the system."""
        try:
            port = self._server.add_secure_port(address, self._credentials)
        except RuntimeError:
            raise InputError(f"a coordinator cannot listen at {address}; is another one running there?") from None
        self._server.start()
        self._watch.start()
        return port

    def close(self) -> None:
        """Ends all streams."""
        self._closed.set()
        for line in list(self._lines.values()):
            line.end("")
        self._server.stop(grace=0.2).wait(5.0)

    # -- the adapter -----------------------------------------------------------------------------------------------

    @property
    def present(self) -> tuple[str, ...]:
        """Who is connected."""
        with self._lock:
            return tuple(sorted(name for name, line in self._lines.items() if line.ready))

    @property
    def heard(self) -> dict[str, float]:
        """When each of those who are connected was last heard of, in seconds since the epoch."""
        with self._lock:
            return {name: line.heard for name, line in self._lines.items() if line.ready}

    @property
    def free(self) -> frozenset[str]:
        """Who is connected and has answered all that it was asked, late or in time."""
        with self._lock:
            lines = list(self._lines.values())
        return frozenset(line.name for line in lines if line.free)

    def session(self, names: Iterable[str]) -> Session:
        """The transport of a job with those of these owners that are present now."""
        lines = {name: line for name in names if (line := self._line(name)) is not None}
        return Session(lines, self._relays.allow)

    # -- streams ---------------------------------------------------------------------------------------------------

    def _line(self, name: str) -> Line | None:
        with self._lock:
            line = self._lines.get(name)
        return line if line is not None and line.ready else None

    def _stream(self, arriving: Any, context: Any) -> Any:
        """One owner's stream, from its beginning to its end; what is yielded goes to the owner."""
        found = self._owner(context)
        if found is None or self._closed.is_set():
            context.abort(grpc.StatusCode.PERMISSION_DENIED, wire.UNKNOWN)
            return  # not reached: abort raises
        name, certificate = found
        line = Line(name, certificate, context.cancel)
        if not context.add_callback(lambda: line.end("")):
            return
        with self._lock:
            older = self._lines.get(name)
            self._lines[name] = line
        if older is not None:
            older.end(wire.REPLACED)
        threading.Thread(target=self._read, args=(line, arriving), name=f"read {name}", daemon=True).start()
        try:
            yield from line.outbox
        finally:
            line.end("")
            with self._lock:
                if self._lines.get(name) is line:
                    del self._lines[name]
            self._tell(f"{name} is gone" + (f": {line.reason}" if line.reason else ""))
        if line.reason:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, line.reason)

    def _owner(self, context: Any) -> tuple[str, bytes] | None:
        """Whose certificate the peer has shown; None if it is not one that is pinned now."""
        shown = context.auth_context()
        certificates = shown.get("x509_pem_cert", ())
        if list(shown.get("security_level", ())) != [b"TSI_PRIVACY_AND_INTEGRITY"] or len(certificates) != 1:
            return None
        try:
            certificate, pinned = _der(certificates[0]), dict(self._pins())
        except Exception as error:
            self._tell(f"a stream was refused: {type(error).__name__}: {error}")
            return None
        return next(((name, known) for name, known in pinned.items() if known == certificate), None)

    def _read(self, line: Line, arriving: Any) -> None:
        """What an owner sends, until its stream ends; in a thread of its own."""
        try:
            self._greet(line, Frame.loads(next(arriving)))
            for data in arriving:
                frame = Frame.loads(data)
                if frame.method == wire.REPLY:
                    line.answered(frame)
                elif frame.method == wire.RELAY:
                    line.heard_now()
                    self._relays.pass_on(line, frame)
                else:
                    raise FrameError("it sent what an agent does not send")
        except FrameError as error:
            line.end(str(error))
        except StopIteration:
            pass
        except Exception:  # gRPC's, when the stream is over
            if not line.outbox.over:
                line.end("the connection was lost")
        line.end("")

    def _greet(self, line: Line, frame: Frame) -> None:
        said = decode(frame.body)
        if frame.method != wire.HELLO or type(said) is not dict or said.keys() != {"version"}:
            raise FrameError("it did not begin with a greeting")
        if type(said["version"]) is not int or said["version"] != VERSION:
            raise FrameError(wire.OTHER_VERSION)
        line.greet(encode({"version": VERSION}))
        self._tell(f"{line.name} is there")

    # -- pins ------------------------------------------------------------------------------------------------------

    def _watch_pins(self) -> None:
        """Ends the streams of those whose pin has gone, and requests that nobody waits for any more."""
        while not self._closed.wait(_GLANCE):
            try:
                pinned = dict(self._pins())
            except Exception as error:  # a card that cannot be read must not leave others unwatched
                self._tell(f"the owners' cards cannot be read: {error}")
                continue
            if pinned != self._known:
                self._known, self._configured = pinned, self._configuration(pinned)
            for line in list(self._lines.values()):
                if pinned.get(line.name) != line.certificate:
                    line.end(wire.UNKNOWN)
                line.expire()

    def _configuration(self, pinned: Mapping[str, bytes]) -> Any:
        """What a handshake is held to: our key, and exactly the certificates that are pinned."""
        roots = b"".join(_pem(certificate) for certificate in pinned.values()) or self._certificate
        return grpc.ssl_server_certificate_configuration([(self._key, self._certificate)], root_certificates=roots)


class _Streams(grpc.GenericRpcHandler):
    def __init__(self, stream: Callable[[Any, Any], Any]) -> None:
        self._handler = grpc.stream_stream_rpc_method_handler(stream)  # bytes, as they are

    def service(self, details: Any) -> Any:
        return self._handler if details.method == wire.PATH else None


def _der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def _pem(der: bytes) -> bytes:
    return x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)
