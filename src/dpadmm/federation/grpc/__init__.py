"""The transport over gRPC with mutual TLS: owners' agents dial out, and the coordinator asks over their streams."""

import importlib.util
import os

from dpadmm.errors import InputError

if importlib.util.find_spec("grpc") is None:
    raise InputError("a federation needs gRPC; say: pip install 'dpadmm[federation]'")

# What gRPC has to say of a failed handshake is no news for a terminal; what follows from it, we say ourselves.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
