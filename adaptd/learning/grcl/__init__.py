"""The paper and nothing else: bank, loss, projection, memory selection, step. torch and the standard library."""
