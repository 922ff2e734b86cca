"""An owner's budget: the protocol that agents use, the file on disk, its checks, and the registry of ledgers."""
