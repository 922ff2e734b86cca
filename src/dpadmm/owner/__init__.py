"""The owner's side, and the trust boundary: the only code that touches private records in a run."""
