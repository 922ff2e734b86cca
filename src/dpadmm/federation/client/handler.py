"""The owner's half of a federation: what others send is checked here, and handed to the owner's `Agent`.

Everything here answers with plain values. Whatever goes wrong becomes {"refused": reason} and a line in the owner's
log; no exception leaves, because its text could hold a record, and whoever called would be sent its traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpadmm.admm.algorithm import Plan
from dpadmm.errors import InputError, Refused
from dpadmm.federation.client.files import OwnerFiles
from dpadmm.federation.client.peer import Inbox, Peer, Tell, Turns
from dpadmm.federation.client.records import Records, UnfitRecords
from dpadmm.federation.messages import LARGEST_TEXT, VERSION, seal_from_list, seal_to_list, to_bytes, to_row
from dpadmm.owner import spending
from dpadmm.owner.agent import Agent
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.owner.request import Request, is_name
from dpadmm.privacy.ledger.registry import LedgerRegistry, default_folder
from dpadmm.privacy.ledger.sqlite import SqliteLedger

COORDINATOR = "server"
Reply = dict[str, Any]


class Handler:
    """Answers for one owner in one process; calls come one after the other."""

    def __init__(self, site: OwnerFiles, name: str) -> None:
        self.site, self.name = site, name
        self.settings = site.settings()
        self._records: Records | None = None
        self._agents: dict[str, tuple[Agent, Agreement]] = {}
        self._inboxes: dict[str, Inbox] = {}
        self._policy: tuple[tuple[int, ...] | None, Policy] | None = None  # as last read, and what its file was then

    # -- what may be asked -----------------------------------------------------------------------------------------

    def introduce(self, caller: str) -> Reply:
        """Public facts: how many records, and which columns were agreed on."""
        return self._safely(caller, "introduction", self._introduce)

    def join(self, caller: str, run: str, terms: str, seen: Any = None) -> Reply:
        """Agrees to a run, or says that it waits for the owner's word; after a restart, where it stands."""
        return self._safely(caller, "join", lambda: self._join(run, terms, seen))

    def answer_step(
        self, caller: str, run: str, digest: str, step: Any, inputs: Any, missed_inputs: Any, last_used: Any = None
    ) -> Reply:
        """One release."""
        given = (run, digest, step, inputs, missed_inputs, last_used)
        return self._safely(caller, "answer_step", lambda: self._answer_step(*given))

    def finish(self, caller: str, run: str) -> Reply:
        return self._safely(caller, "finish", lambda: self._finish(run))

    def run_rounds(
        self, caller: str, run: str, digest: str, start: Any, tell: Tell, timeout: Any, turn: Turns
    ) -> Reply:
        """On a graph: all rounds from `start` on, with the neighbours and without the coordinator."""
        return self._safely(caller, "run_rounds", lambda: self._run_rounds(run, digest, start, tell, timeout, turn))

    def rounds_status(self, caller: str, run: str, end: Reply | None) -> Reply:
        """How far the rounds of a graph are, or what they ended with."""
        return self._safely(caller, "rounds_status", lambda: {"round": self._inbox(run).round} if end is None else end)

    def hear(self, caller: str, run: str, round: Any, value: Any) -> Reply:
        """A neighbour's release. This one comes at any time, and touches nothing but the inbox."""
        return self._safely(caller, "hear", lambda: self._hear(caller, run, round, value), neighbours=True)

    # -- what is done ----------------------------------------------------------------------------------------------

    def _introduce(self) -> Reply:
        records = self.records
        return {
            "version": VERSION,
            "count": len(records.features),
            "columns": records.schema.digest,
            "dry_run": self.settings.dry_run is not None,
        }

    def _join(self, run: str, terms: str, seen: Any) -> Reply:
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
        if self.name not in agreement.owners:
            raise Refused(f"the terms are for {', '.join(agreement.owners) or 'nobody'}, and not for {self.name}.")
        policy = Policy.read(Path(self.settings.policy))
        agent = self._open(agreement, policy)
        shown = seal_from_list(seen)
        if shown is not None:
            agent.ledger.check_seal(shown)
        if agent.ledger.terms(run) is None:
            self._ask(run, agreement, plan, policy, agent)
            if policy.approval == "hand" and not self.site.approved(agreement.digest, run):
                return {"waiting": agreement.digest}
        agent.join(run, agreement)
        self._agents[run] = agent, agreement
        if agreement.run.topology is not None:
            self._inboxes[run] = Inbox(self.name, agreement)
        self.site.note("joined", run=run, digest=agreement.digest, round=agent.rounds_answered(run))
        return {"joined": agreement.digest, "rounds_answered": agent.rounds_answered(run)}

    def _ask(self, run: str, agreement: Agreement, plan: Plan, policy: Policy, agent: Agent) -> None:
        """Tells the owner what a run would cost, and refuses what it has declined."""
        digest = agreement.digest
        if self.site.declined(digest):
            raise Refused("the owner has declined these terms.")
        assert isinstance(agent.ledger, SqliteLedger)
        words = spending.projected(run, agreement, plan.take([agreement.owners.index(self.name)]), policy, agent.ledger)
        if policy.approval == "hand":
            if not self.site.approved(digest, run):
                self.site.ask(digest, words)
        else:
            self.site.note("asked", run=run, digest=digest, sentence=words["sentence"])

    def _open(self, agreement: Agreement, policy: Policy) -> Agent:
        given, records = self.settings, self.records
        return Agent.open(
            records.shards(agreement, self.name),
            policy,
            Path(given.ledger),
            member=agreement.owners.index(self.name),
            persons=records.persons,
            registry=LedgerRegistry(default_folder() if given.registry is None else Path(given.registry)),
            data_digest=records.digest,
            dry_run=given.dry_run,
        )

    def _answer_step(self, run: str, digest: str, step: Any, inputs: Any, missed_inputs: Any, last_used: Any) -> Reply:
        agent, _ = self._joined(run)
        if not isinstance(missed_inputs, Mapping):
            raise Refused("missed_inputs must be inputs by round.")
        rows = {int(k) if type(k) is str and k.isdecimal() else k: to_row(v) for k, v in missed_inputs.items()}
        self._bind(agent)
        release = agent.answer(Request(run, digest, step, to_row(inputs), rows, last_used=last_used))
        return {"value": to_bytes(release.value), "seal": seal_to_list(release.seal)}

    def _run_rounds(self, run: str, digest: str, start: Any, tell: Tell, timeout: Any, turn: Turns) -> Reply:
        agent, agreement = self._joined(run)
        if digest != agreement.digest or type(start) is not int or type(timeout) not in (int, float):
            raise Refused("that run was joined on other terms.")
        inbox = self._inbox(run)
        self._bind(agent)
        peer = Peer(self.name, run, agreement, agent, inbox)
        release = peer.run_rounds(start, tell, float(timeout), turn)
        return {"value": to_bytes(release.value), "seal": seal_to_list(release.seal)}

    def _hear(self, caller: str, run: str, round: Any, value: Any) -> Reply:
        self._inbox(run).put(caller, round, value)
        return {"heard": round}

    def _finish(self, run: str) -> Reply:
        self._joined(run)[0].finish(run)
        self._agents.pop(run, None)
        self.site.note("finished", run=run)
        return {"finished": run}

    def _bind(self, agent: Agent) -> None:
        """Where the owner has made its policy stricter during a run, that holds at once."""
        path = Path(self.settings.policy)
        mark = _mark(path)
        if self._policy is None or mark is None or mark != self._policy[0]:
            self._policy = mark, Policy.read(path)
        agent.policy = self._policy[1]

    def _joined(self, run: Any) -> tuple[Agent, Agreement]:
        if type(run) is not str or run not in self._agents:
            raise Refused("that run was not joined.")
        return self._agents[run]

    def _inbox(self, run: Any) -> Inbox:
        if type(run) is not str or run not in self._inboxes:
            raise Refused("that run was not joined, or has a server.")
        return self._inboxes[run]

    @property
    def records(self) -> Records:
        """Read when they are first needed; what is wrong with them is the owner's business alone."""
        if self._records is None:
            try:
                self._records = Records(self.settings)
                if self._records.unusable:
                    self.site.note("unusable", records=self._records.unusable)
            except InputError:
                raise UnfitRecords from None
        return self._records

    def _safely(self, caller: str, what: str, call: Callable[[], Reply], neighbours: bool = False) -> Reply:
        try:
            if caller != COORDINATOR and not neighbours:
                raise Refused("only the coordinator may ask that.")
            return call()
        except Refused as refused:
            reason = str(refused)
        except UnfitRecords:
            reason = "this owner's records are not as agreed; 'dpadmm agent check' tells the owner why."
        except InputError as error:  # of policy or ledger: the owner's own files, which are none of others' business
            self.site.note("error", asked=what, reason=str(error))
            return {"refused": "this owner's agent is not in order; its log says why."}
        except Exception as error:  # its text may hold anything, and so stays out of logs, too
            self.site.note("error", asked=what, reason=type(error).__name__)
            return {"refused": "this owner's agent failed; its log says how."}
        self.site.note("refused", asked=what, by=caller, reason=reason)
        return {"refused": reason}


def _mark(path: Path) -> tuple[int, ...] | None:
    """Changes with the file; None if it cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
