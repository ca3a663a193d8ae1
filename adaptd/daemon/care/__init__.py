"""Looking after a project: what does not hold, what may be deleted, what was set aside. Learns and publishes nothing."""
