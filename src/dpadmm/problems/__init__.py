"""What is minimised: records over agents, losses, penalties, sets."""
