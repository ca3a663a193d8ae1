"""The harness: methods compared on the same data, seeds and source model. Knows arrays and results; not the store."""
