"""From a trained model to a version people can deploy: gate, export, proof, model repository. No store, no serving."""
