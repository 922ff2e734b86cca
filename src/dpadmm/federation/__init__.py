"""The same agents as separate parties over a real network."""
