"""Who hears whom in a run without a server: a network by name, from text, or from a file."""
