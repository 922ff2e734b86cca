"""Compiled loops: how they are compiled, kept on disk, and how the tag of a loss selects what they call."""
