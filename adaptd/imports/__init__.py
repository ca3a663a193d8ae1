"""A claimed drop becomes a committed domain; what cannot be used goes to quarantine."""
