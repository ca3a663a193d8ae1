"""The command line. Wiring happens here and only here."""
