"""What runs with a stage could get wrong without a wrong number anywhere else to show it."""

from collections import Counter
from dataclasses import replace

import pytest

from dpadmm.engine.executors.owners import OwnerExecutor
from dpadmm.engine.fit import fit
from dpadmm.engine.prepare import prepare
from dpadmm.engine.preprocessing import stage as stage_module
from dpadmm.errors import InputError

STAGES = [{"components": "3"}, {"standardise": 0.1, "intercept": True}]
every_stage = pytest.mark.parametrize("stage", STAGES, ids=lambda stage: next(iter(stage)))


@pytest.fixture
def made(monkeypatch):
    """The owners of a fit, in order."""
    found = []

    class Kept(OwnerExecutor):
        def __init__(self, *given):
            super().__init__(*given)
            found.append(self)

    monkeypatch.setattr("dpadmm.engine.fit.OwnerExecutor", Kept)
    return found


@every_stage
@pytest.mark.parametrize("relation", ["replace", "zero-out"])
def test_the_ledgers_of_the_owners_together_are_what_a_secure_fit_says_it_cost(stage, relation, experiment, made):
    """Not only the plan: what was debited for the release and for the rounds is what the guarantee counts."""
    changes = {"epsilon": None, "delta": None, "agents": 3, "epsilons": [0.5, 1.0, 2.0], "deltas": [1e-5]}
    prepared = prepare(experiment("dpsgd", test=0.0, relation=relation, **(stage | changes)))
    fitted = fit(prepared, secure=True)
    assert len(made) == 2
    for agent, promised in enumerate([0.5, 1.0, 2.0]):
        accounts = [owners._ledgers[agent].accounts for owners in made]
        debited = sum((Counter(account.tally(0)) for account in accounts), Counter())
        assert debited == Counter(prepared.plan.accounts().tally(agent))
        assert all(account.relation == prepared.plan.setting.relation for account in accounts)
        assert 0.999 * promised <= fitted.guarantees[agent].epsilon <= promised
    assert fitted.guarantee == fitted.guarantees[2]  # of the owner who spent most


@every_stage
def test_an_owner_allows_its_part_of_the_budget_and_no_more(stage, experiment, made):
    prepared = prepare(experiment("dpsgd", test=0.0, **stage))
    fit(prepared, secure=True)
    for owners, run in zip(made, (prepared.stage.first, prepared.stage.rest.run), strict=True):
        for agent in owners._agents:
            assert (agent.policy.epsilon, agent.policy.delta) == (run.epsilons[0], run.deltas[0])
            assert (agent.policy.relation, agent.policy.norm_bound) == (run.relation, run.clip)
            assert agent.shards.norm_bound <= run.row_bound


@every_stage
def test_a_record_that_could_not_be_encoded_stays_zero_in_every_view(stage, experiment):
    """It contributes nothing to the release, and nothing to the rounds: no centre, no constant."""
    prepared = prepare(experiment("dpsgd", test=0.0, **{"intercept": True, **stage}))
    shards = prepared.shards
    rows = shards.features.copy()
    rows[[3, 40]] = 0.0
    part = replace(prepared, shards=replace(shards, features=rows)).turned(0)
    assert not part.shards.features[[3, 40]].any()
    assert (part.shards.features != 0.0).any(axis=1).sum() == len(rows) - 2


@every_stage
def test_two_parts_that_exceed_the_budget_are_refused_whoever_made_them(stage, experiment, monkeypatch):
    """The last word is the accountant's, over both parts together."""
    parts = stage_module._parts
    monkeypatch.setattr(stage_module, "_parts", lambda budget, *more: (parts(budget, *more)[0], budget))
    with pytest.raises(InputError, match=r"the run would cost epsilon 2\.\d+, and the budget is 2"):
        prepare(experiment("dpsgd", test=0.0, **stage))
