"""The owner's half of a federation: what others send is checked here, and handed to the owner's `Agent`.

Everything here answers with plain values. Whatever goes wrong becomes {"refused": reason} and a line in the owner's
log; no exception leaves, because its text could hold a record, and whoever called would be sent its traceback. The
reason that leaves says nothing of the owner's limits; the line in the log does.

Whoever calls is the coordinator: the transport lets nobody else in. What neighbours tell each other it only carries;
they are known by their signatures.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpadmm._limits import MESSAGE
from dpadmm._plain import plain
from dpadmm._private_files import check_private
from dpadmm.admm.algorithm import Plan
from dpadmm.errors import InputError, Refused
from dpadmm.federation.cards import RELEASE, TERMS
from dpadmm.federation.client.confirmation import confirmed_cards
from dpadmm.federation.client.decisions import Proposal
from dpadmm.federation.client.letters import Letters, Relay
from dpadmm.federation.client.owner_folder import OwnerFolder, read_policy
from dpadmm.federation.client.peer import Inbox, Peer, Turns
from dpadmm.federation.client.policy_file import PolicyFile
from dpadmm.federation.client.records import Records, UnfitRecords
from dpadmm.federation.messages import (
    LARGEST_TEXT,
    VERSION,
    release_parts,
    seal_from_list,
    seal_to_list,
    terms_parts,
    to_bytes,
    to_row,
)
from dpadmm.owner import spending
from dpadmm.owner.agent import Agent
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.owner.request import Request, is_name
from dpadmm.privacy.events import canonical, digest
from dpadmm.privacy.ledger.sqlite import SqliteLedger

Reply = dict[str, Any]


class Handler:
    """Answers for one owner in one process; calls come one after the other."""

    def __init__(self, site: OwnerFolder) -> None:
        self.site, self.name = site, site.name
        self.settings = site.settings()
        self.identity = site.identity()
        self.coordinator = site.coordinator()
        self.decisions = site.decisions(self.identity.card)
        self._records: Records | None = None
        self._agents: dict[str, tuple[Agent, Agreement]] = {}
        self._letters: dict[str, tuple[str, Letters]] = {}  # of confirmed runs, with the digest of their terms
        self._inboxes: dict[str, Inbox] = {}
        self._policy = PolicyFile(Path(self.settings.policy))

    # -- what may be asked -----------------------------------------------------------------------------------------

    def introduce(self) -> Reply:
        """Public facts: whose card this is, how many records there are, and which columns were agreed on."""
        return self._safely("introduction", self._introduce)

    def join(self, run: Any, terms: Any, seen: Any = None) -> Reply:
        """Agrees to a run and signs its terms, or says that it waits for the owner."""
        return self._safely("join", lambda: self._join(run, terms, seen))

    def confirm(self, run: Any, cards: Any, signatures: Any) -> Reply:
        """Checks that all owners of the terms have signed them; no step is answered before that."""
        return self._safely("confirm", lambda: self._confirm(run, cards, signatures))

    def answer_step(
        self, run: Any, digest: Any, step: Any, inputs: Any, missed_inputs: Any, last_used: Any = None
    ) -> Reply:
        """One release, signed."""
        given = (run, digest, step, inputs, missed_inputs, last_used)
        return self._safely("answer_step", lambda: self._answer_step(*given))

    def finish(self, run: Any) -> Reply:
        return self._safely("finish", lambda: self._finish(run))

    def run_rounds(self, run: Any, digest: Any, start: Any, timeout: Any, relay: Relay, turn: Turns) -> Reply:
        """On a graph: all rounds from `start` on, with the neighbours and without the coordinator."""
        return self._safely("run_rounds", lambda: self._run_rounds(run, digest, start, timeout, relay, turn))

    def rounds_status(self, run: Any, end: Reply | None) -> Reply:
        """How far the rounds of a graph are, or what they ended with."""
        return self._safely("rounds_status", lambda: {"round": self._inbox(run).round} if end is None else end)

    def hear(self, run: Any, sender: Any, round: Any, sealed: Any) -> Reply:
        """A neighbour's release. This one comes at any time, and touches nothing but the inbox."""
        return self._safely("hear", lambda: self._hear(run, sender, round, sealed))

    # -- what is done ----------------------------------------------------------------------------------------------

    def _introduce(self) -> Reply:
        records = self.records
        return {
            "version": VERSION,
            "card": self.identity.card.dumps(),
            "count": len(records.features),
            "columns": records.schema.digest,
            "dry_run": self.settings.dry_run is not None,
        }

    def _join(self, run: Any, terms: Any, seen: Any) -> Reply:
        if type(terms) is not str or len(terms) > LARGEST_TEXT:
            raise Refused("terms must be a text of reasonable length.")
        if not is_name(run):  # it is shown to the owner
            raise Refused("a run needs a name of at most 100 letters.")
        try:
            agreement = Agreement.loads(terms)
            plan = agreement.plan()
        except InputError as error:  # made of the terms alone
            raise Refused(str(error)) from None
        if agreement.schema is None or agreement.schema.digest != self.records.schema.digest:
            raise Refused("the columns in the terms are not those that this owner agreed to.")
        self._check_identity(agreement)
        policy = read_policy(Path(self.settings.policy))
        agent = self._open(agreement, policy)
        shown = seal_from_list(seen)
        if shown is not None:
            agent.ledger.check_seal(shown)
        if agent.ledger.terms(run) is None and not self._allowed(run, agreement, plan, policy, agent):
            return {"waiting": agreement.digest}
        agent.join(run, agreement)
        self._agents[run] = agent, agreement
        if agreement.run.topology is not None:
            self._inboxes[run] = Inbox(self.name, agreement)
        answered = agent.rounds_answered(run)
        self.site.note("joined", run=run, digest=agreement.digest, round=answered)
        signature = self.identity.sign(TERMS, *terms_parts(run, agreement.digest))
        return {"joined": agreement.digest, "rounds_answered": answered, "signature": signature}

    def _check_identity(self, agreement: Agreement) -> None:
        """The terms must name this owner with its own card."""
        if self.name not in agreement.owners:
            raise Refused(f"the terms are for {', '.join(agreement.owners) or 'nobody'}, and not for {self.name}.")
        if not agreement.identities:
            raise Refused("the terms do not say which cards the owners have.")
        if agreement.identities[agreement.owners.index(self.name)] != self.identity.card.fingerprint:
            raise Refused(f"the terms name another card for {self.name} than its own.")

    def _allowed(self, run: str, agreement: Agreement, plan: Plan, policy: Policy, agent: Agent) -> bool:
        """Whether the owner, or its policy, has agreed; False while it waits for the owner.

        The owner is asked only where policy and budget allow the run, so that its approval is not in vain.
        """
        if self.decisions.declined(agreement.digest):
            raise Refused("the owner has declined these terms.")
        agent.consider(run, agreement)
        ledger = agent.ledger
        assert isinstance(ledger, SqliteLedger)
        mine = plan.take([agreement.owners.index(self.name)])
        if policy.approval != "hand":
            cost = spending.projected(run, agreement, mine, policy, ledger)
            self.site.note("asked", run=run, digest=agreement.digest, sentence=cost["sentence"])
            return True
        proposal = Proposal(
            run=run,
            terms=agreement.digest,
            dataset=policy.dataset,
            records=digest(str(self.settings.dry_run), self.records.digest),
            ledger=ledger.identity,
            policy=digest(canonical(asdict(policy))),
            owner=self.identity.card.fingerprint,
            coordinator=self.coordinator.fingerprint,
        )
        if self.decisions.use_approval(proposal):
            self.decisions.withdraw(proposal)
            self.site.note("approval used", run=run, digest=agreement.digest, proposal=proposal.id)
            return True
        if self.decisions.ask(proposal, spending.projected(run, agreement, mine, policy, ledger)):
            self.site.note("waiting", run=run, digest=agreement.digest, proposal=proposal.id)
        return False

    def _confirm(self, run: Any, cards: Any, signatures: Any) -> Reply:
        _, agreement = self._joined(run)
        known = confirmed_cards(run, agreement, cards, signatures)
        self._letters[run] = agreement.digest, Letters(self.identity, known, run, agreement.digest)
        return {"confirmed": agreement.digest}

    def _open(self, agreement: Agreement, policy: Policy) -> Agent:
        given, records, ledger = self.settings, self.records, Path(self.settings.ledger)
        if os.path.lexists(ledger):
            check_private(ledger)
        return Agent.open(
            records.shards(agreement, self.name),
            policy,
            ledger,
            member=agreement.owners.index(self.name),
            persons=records.persons,
            registry=self.site.registry,
            data_digest=records.digest,
            dry_run=given.dry_run,
        )

    def _answer_step(self, run: Any, digest: Any, step: Any, inputs: Any, missed_inputs: Any, last_used: Any) -> Reply:
        agent, agreement = self._joined(run)
        self._letters_of(run, agreement)
        if not isinstance(missed_inputs, Mapping):
            raise Refused("missed_inputs must be inputs by round.")
        rows = {int(k) if type(k) is str and k.isdecimal() else k: to_row(v) for k, v in missed_inputs.items()}
        self._bind(agent)
        release = agent.answer(Request(run, digest, step, to_row(inputs), rows, last_used=last_used))
        return self._signed(run, agreement, step, to_bytes(release.value), seal_to_list(release.seal))

    def _run_rounds(self, run: Any, digest: Any, start: Any, timeout: Any, relay: Relay, turn: Turns) -> Reply:
        agent, agreement = self._joined(run)
        if digest != agreement.digest or type(start) is not int or type(timeout) not in (int, float):
            raise Refused("that run was joined on other terms.")
        letters, inbox = self._letters_of(run, agreement), self._inbox(run)
        peer = Peer(self.name, run, agreement, agent, inbox, lambda: self._bind(agent))
        release = peer.run_rounds(start, letters.teller(relay, float(timeout)), float(timeout), turn)
        rounds = agreement.plan().setting.rounds
        return self._signed(run, agreement, rounds, to_bytes(release.value), seal_to_list(release.seal))

    def _signed(self, run: str, agreement: Agreement, step: int | str, value: bytes, seal: list[Any] | None) -> Reply:
        signature = self.identity.sign(RELEASE, *release_parts(run, agreement.digest, step, value, seal))
        return {"value": value, "seal": seal, "signature": signature}

    def _hear(self, run: Any, sender: Any, round: Any, sealed: Any) -> Reply:
        _, agreement = self._joined(run)
        value = self._letters_of(run, agreement).opened(sender, round, sealed)
        self._inbox(run).put(sender, round, value)
        return {"heard": round}

    def _finish(self, run: Any) -> Reply:
        self._joined(run)[0].finish(run)
        self._agents.pop(run, None)
        self._letters.pop(run, None)
        self.site.note("finished", run=run)
        return {"finished": run}

    def _bind(self, agent: Agent) -> None:
        """Where the owner has made its policy stricter during a run, that holds at once."""
        agent.policy = self._policy.current()

    def _joined(self, run: Any) -> tuple[Agent, Agreement]:
        if type(run) is not str or run not in self._agents:
            raise Refused("that run was not joined.")
        return self._agents[run]

    def _letters_of(self, run: str, agreement: Agreement) -> Letters:
        """Of a run whose owners have all been checked."""
        confirmed = self._letters.get(run)
        if confirmed is None or confirmed[0] != agreement.digest:
            raise Refused("that run was not confirmed: the signatures of all its owners are needed first.")
        return confirmed[1]

    def _inbox(self, run: Any) -> Inbox:
        if type(run) is not str or run not in self._inboxes:
            raise Refused("that run was not joined, or has a server.")
        return self._inboxes[run]

    @property
    def records(self) -> Records:
        """Read when they are first needed; what is wrong with them is the owner's business alone."""
        if self._records is None:
            try:
                self._records = Records(self.site.schema(), self.settings)
                if self._records.unusable:
                    self.site.note("unusable", records=self._records.unusable)
            except InputError:
                raise UnfitRecords from None
        return self._records

    def _safely(self, what: str, call: Callable[[], Reply]) -> Reply:
        try:
            return call()
        except Refused as refused:
            reason, told = str(refused), refused.told
        except UnfitRecords:
            reason = told = "this owner's records are not as agreed; 'dpadmm agent check' tells the owner why."
        except InputError as error:  # of policy or ledger: the owner's own files, which are none of others' business
            self.site.note("error", asked=what, reason=str(error))
            return {"refused": "this owner's agent is not in order; its log says why."}
        except Exception as error:  # its text may hold anything, and so stays out of logs, too
            self.site.note("error", asked=what, reason=type(error).__name__)
            return {"refused": "this owner's agent failed; its log says how."}
        self.site.note("refused", asked=what, reason=reason)
        return {"refused": plain(told, MESSAGE)}
