"""Side-by-side measurements, each one command, each writes JSON."""
