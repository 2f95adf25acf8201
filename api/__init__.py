"""The HTTP service: takes jobs in, shows how they are doing, hands results out. It renders nothing."""
