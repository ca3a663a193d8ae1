"""R, its metrics and its plots, and how accuracies are found. Trains nothing."""
