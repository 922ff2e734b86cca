"""The same agents as separate processes over a real network."""
