"""Who may connect: the holder of the key of a certificate that is pinned, as long as it is."""

from __future__ import annotations

import time

import pytest
import streams
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from streams import keys, raw, until

from dpadmm.federation.grpc import wire

STRANGERS = ["no pin", "same name, other key", "expired", "signed by the pinned key", "the coordinator's"]


@pytest.mark.parametrize("who", STRANGERS)
def test_strangers_are_refused_by_the_handshake(made: streams.Federation, who: str) -> None:
    shown = keys("ahorn")
    if who == "no pin":
        shown = keys("zeder")
    elif who == "expired":
        shown = keys("ahorn", days=-1)
        made.pins = {**made.pins, "ahorn": shown.der}
        time.sleep(0.7)  # the pins are read again
    elif who == "signed by the pinned key":
        pinned = made.owners["ahorn"]
        signed = keys("ahorn", issuer=("ahorn", load_pem_private_key(pinned.key, None)))
        shown = streams.Keys(signed.key, signed.certificate + pinned.certificate)
    elif who == "the coordinator's":
        shown = made.coordinator
    made.join("ahorn", party=made.party("ahorn", shown), wait=False)
    until(lambda: any("cannot be reached" in text for text in made.told))
    assert made.hub.present == ()
    assert made.noted == []


def test_a_certificate_that_an_authority_of_the_pinned_one_signed_is_refused(made: streams.Federation) -> None:
    """A certificate may be one that signs others: the handshake would let those in, the pin does not."""
    authority = keys("ahorn", authority=True)
    made.pins = {**made.pins, "ahorn": authority.der}
    time.sleep(0.7)
    signed = keys("birke", issuer=("ahorn", load_pem_private_key(authority.key, None)))
    shown = streams.Keys(signed.key, signed.certificate + authority.certificate)
    made.join("birke", party=made.party("birke", shown), wait=False)
    until(lambda: any(wire.UNKNOWN in text for text in made.told))
    assert made.hub.present == ()
    made.leave("birke")
    made.join("ahorn", party=made.party("ahorn", authority))  # the pinned one itself is let in


def test_an_owner_is_known_by_its_certificate_whatever_name_is_in_it(made: streams.Federation) -> None:
    made.pins = {**made.pins, "ahorn": made.pins["birke"], "birke": made.pins["ahorn"]}
    made.join("ahorn", party=made.party("birke"))
    assert made.hub.present == ("ahorn",)


def test_a_pin_that_goes_ends_the_live_stream(made: streams.Federation) -> None:
    made.join("ahorn")
    made.join("birke")
    made.pins = {name: pin for name, pin in made.pins.items() if name != "ahorn"}
    until(lambda: made.hub.present == ("birke",), seconds=2.0)
    until(lambda: any(wire.UNKNOWN in text or "cannot be reached" in text for text in made.told))
    assert list(made.ask("introduce", {}, "ahorn", "birke")) == ["birke"]
    time.sleep(1.0)  # it dials again, with a TLS session that began when it was pinned
    assert made.hub.present == ("birke",)


def test_a_pin_that_goes_ends_even_a_stream_that_is_not_read(made: streams.Federation) -> None:
    with raw(made, "ahorn"):
        for _ in range(4):
            made.ask("answer_step", {"inputs": b"\0" * 1_000_000}, "ahorn", seconds=0.01)
        made.pins = {}
        until(lambda: made.hub.present == (), seconds=2.0)
        until(lambda: "ahorn" not in made.hub._lines, seconds=5.0)


def test_a_card_that_is_replaced_lets_the_new_key_in_and_the_old_one_out(made: streams.Federation) -> None:
    made.join("ahorn")
    new = keys("ahorn")
    made.pins = {**made.pins, "ahorn": new.der}
    until(lambda: made.hub.present == ())
    made.leave("ahorn")
    made.join("ahorn", party=made.party("ahorn", new))


def test_nobody_is_let_in_where_nobody_is_pinned(made: streams.Federation) -> None:
    made.pins = {}
    time.sleep(0.7)
    for name, shown in {"ahorn": None, "birke": made.coordinator}.items():
        made.join(name, party=made.party("ahorn", shown), wait=False)
    until(lambda: len(made.told) == 2)
    assert made.hub.present == ()


def test_pins_that_cannot_be_read_let_nobody_in_and_are_said(made: streams.Federation) -> None:
    def fail() -> dict[str, bytes]:
        raise ValueError("torn card")

    made.hub._pins = fail
    made.join("ahorn", wait=False)
    until(lambda: any("torn card" in text for text in made.noted))
    until(lambda: made.told)
    assert made.hub.present == ()
