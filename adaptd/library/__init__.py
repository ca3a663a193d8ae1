"""Decoded images: verified once, kept as memory-mapped arrays. Knows files and pixels; not the store, not training."""
