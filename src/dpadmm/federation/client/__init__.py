"""An owner's half of a federation: what is asked of it is checked here, and handed to its agent."""
