"""How far estimates without labels are off, on versions whose true accuracy the benchmark knows."""
