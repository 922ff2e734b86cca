"""What depends on records and leaves an owner: integer rows and slopes, exact sums, exact noise (PRIVATE_CORE)."""
