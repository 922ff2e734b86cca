"""The transport over gRPC with mutual TLS: owners' agents dial out, and the coordinator asks over their streams."""

import os

# What gRPC has to say of a failed handshake is no news for a terminal; what follows from it, we say ourselves.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
