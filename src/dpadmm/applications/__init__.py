"""Problems that are not records over owners, built from the same parts."""
