"""The long-running process: supervisor, arrivals, queue, workers. Composes the other rooms."""
