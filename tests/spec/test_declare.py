"""The declaration of an experiment: changes by keyword, numbers of NumPy, and the table of a federation."""

from dataclasses import replace

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.spec.declare import DataSpec, Experiment, FederationSpec, RunSpec, SimulationSpec
from dpadmm.spec.toml import dumps, loads, read


def test_a_change_overrides_and_none_leaves_a_field_as_it_is():
    before = loads('[run]\nrounds = 7\nloss = "softmax"\n[simulation]\nseed = 3\n')
    after = before.changed(rounds=9, loss=None, seed=None, agents=4, epsilon=2)
    assert after.run == replace(before.run, rounds=9, epsilon=2.0)
    assert after.data == DataSpec(agents=4)
    assert after.simulation == SimulationSpec(seed=3)
    assert before.run.rounds == 7
    assert before.changed() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilom": 1.0}, r"unknown key in the flags 'epsilom'; did you mean 'epsilon'"),
        ({"agents": "three"}, r"the flags: agents = 'three' must be a whole number"),
        ({"epsilon": float("nan")}, r"the flags: epsilon"),
        ({"repeats": 0}, r"repeats = 0 must be a whole number from 1"),
    ],
)
def test_a_wrong_change_is_named(change, said):
    with pytest.raises(InputError, match=said):
        Experiment().changed(where="the flags", **change)


def test_numbers_of_numpy_are_taken_as_pythons():
    given = {
        "rounds": np.int64(9),
        "epsilon": np.float32(0.5),
        "strength": np.int32(1),
        "alpha": (np.float64(0.5), np.int8(1)),
    }
    run = Experiment().changed(**given).run
    assert [type(value) for value in (run.rounds, run.epsilon, run.strength, *run.alpha)] == [int, *[float] * 4]
    assert run == Experiment().changed(rounds=9, epsilon=0.5, strength=1.0, alpha=(0.5, 1.0)).run
    for wrong in ({"rounds": np.float64(2.5)}, {"epsilon": np.float64("nan")}, {"paper_noise": np.True_}):
        with pytest.raises(InputError, match="must be"):
            Experiment().changed(**wrong)


def test_a_federation_is_a_table_of_its_own(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text('[federation]\nowners = ["a", "b"]\nstragglers = "reuse"\ntimeout = 5\nmin_owners = 2\n')
    found = read(path)
    assert found.federation == FederationSpec(("a", "b"), "reuse", 5.0, 2)
    assert isinstance(found.federation.timeout, float)
    assert found.run == RunSpec()
    assert loads("").federation == FederationSpec()
    assert Experiment().changed(stragglers="skip", owners=["c"]).federation == FederationSpec(("c",), "skip")


def test_a_run_without_owners_far_away_says_nothing_of_them():
    assert "federation" not in dumps(Experiment())
    assert "owners" not in dumps(Experiment())
    text = dumps(Experiment().changed(stragglers="reuse"))
    assert '[federation]\nstragglers = "reuse"' in text
    assert "\nowners" not in text.split("[federation]")[1]
    assert "public_test" not in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("federation = 5", "federation must be a table"),
        ("[federation]\nowner = 5", "unknown key in .federation. of .* 'owner'"),
        ("[federation]\nstragglers = 5", "stragglers = 5 must be a text"),
        ('[federation]\nstragglers = "rejuse"', "'rejuse'; did you mean 'reuse'"),
        ('[federation]\nowners = "a"', "owners = 'a' must be a list of texts"),
        ("[federation]\nowners = [1]", "must be a list of texts"),
        ('[federation]\nowners = ["a", "a"]', "each can take part once"),
        ("[federation]\ntimeout = 0", "the spec: timeout = 0.0 must be a number from 1e-09"),
        ("[federation]\ntimeout = nan", "must be a finite number"),
        ("[federation]\nmin_owners = 0", "min_owners = 0 must be a whole number from 1"),
        ("[federation]\nmin_owners = 1.5", "must be a whole number"),
        ("[federation]\nrecords_per_person = 0", "records_per_person = 0 must be a whole number from 1"),
        ("[federation]\npublic_test = 1", "must be a text"),
    ],
)
def test_a_federation_that_makes_no_sense_is_refused(text, said):
    with pytest.raises(InputError, match=said):
        loads(text)
