"""A part by value: the same as another by its import path, or else by what it is; and who refuses it."""

import copy
import pickle
from dataclasses import replace

import pytest

from dpadmm.errors import InputError
from dpadmm.problems.losses import Logistic, SmoothedHinge
from dpadmm.spec.declare import RunSpec
from dpadmm.spec.part import Part, refuse_own_parts, unwrapped

PATH = "somebody.losses:MyLoss"


def test_parts_with_the_same_import_path_are_equal():
    one, other = Part(SmoothedHinge(0.5), PATH), Part(SmoothedHinge(0.5), PATH)
    assert one == other
    assert hash(one) == hash(other)
    assert one != Part(one.value, f"{PATH}:0.25")
    assert one != Part(one.value, None)
    assert one != PATH  # a text that names a part has not been imported


def test_a_part_without_a_path_equals_only_itself():
    value = SmoothedHinge(0.5)
    assert Part(value, None) == Part(value, None)
    assert hash(Part(value, None)) == hash(Part(value, None))
    assert Part(value, None) != Part(SmoothedHinge(0.5), None)


def test_specs_with_equal_parts_are_equal():
    assert RunSpec(loss=Part(Logistic(), PATH)) == RunSpec(loss=Part(Logistic(), PATH))
    assert RunSpec(loss=Part(Logistic(), PATH)) != RunSpec(loss=Part(Logistic(), None))


@pytest.mark.parametrize("path", [PATH, None])
def test_a_part_survives_pickling_with_its_path(path):
    again = pickle.loads(pickle.dumps(Part(SmoothedHinge(0.25), path)))
    assert isinstance(again, Part)
    assert again.value == SmoothedHinge(0.25)
    assert again.text == path


def test_copies_are_the_part_itself():
    part = Part(object(), None)
    assert copy.copy(part) is part
    assert copy.deepcopy(part) is part


def test_what_is_written_is_the_path():
    assert Part(Logistic(), PATH).written == PATH
    with pytest.raises(InputError) as refused:
        Part(SmoothedHinge(0.25), None).written  # noqa: B018
    for said in ("SmoothedHinge(width=0.25)", "no import path finds it again", "module that can be imported", "(out)"):
        assert said in str(refused.value)


def test_messages_quote_a_part_as_they_quote_a_name():
    assert f"{Part(Logistic(), PATH)!r}" == repr(PATH)
    assert str(Part(Logistic(), None)) == "logistic"
    assert str(Part(object(), None)) == "object"


def test_unwrapped_is_the_part_itself_or_the_text():
    value = Logistic()
    assert unwrapped(Part(value, PATH)) is value
    assert unwrapped("logistic") == "logistic"
    assert unwrapped(None) is None


@pytest.mark.parametrize("field", ["algorithm", "loss", "penalty", "set", "schedule", "rho_schedule"])
@pytest.mark.parametrize("path", [PATH, None])
def test_those_who_know_registry_names_only_refuse_a_part_of_any_field(field, path):
    run = replace(RunSpec(), **{field: Part(Logistic(), path)})
    with pytest.raises(InputError, match=rf"{field} '.*' is a part of your own.*; they accept registry names only"):
        refuse_own_parts(run, "they")


def test_names_are_not_refused():
    refuse_own_parts(RunSpec(loss="logistic", set="box:1"), "they")
