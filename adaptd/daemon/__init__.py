"""The long-running process: lock, supervisor, worker. Composes the other rooms."""
