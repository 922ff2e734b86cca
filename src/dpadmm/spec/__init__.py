"""What a run may say (declare), what follows from it (resolve), and how it is written down (toml)."""
