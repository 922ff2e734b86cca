"""Parts by value and by import path: what a spec keeps of them, and what leads back to them."""

import copy
import pickle
import sys

import networkx
import numpy as np
import pytest
from own_parts import forget

from dpadmm._registry import build, is_import_path
from dpadmm.admm.rho import GeometricRho
from dpadmm.admm.schedules import Fixed
from dpadmm.admm.topology.graph import Topology, parse_topology
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.problems.losses import Logistic, Quantiles, SmoothedHinge, SmoothedQuantile
from dpadmm.problems.penalties import ElasticNet
from dpadmm.problems.sets import Affine, Ball, Box, Each, Intersection, Polyhedron, Range
from dpadmm.problems.sets.text import parse as parse_set
from dpadmm.spec.declare import AUTO, RunSpec
from dpadmm.spec.part import Part
from dpadmm.spec.parts import KINDS, declared, given, imported, load

REGISTERED = [
    (field, name, member) for field, (_, registry) in KINDS.items() for name, member in registry.items() if name != AUTO
]


def one(field, value):
    """What a spec holds of a value."""
    return declared({field: value})[field]


# -- the library's own -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("field", "name", "member"), REGISTERED, ids=lambda each: str(each)[:30])
def test_every_registered_part_becomes_its_name(field, name, member):
    assert one(field, member() if isinstance(member, type) else member) == name


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("loss", SmoothedHinge(0.25), "smoothed-hinge:0.25"),
        ("loss", SmoothedQuantile(0.3), "smoothed-quantile:0.3"),
        ("loss", Quantiles((0.1, 0.9)), "quantiles:0.1,0.9"),
        ("loss", Quantiles((0.5,), 0.1), "quantiles:0.5:0.1"),
        ("penalty", ElasticNet(0.3), "elastic-net:0.3"),
        ("schedule", Fixed(2), "fixed:2.0"),
        ("rho_schedule", GeometricRho(1.5), "geometric:1.5"),
        ("set", Box(0.1), "box:0.1"),
        ("set", Ball(2), "ball:2.0"),
        ("set", Range(0, 1), "range:0.0:1.0"),
    ],
    ids=str,
)
def test_numbers_follow_the_name_and_read_back_as_an_equal_part(field, value, text):
    assert one(field, value) == text
    assert (parse_set(text) if field == "set" else build(field, KINDS[field][1], text)) == value


SETS = [
    Range((0, -1), (1, np.inf)),
    Ball(2.0, (1.0, 0.0)),
    Affine([[1, 1]], [1]),
    Polyhedron([[1.0, 2.0]], [3.0]),
    Intersection([Box(1.0), Ball(1.2)]),
    Each([Box(1.0), Ball(1.0)]),
]


@pytest.mark.parametrize("domain", SETS, ids=lambda each: each.name)
def test_sets_of_several_numbers_become_the_json_that_reads_back_as_them(domain):
    text = one("set", domain)
    assert isinstance(text, str)
    assert parse_set(text) == domain


def test_copies_of_a_registered_recipe_are_that_recipe():
    """scikit-learn's clone copies it, and other processes unpickle it."""
    recipe = ALGORITHMS["pvp"]
    assert one("algorithm", copy.deepcopy(recipe)) == "pvp"
    assert one("algorithm", pickle.loads(pickle.dumps(recipe))) == "pvp"


def test_texts_parts_and_nothing_are_left_as_they_are():
    part = Part(Logistic(), None)
    values = {"loss": "logistic", "penalty": None, "algorithm": part, "rounds": 7, "topology": None}
    assert declared(values) == values


# -- somebody's own ----------------------------------------------------------------------------------------------------


