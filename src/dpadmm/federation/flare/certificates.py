"""FLARE's provisioning with a lifetime of our own choice; imported by `kits` when kits are made, and not before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from nvflare.lighter import utils
from nvflare.lighter.entity import Participant, Project
from nvflare.lighter.impl.cert import CertBuilder
from nvflare.lighter.impl.static_file import StaticFileBuilder
from nvflare.lighter.impl.workspace import WorkspaceBuilder
from nvflare.lighter.provisioner import Provisioner

__all__ = ["Project", "Provisioner", "builders", "utils"]


class Certificates(CertBuilder):  # type: ignore[misc]
    """Valid for so many days, but not longer than the authority; FLARE would say 360."""

    def __init__(self, days: int, authority_ends: datetime) -> None:
        super().__init__()
        self._days, self._authority_ends = days, authority_ends

    def get_pri_key_cert(self, participant: Participant) -> tuple[Any, Any]:
        private, public = utils.generate_keys()
        now = datetime.now(UTC)
        certificate = self._generate_cert(
            participant.subject,
            participant.org,
            self.issuer,
            self.pri_key,
            public,
            role=participant.get_prop("role"),
            server=participant if participant.type == "server" else None,
            not_valid_before=now - timedelta(minutes=5),  # clocks differ
            not_valid_after=min(now + timedelta(days=self._days), self._authority_ends),
        )
        return private, certificate


def builders(days: int, authority_ends: datetime) -> list[Any]:
    return [
        WorkspaceBuilder(),
        StaticFileBuilder(config_folder="config", scheme="grpc"),
        Certificates(days, authority_ends),
    ]
