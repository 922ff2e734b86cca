"""Attacks that measure what leaks."""

from __future__ import annotations

from dpadmm.audit.reconstruction import Reconstruction, reconstruct
from dpadmm.audit.run import Audit, audit
from dpadmm.audit.scene import Scenario

__all__ = ["Audit", "Reconstruction", "Scenario", "audit", "reconstruct"]
