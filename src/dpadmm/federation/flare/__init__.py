"""The same messages over NVIDIA FLARE, for organisations that run it already; docs/flare.md says what trust it adds.

`agent` is an owner's end, `coordinator` the other one; `guard` closes an owner's site.
"""

import importlib.util

from dpadmm.errors import InputError

if importlib.util.find_spec("nvflare") is None:
    raise InputError("the adapter for FLARE needs FLARE; say: pip install 'dpadmm[flare]'")

ASK, READY, RELAY = "dpadmm.ask", "dpadmm.ready", "dpadmm.relay"  # topics of messages