def test_a_part_of_ones_own_gets_the_path_of_its_class_with_its_numbers(somebody):
    for field, value, path in [
        ("loss", somebody.losses.MyLoss(), "somebody.losses:MyLoss"),
        ("loss", somebody.losses.MyLoss(0.125), "somebody.losses:MyLoss:0.125"),
        ("loss", somebody.losses.Plain(), "somebody.losses:Plain"),
        ("schedule", somebody.others.MySchedule(0.7), "somebody.others:MySchedule:0.7"),
        ("rho_schedule", somebody.others.MyRho(), "somebody.others:MyRho"),
        ("penalty", somebody.others.MyPenalty(), "somebody.others:MyPenalty"),
        ("set", somebody.others.MySet(0.5), "somebody.others:MySet:0.5"),
    ]:
        part = one(field, value)
        assert isinstance(part, Part)
        assert part.value is value
        assert part.text == path
        assert load(field, path).value == value


def test_a_value_of_a_module_gets_the_path_of_that_attribute(somebody):
    assert one("algorithm", somebody.recipes.MINE).text == "somebody.recipes:MINE"
    assert load("algorithm", "somebody.recipes:MINE").value is somebody.recipes.MINE


def test_numbers_that_no_field_declares_are_not_forgotten(somebody):
    """Its class makes another value, so that only the module's attribute leads back."""
    assert one("loss", somebody.losses.KEPT).text == "somebody.losses:KEPT"
    assert one("loss", somebody.losses.Kept(3.0)).text is None
    assert one("loss", somebody.losses.Kept(1.0)).text == "somebody.losses:Kept"


def test_what_a_part_has_computed_and_keeps_does_not_matter(somebody):
    used = somebody.losses.MyLoss(0.125)
    assert used.doubled == 0.25
    assert one("loss", used).text == "somebody.losses:MyLoss:0.125"


def test_a_part_made_inside_a_function_has_no_path():
    class Local(Logistic):
        name = "local"

    assert one("loss", Local()).text is None


def test_a_part_of_a_script_has_no_path(somebody, monkeypatch):
    monkeypatch.setattr(somebody.losses.MyLoss, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "MyLoss", somebody.losses.MyLoss, raising=False)
    assert one("loss", somebody.losses.MyLoss()).text is None


def test_a_module_named_as_a_registered_part_leads_nowhere(somebody, monkeypatch):
    """`logistic:MyLoss` would be read as the loss 'logistic' with a number."""
    monkeypatch.setitem(sys.modules, "logistic", somebody.losses)
    monkeypatch.setattr(somebody.losses.MyLoss, "__module__", "logistic")
    assert one("loss", somebody.losses.MyLoss()).text is None
    assert not is_import_path("logistic:MyLoss", KINDS["loss"][1])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("loss", 3, "loss 3: must be a registry name, an import path or an instance of Loss"),
        ("loss", ALGORITHMS["pvp"], "must be a registry name, an import path or an instance of Loss"),
        ("loss", Logistic, r"loss Logistic: give an instance, Logistic\(...\), not the class"),
        ("rho_schedule", Fixed(1.0), "rho schedule .*: must be .* an instance of RhoSchedule"),
        ("topology", 5, "topology 5: must be a text such as 'ring:20', a networkx.Graph or a Topology"),
    ],
    ids=str,
)
def test_what_is_no_part_of_the_kind_is_refused(field, value, message):
    with pytest.raises(InputError, match=message):
        declared({field: value})


# -- paths -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "path", "message"),
    [
        ("loss", "nobody.losses:MyLoss", r"loss 'nobody.losses:MyLoss'.*leads nowhere \(No module named 'nobody'\)"),
        ("loss", "nobody.losses:MyLoss", "Install the package that has it, put its folder on PYTHONPATH, or correct"),
        ("loss", "somebody.losses:Other", "leads nowhere .*has no attribute 'Other'"),
        ("loss", "somebody.losses:MyLoss.Other", "leads nowhere .*has no attribute 'Other'"),
        ("loss", "somebody.losses:MyLoss:1:2:3", "MyLoss cannot be made of these numbers"),
        ("loss", "somebody.losses:MyLoss:-1", "MyLoss cannot be made of these numbers .*must be a number from"),
        ("loss", "somebody.losses:MyLoss:wide", "what follows the colon must be a number"),
        ("loss", "somebody.losses:NARROW:0.5", "NARROW is a value already, and takes no numbers after its name"),
        ("loss", "somebody.recipes:MINE", "loss .*: must be a registry name, an import path or an instance of Loss"),
        ("loss", "somebody.others:MyPenalty", "loss .*MyPenalty.*: must be .* an instance of Loss"),
        ("loss", "somebody.recipes:replace", "must be a registry name, an import path or an instance of Loss"),
        ("algorithm", "somebody.losses:NARROW", "must be a registry name, an import path or an instance of Algorithm"),
    ],
)
def test_a_path_that_leads_to_no_such_part_is_refused(somebody, field, path, message):
    with pytest.raises(InputError, match=message):
        load(field, path)


