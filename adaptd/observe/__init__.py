"""What people and machines see: logs and metrics. Decides nothing."""
