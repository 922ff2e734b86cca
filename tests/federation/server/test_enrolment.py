"""Before the first round: owners that do not fit, decline, keep silent or wait for approval."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from coordinated_runs import all_once, coefficients, everything
from handlers import decide

from dpadmm.errors import NOT_ALLOWED
from dpadmm.federation.messages import VERSION

pytestmark = pytest.mark.usefixtures("hurried")


INTRODUCTIONS: list[tuple[dict[str, Any] | list[Any], str, str]] = [
    ({"version": VERSION + 1}, "refused", "birke has another version of dpadmm"),
    ({"version": None}, "refused", "birke has another version of dpadmm"),
    ({"columns": "0" * 64}, "refused", "birke has agreed to other columns"),
    ({"count": 0}, "failed", "birke says it has 0 records"),
    ({"count": -5}, "failed", "birke says it has -5 records"),
    ({"count": True}, "failed", "birke says it has True records"),
    ({"count": "45"}, "failed", "birke says it has '45' records"),
    ({"count": 10**10}, "failed", "birke says it has 10000000000 records"),
    ({"count": None}, "failed", "birke says it has None records"),
    ([], "refused", "birke has another version"),
]


@pytest.mark.parametrize(("change", "state", "said"), INTRODUCTIONS)
def test_owners_that_do_not_fit_are_named_before_anything_is_spent(
    lived: Any, change: Any, state: str, said: str
) -> None:
    folder, line = lived.folder(), lived.line()

    def tamper(name: str, method: str, reply: Any) -> Any:
        if method != "introduce" or name != "birke":
            return reply
        return {**reply, **change} if isinstance(change, dict) else change

    line.tamper = tamper
    status = lived.run(folder, line)
    assert status["state"] == state
    assert said in status["message"]
    assert set(everything(lived).values()) == {0}
    assert folder.agreement() is None


def test_a_desk_with_other_columns_or_fewer_records_than_before_keeps_the_run_from_going_on(
    lived: Any, small_federation: ModuleType, undisturbed: np.ndarray
) -> None:
    folder, line = lived.folder(), lived.line()
    line.reaches = lambda name, method, call: not (method == "answer_step" and call["step"] == 4)
    assert lived.run(folder, line)["state"] == "interrupted"
    before = everything(lived)
    line = lived.line()
    line.tamper = lambda name, method, reply: (
        {**reply, "count": 46} if (name, method) == ("birke", "introduce") else reply
    )
    status = lived.run(folder, line)
    assert (status["state"], everything(lived)) == ("refused", before)
    assert "birke has another number of records than when the run began" in status["message"]
    others = replace(small_federation.SCHEMA, classes=("yes", "no")).dumps()
    lived.owner("eiche").trust(replace(lived.invitation, columns=others))
    status = lived.run(folder)
    assert (status["state"], everything(lived)) == ("refused", before)
    assert "eiche has agreed to other columns" in status["message"]
    lived.owner("eiche").trust(lived.invitation)
    assert lived.run(folder)["state"] == "finished"
    assert np.array_equal(coefficients(folder), undisturbed)


@pytest.mark.parametrize(
    "reply",
    [
        {},
        [],
        {"joined": "0" * 64, "rounds_answered": 0},
        {"joined": True},
        {"waiting": "0" * 64},
        {"rounds_answered": 0},
    ],
)
def test_an_owner_that_does_not_say_whether_it_takes_part_is_named(lived: Any, reply: Any) -> None:
    folder, line = lived.folder(), lived.line()
    line.tamper = lambda name, method, said: reply if (name, method) == ("eiche", "join") else said
    line.reaches = lambda *_: len(line.calls) < 50  # lest it be asked for ever
    status = lived.run(folder, line)
    assert status["state"] == "failed"
    assert status["message"] == "eiche did not say whether it takes part."
    assert all(lived.steps(name) == [] for name in lived.counts)


def test_one_owners_no_is_everybodys(lived: Any) -> None:
    lived.allow("eiche", epsilon=1.0)
    folder = lived.folder()
    status = lived.run(folder)
    assert status["state"] == "refused"
    assert status["message"] == f"eiche: {NOT_ALLOWED}"  # and not what its budget is
    assert all(lived.steps(name) == [] for name in lived.counts)


def test_a_run_waits_for_the_word_of_its_owners(lived: Any, undisturbed: np.ndarray) -> None:
    for name in ("ahorn", "eiche"):
        lived.allow(name, epsilon=400.0, approval="hand")
    folder, line = lived.folder(), lived.line()
    seen: list[dict[str, Any]] = []

    def tamper(name: str, method: str, reply: Any) -> Any:
        if method == "join":
            seen.append(folder.status())
        if "waiting" in reply and len(seen) > 4:
            decide(lived, name)
        return reply

    line.tamper = tamper
    assert lived.run(folder, line)["state"] == "finished"
    waited = next(status for status in seen if status["state"] == "waiting")
    assert waited["waiting"] == ["ahorn", "eiche"]
    assert waited["message"] == "for the word of ahorn, eiche"
    assert [name for name, method, _ in line.calls if method == "join"].count("birke") == 1
    assert np.array_equal(coefficients(folder), undisturbed)
    declined = lived.folder(name="other", rounds=5)
    line = lived.line()
    line.tamper = lambda name, method, reply: (
        decide(lived, name, approve=False) or reply if "waiting" in reply else reply
    )
    status = lived.run(declined, line)
    assert status["state"] == "refused"
    assert "the owner has declined these terms" in status["message"]


@pytest.mark.parametrize("method", ["introduce", "join"])
def test_an_owner_that_is_silent_before_the_rounds_is_waited_for_in_another_job(
    lived: Any, undisturbed: np.ndarray, method: str
) -> None:
    folder, line = lived.folder(), lived.line()
    line.reaches = lambda name, asked, call: (name, asked) != ("birke", method)
    status = lived.run(folder, line)
    assert (status["state"], status["lost"]) == ("interrupted", ["birke"])
    assert "birke" in status["message"]
    status = lived.run(folder, lived.line(("ahorn", "eiche")))
    assert status["state"] == "interrupted"
    assert "birke" in status["message"]
    assert max(len(lived.steps(name)) for name in lived.counts) <= 1
    assert lived.run(folder)["state"] == "finished"
    assert np.array_equal(coefficients(folder), undisturbed)
    all_once(lived)


@pytest.mark.parametrize("text", [None, "age,dose,sex,ill\n1,1,x,no\n", "age,dose,sex\n1,1,f\n"])
def test_public_records_that_cannot_be_used_end_a_run_before_anything_is_spent(lived: Any, text: str | None) -> None:
    public = lived.home / "public.csv"
    if text is not None:
        public.write_text(text)
    assert lived.run(lived.folder(public_test=str(public)))["state"] == "failed"
    assert set(everything(lived).values()) == {0}


def test_a_spec_that_suits_no_plan_fails_before_anybody_agreed(lived: Any) -> None:
    calls: list[tuple[dict[str, Any], str]] = [
        ({"topology": "ring:3"}, "has a server"),
        ({"loss": "no-such"}, "unknown loss"),
        ({"topology": "ring:4", "algorithm": "private-r-admm"}, "4 nodes"),
        ({"stragglers": "skip", "algorithm": "obj-g"}, "cannot combine a round without one"),
    ]
    for number, (changes, said) in enumerate(calls):
        status = lived.run(lived.folder(name=f"run-{number}", **changes))
        assert status["state"] == "failed"
        assert said in status["message"]
    assert set(everything(lived).values()) == {0}
