"""A coordinator's hub and owners that dial in, with certificates made here and answers made up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from dpadmm.federation.frames import Frame, encode
from dpadmm.federation.grpc import wire
from dpadmm.federation.grpc.agent import Party, serve
from dpadmm.federation.grpc.server import Hub
from dpadmm.federation.messages import VERSION

SERVER_NAME = "dpadmm.test"


class Keys(NamedTuple):
    """A private key and its certificate."""

    key: bytes
    certificate: bytes  # PEM

    @property
    def der(self) -> bytes:
        return x509.load_pem_x509_certificate(self.certificate).public_bytes(Encoding.DER)


def keys(name: str, days: int = 2, issuer: tuple[str, Any] | None = None, authority: bool = False) -> Keys:
    """A certificate signed by its own key, or by an issuer's (its name and private key)."""
    private = ec.generate_private_key(ec.SECP256R1())
    signer = private if issuer is None else issuer[1]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(name if issuer is None else issuer[0]))
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=3))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return Keys(
        private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), made.public_bytes(Encoding.PEM)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


class Answers:
    """Stands for an owner's dispatcher: answers what it is told to, and keeps what it was asked."""

    def __init__(self, answer: Callable[[str, Any], Any] = lambda method, given: {"method": method}) -> None:
        self._answer = answer
        self.asked: list[tuple[str, Any]] = []
        self.relay: Any = None

    def answer(self, method: str, given: Any) -> Any:
        self.asked.append((method, given))
        return self._answer(method, given)


class Federation:
    """A hub at a port of its own, the certificates it has pinned, and agents in threads of this process."""

    def __init__(self, *owners: str) -> None:
        self.coordinator = keys("coordinator")
        self.owners = {name: keys(name) for name in owners}
        self.pins = {name: each.der for name, each in self.owners.items()}
        self.told: list[str] = []  # by agents
        self.noted: list[str] = []  # by the hub
        self.port = 0
        self.agents: dict[str, tuple[threading.Event, threading.Thread]] = {}

    def __enter__(self) -> Federation:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.agents):
            self.leave(name)
        self.hub.close()

    def open(self) -> None:
        self.hub = Hub(self.coordinator.key, self.coordinator.certificate, lambda: self.pins, self.noted.append)
        self.port = self.hub.start(f"127.0.0.1:{self.port}")

    def party(self, name: str, shown: Keys | None = None, trusted: bytes | None = None) -> Party:
        mine = shown or self.owners[name]
        trusted = trusted or self.coordinator.certificate
        return Party(mine.key, mine.certificate, trusted, SERVER_NAME, f"127.0.0.1:{self.port}")

    def join(self, name: str, answers: Any = None, party: Party | None = None, wait: bool = True) -> Any:
        stop, answers = threading.Event(), answers or Answers()
        given = (party or self.party(name), answers, stop, self.told.append)
        thread = threading.Thread(target=serve, args=given, daemon=True)
        thread.start()
        self.agents[name] = stop, thread
        if wait:
            until(lambda: name in self.hub.present)
        return answers

    def leave(self, name: str) -> None:
        stop, thread = self.agents.pop(name)
        stop.set()
        thread.join(10.0)
        assert not thread.is_alive()

    def ask(self, method: str, given: Mapping[str, Any], *names: str, seconds: float = 10.0) -> dict[str, Any]:
        names = names or tuple(self.owners)
        return self.hub.session(names).ask(method, dict.fromkeys(names, given), seconds)


@contextmanager
def raw(made: Federation, name: str, *, greet: bool = True, shown: Keys | None = None) -> Iterator[Raw]:
    """An owner's stream without an agent, to send on it whatever a hostile one would."""
    party = made.party(name, shown)
    credentials = grpc.ssl_channel_credentials(party.coordinator, party.key, party.certificate)
    options = [("grpc.ssl_target_name_override", SERVER_NAME), ("grpc.max_receive_message_length", -1)]
    with grpc.secure_channel(party.address, credentials, options=options) as channel:
        stream = Raw(channel)
        if greet:
            stream.send(Frame(0, wire.HELLO, encode({"version": VERSION})).dumps())
            assert Frame.loads(stream.receive()).method == wire.WELCOME
        yield stream
        stream.close()


class Raw:
    """Bytes to a coordinator and from it."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._out = wire.Outbox(1_000_000)
        self._call = channel.stream_stream(wire.PATH)(iter(self._out))

    def send(self, data: bytes) -> None:
        assert self._out.put(data, wait=False)

    def receive(self) -> bytes:
        return bytes(next(self._call))

    def end(self) -> grpc.StatusCode:
        """How the stream ends, which it must soon do."""
        threading.Timer(10.0, self._call.cancel).start()
        try:
            for _ in self._call:
                pass
        except grpc.RpcError:
            pass
        return self._call.code()

    def close(self) -> None:
        self._out.end()
        self._call.cancel()


def until(condition: Callable[[], Any], seconds: float = 20.0, what: str = "") -> None:
    """Waits until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what or "it did not happen in time"
        time.sleep(0.01)
