"""Attacks that measure what leaks."""

from __future__ import annotations

from dpadmm.audit.auditing import Audit, audit
from dpadmm.audit.reconstruction import Reconstruction, reconstruct
from dpadmm.audit.scene import Stage

__all__ = ["Audit", "Reconstruction", "Stage", "audit", "reconstruct"]
