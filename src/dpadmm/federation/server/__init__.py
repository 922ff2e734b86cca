"""The coordinator's half of a federation: it holds no records and combines what owners release."""
