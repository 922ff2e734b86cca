"""How an owner's agent is made, and what is checked before anybody is connected.

Whatever is wrong with policy, columns or records is found here and told to the owner, and not in front of others.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dpadmm._files import atomic_write, read_bytes
from dpadmm._private_files import check_private, private_folder
from dpadmm.errors import InputError
from dpadmm.federation.cards import OWNER, Card, NotGenuine
from dpadmm.federation.client.owner_folder import AgentSettings, OwnerFolder, read_policy
from dpadmm.federation.client.records import Records
from dpadmm.federation.client.sources import RecordSource
from dpadmm.federation.identity import DAYS, Identity
from dpadmm.federation.invitation import Invitation
from dpadmm.owner.policy import Policy
from dpadmm.privacy.events import Relation
from dpadmm.spec.columns import Schema

CARD = ".card.json"


def read_invitation(path: Path) -> Invitation:
    """An invitation from a coordinator.

    Raises:
        InputError: The file cannot be read, or holds none.
    """
    try:
        return Invitation.loads(read_bytes(path, "invitation"))
    except NotGenuine as error:
        raise InputError(f"invitation {str(path)!r} cannot be used: {error}.") from None


def read_card(path: Path) -> Card:
    """A card from an owner.

    Raises:
        InputError: The file cannot be read, or holds none.
    """
    try:
        return Card.loads(read_bytes(path, "card"))
    except NotGenuine as error:
        raise InputError(f"card {str(path)!r} cannot be used: {error}.") from None


def settings_of(
    folder: OwnerFolder,
    address: str,
    *,
    policy: Path,
    data: str | None = None,
    query: str | None = None,
    ledger: Path | None = None,
    person: str | None = None,
    dry_run: int | None = None,
    records: int = 200,
) -> AgentSettings:
    """What an agent works with, as its owner says; the ledger is in its folder unless told otherwise.

    Raises:
        InputError: There are no records, or a dry run is given some.
    """
    if dry_run is not None and (data is not None or query is not None):
        raise InputError("a dry run makes up its records and opens none of yours; leave --data and --query out.")
    if dry_run is not None and not 1 <= records <= 1_000_000:
        raise InputError(f"--records {records}: a dry run makes up 1 to 1,000,000 records.")
    if dry_run is None and data is None:
        raise InputError("name your records by --data; only a dry run (--dry-run SEED) makes them up.")
    rules = read_policy(policy)
    kind = "dry_run" if dry_run is not None else "ledger"
    plain = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in rules.dataset)
    return AgentSettings(
        address=address,
        policy=str(policy.absolute()),
        ledger=str((ledger or folder.path / f"{plain}.{kind}").absolute()),
        source={} if data is None else RecordSource.parse(data, query).absolute().to_dict(),
        person=person,
        dry_run=dry_run,
        records=records,
    )


def make(
    folder: OwnerFolder, invitation: Invitation, settings: AgentSettings, card: Path, days: int = DAYS
) -> dict[str, Any]:
    """Makes an owner's keys, ledger and state, and writes its card for the coordinator.

    The ledger has its key from here on. Were it made when the first run is joined, a snapshot of the machine from
    before that would come back to a new key, which no seal that others keep fits.

    Args:
        folder: Where the state goes.
        invitation: Whom the owner trusts as coordinator: compare its fingerprint over another channel.
        settings: What the agent works with.
        card: The file for the card, which is public.
        days: How long the card is valid.

    Returns:
        Facts for the owner, as `checked` says them.

    Raises:
        InputError: Something does not go together, there is an agent already, or a file is in the way.
    """
    invitation.card.check_valid()
    if folder.exists:
        raise InputError(f"{folder.name!r} has an agent already, in {str(folder.path)!r}; its keys are kept.")
    rules, records = _read(settings, invitation.schema, folder.name)
    _check_free(card)
    identity = Identity.create(folder.name, OWNER, days=days)
    if settings.dry_run is None:  # before the keys, so that this can be done again if it fails
        private_folder(folder.path)
        place, relation = Path(settings.ledger), Relation.parse(rules.relation)
        folder.registry.ledger(place, rules.dataset, records.digest, relation).close()
    folder.create(identity, invitation, settings)
    write_card(identity.card, card)
    return {**cards(identity.card, invitation.card, settings), **_facts(settings, rules, records)}


def write_card(card: Card, path: Path) -> None:
    """Writes a card where its owner can send it from."""
    try:
        atomic_write(path, card.dumps() + "\n")
    except OSError as error:
        raise InputError(f"card {str(path)!r} cannot be written: {error.strerror}.") from None


def _check_free(path: Path) -> None:
    if path.exists():
        raise InputError(f"there is a file {str(path)!r} already; name another one by --card.")


def check(settings: AgentSettings, schema: Schema, owner: str) -> dict[str, Any]:
    """Whether policy, columns and records go together; reads the records once.

    Returns:
        Facts for the owner.

    Raises:
        InputError: They do not; the message is for the owner and nobody else.
    """
    return _facts(settings, *_read(settings, schema, owner))


def _read(settings: AgentSettings, schema: Schema, owner: str) -> tuple[Policy, Records]:
    """Policy and records, which go together."""
    rules = read_policy(Path(settings.policy))
    records = Records(schema, settings, owner)
    if len(records.features) < rules.smallest_count:
        raise InputError(
            f"there are {len(records.features)} records; the policy takes part with {rules.smallest_count} or more."
        )
    if rules.records_per_person > 1 and settings.person is None:
        raise InputError(
            f"the policy protects {rules.records_per_person} records of a person: name the column that says whose a "
            f"record is by --person."
        )
    if Path(settings.ledger).exists():
        check_private(Path(settings.ledger))
    return rules, records


def _facts(settings: AgentSettings, rules: Policy, records: Records) -> dict[str, Any]:
    return {
        "dataset": rules.dataset,
        "records": len(records.features),
        "unusable": records.unusable,
        "first_unusable": records.first_unusable,
        "columns": list(records.schema.encoder.feature_names),
        "target": records.schema.target,
        "classes": list(records.schema.classes),
        "approval": rules.approval,
        "policy": settings.policy,
        "ledger": settings.ledger,
        "dry_run": settings.dry_run is not None,
    }


def checked(folder: OwnerFolder) -> dict[str, Any]:
    """The same of an agent that is there, with its keys and the card that it trusts.

    Raises:
        InputError: Something is not in order.
    """
    identity, coordinator, settings = folder.identity(), folder.coordinator(), folder.settings()
    identity.card.check_valid()
    coordinator.check_valid()
    return {**cards(identity.card, coordinator, settings), **check(settings, folder.schema(), folder.name)}


def cards(card: Card, coordinator: Card, settings: AgentSettings) -> dict[str, Any]:
    """Who an owner is, and whom it trusts."""
    return {
        "agent": card.name,
        "fingerprint": card.fingerprint,
        "valid_until": card.valid_until.date().isoformat(),
        "coordinator": coordinator.name,
        "coordinator_fingerprint": coordinator.fingerprint,
        "server": settings.address,
    }


def rotate(folder: OwnerFolder, card: Path, days: int = DAYS) -> Card:
    """New keys in place of an owner's; the old ones sign the new card, and are gone.

    Args:
        folder: The owner's state.
        card: The file for the new card, for the coordinator to add.
        days: How long it is valid.

    Returns:
        The new card.

    Raises:
        InputError: The agent runs.
    """
    with folder.running():
        before = folder.identity()
        _check_free(card)
        after = before.renewed(days=days)
        write_card(after.card, card)  # before the old keys are gone
        folder.decisions(before.card).carry_over(after)
        after.save(folder.path)
    return after.card


def trust(folder: OwnerFolder, invitation: Invitation, *, another: bool = False) -> Card:
    """Trusts a coordinator's new invitation: a new address, new columns, or a new card signed by the old identity.

    Args:
        folder: The owner's state.
        invitation: The new one.
        another: Whether a card may be trusted that the old identity has not signed.

    Returns:
        The coordinator's card.

    Raises:
        InputError: The card is another coordinator's, or the agent runs.
    """
    with folder.running():
        known, card = folder.coordinator(), invitation.card
        card.check_valid()
        if card.fingerprint != known.fingerprint and not another:
            try:
                card.check_follows(known)
            except NotGenuine as error:
                raise InputError(
                    f"this is not the coordinator that {folder.name!r} trusts: {error}. Compare the fingerprint with "
                    f"the coordinator over another channel; if it is right, add --another."
                ) from None
        folder.trust(invitation)
        folder.save(replace(folder.settings(), address=invitation.address))
    return card
