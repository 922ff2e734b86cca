"""Parts by name, and what a person reads who mistypes one."""

from __future__ import annotations

import re

import pytest

from dpadmm._registry import build
from dpadmm.admm.rho import RHO_SCHEDULES
from dpadmm.admm.schedules import SCHEDULES
from dpadmm.errors import InputError
from dpadmm.problems.losses import LOSSES, ClippedSquared, Logistic, SmoothedHinge
from dpadmm.problems.penalties import PENALTIES, ElasticNet
from dpadmm.problems.sets import SETS

REGISTRIES = {"loss": LOSSES, "penalty": PENALTIES, "set": SETS}


def test_a_name_alone_takes_the_defaults() -> None:
    assert build("loss", LOSSES, "logistic") == Logistic()
    assert build("loss", LOSSES, "squared") == ClippedSquared(1.0)


def test_a_number_follows_a_colon() -> None:
    assert build("loss", LOSSES, "squared:0.25") == ClippedSquared(0.25)
    assert build("loss", LOSSES, "smoothed-hinge:1e-1") == SmoothedHinge(0.1)
    assert build("penalty", PENALTIES, "elastic-net:0.75") == ElasticNet(0.75)


def test_several_numbers_arrive_in_order() -> None:
    assert build("pair", {"pair": lambda low, high: (low, high)}, "pair:1:-2.5") == (1.0, -2.5)


def test_numbers_with_commas_between_are_a_list() -> None:
    pair = {"pair": lambda low, high: (low, high)}
    assert build("pair", pair, "pair:1,-2.5:3") == ((1.0, -2.5), 3.0)
    assert build("pair", pair, "pair:1,2,3:0,1e3") == ((1.0, 2.0, 3.0), (0.0, 1000.0))
    for text in ("pair:1,:2", "pair:,:2", "pair:1,two:2"):
        with pytest.raises(InputError, match="what follows the colon must be a number"):
            build("pair", pair, text)


@pytest.mark.parametrize("kind", ["loss", "penalty", "schedule", "rho schedule"])
@pytest.mark.parametrize("numbers", ["0,5", "1:0,5", "1:1:0,5"])
def test_a_list_where_a_number_belongs_is_refused_by_name(kind: str, numbers: str) -> None:
    """Also a decimal comma: terms come from others, and must not end in anything but an `InputError`."""
    registry = {**REGISTRIES, "schedule": SCHEDULES, "rho schedule": RHO_SCHEDULES}[kind]
    for name in registry:
        with pytest.raises(InputError, match=name):
            build(kind, registry, f"{name}:{numbers}")


@pytest.mark.parametrize("kind", REGISTRIES)
def test_every_part_answers_to_its_own_name_and_says_what_it_is(kind: str) -> None:
    for name, part in REGISTRIES[kind].items():
        assert part.name == name
        assert type(build(kind, REGISTRIES[kind], name)) is part
        assert part.about


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match=r"unknown loss 'logistik'; did you mean 'logistic'\?"):
        build("loss", LOSSES, "logistik")


def test_a_name_like_no_other_is_refused_with_all_there_are() -> None:
    there = r"unknown set 'qqq'; there are: ball, box, non-crossing, range, simplex, whole\."
    with pytest.raises(InputError, match=there):
        build("set", SETS, "qqq:1")


@pytest.mark.parametrize("text", ["box:wide", "box:", "box:1:two"])
def test_what_is_no_number_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"set {text!r}: what follows the colon must be a number, as in")):
        build("set", SETS, text)


@pytest.mark.parametrize(("kind", "text", "count"), [("set", "box:1:2", 2), ("loss", "logistic:1", 1)])
def test_too_many_numbers_are_refused_with_their_count(kind: str, text: str, count: int) -> None:
    with pytest.raises(InputError, match=re.escape(f"does not take {count} number(s)")):
        build(kind, REGISTRIES[kind], text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("loss", "squared:0"), ("loss", "squared:nan"), ("loss", "smoothed-hinge:-1"), ("loss", "smoothed-hinge:inf")],
)
def test_a_number_out_of_range_is_refused_by_the_part(kind: str, text: str) -> None:
    name, number = text.split(":")
    with pytest.raises(InputError, match=rf"{name}.*{float(number)} must be a number from 1e-"):
        build(kind, REGISTRIES[kind], text)