def test_a_class_of_another_kind_is_not_even_made(somebody, monkeypatch):
    class Made:
        def __init__(self):
            raise AssertionError("it was made")

    monkeypatch.setattr(somebody.losses, "Made", Made, raising=False)
    with pytest.raises(InputError, match="must be a registry name"):
        load("loss", "somebody.losses:Made")


def test_a_run_with_paths_becomes_one_with_parts(somebody):
    run = RunSpec(algorithm="somebody.recipes:MINE", loss="somebody.losses:NARROW", set="box:1", rounds=7)
    found = imported(run)
    assert found.algorithm == Part(somebody.recipes.MINE, "somebody.recipes:MINE")
    assert found.loss.value is somebody.losses.NARROW
    assert (found.set, found.penalty, found.rounds) == ("box:1", "l2", 7)
    assert imported(found) == found


def test_a_run_of_registry_names_is_left_as_it_is():
    run = RunSpec(loss="quantiles:0.1,0.9", schedule="fixed:0.5", set="box:1,ball:2")
    assert imported(run) is run


def test_the_usual_loss_of_a_recipe_may_be_a_path(somebody):
    found = imported(RunSpec(algorithm="somebody.recipes:WITH_LOSS"))
    assert found.loss.value == somebody.losses.MyLoss(0.25)
    named = imported(RunSpec(algorithm="somebody.recipes:WITH_LOSS", loss="logistic"))
    assert named.loss == "logistic"


def test_only_imported_imports(somebody):
    forget()
    run = RunSpec(loss="somebody.losses:MyLoss")
    assert declared({"loss": "somebody.losses:MyLoss"}) == {"loss": "somebody.losses:MyLoss"}
    assert "somebody" not in sys.modules
    imported(run)
    assert "somebody.losses" in sys.modules


def test_given_is_a_name_or_what_a_path_leads_to(somebody):
    assert given("loss", "smoothed-hinge:0.5") == "smoothed-hinge:0.5"
    assert given("loss", "somebody.losses:NARROW") is somebody.losses.NARROW


# -- networks ----------------------------------------------------------------------------------------------------------


def test_a_network_of_names_keeps_them_and_owners_find_their_places():
    made = networkx.Graph([("west", "east"), ("east", "north")])
    text = one("topology", made)
    assert text == '{"edges":[["west","east"],["east","north"]]}'
    placed = parse_topology(text, ("east", "north", "west"))
    assert placed.edges.tolist() == [[0, 1], [0, 2]]


@pytest.mark.parametrize("kind", [int, np.int64])
def test_whole_numbers_from_zero_are_the_nodes_own(kind):
    made = networkx.Graph([(kind(2), kind(0)), (kind(0), kind(1)), (kind(1), kind(3))])
    assert one("topology", made) == '{"edges":[[0,1],[0,2],[1,3]]}'


def test_other_labels_are_numbered_as_they_were_put_in():
    made = networkx.Graph([(30, 10), (10, 20)])
    assert one("topology", made) == '{"edges":[[0,1],[1,2]]}'


def test_a_topology_becomes_its_edges():
    made = parse_topology("ring:4")
    assert one("topology", made) == made.text
    assert isinstance(made, Topology)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (networkx.DiGraph([("a", "b")]), "directed"),
        (networkx.Graph([("a", "b"), ("c", "d")]), "parts"),
        (networkx.Graph([("a", "a"), ("a", "b")]), "joined to itself"),
        (networkx.Graph(), "a network needs at least 2"),
    ],
)
def test_what_is_no_network_is_refused(made, message):
    with pytest.raises(InputError, match=message):
        declared({"topology": made})
