"""adaptd keeps image classifiers good in the field: drop unlabelled images, get a proven, versioned model."""

__version__ = "0.1.0"
