"""Training: backbones, augmentation, episodes and their checkpoints. Knows arrays; not files, not the store."""
