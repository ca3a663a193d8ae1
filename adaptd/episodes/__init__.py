"""One episode from its lease to its commit."""
