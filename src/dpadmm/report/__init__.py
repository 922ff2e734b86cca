"""Pages that show runs, and figures of the papers."""
