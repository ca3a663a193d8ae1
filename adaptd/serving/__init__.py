"""Published versions answer requests: sessions, hot swap, batching, Open Inference Protocol."""
