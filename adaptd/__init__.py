"""adaptd keeps image classifiers good in the field: drop unlabelled images, get a proven, versioned model.

`adaptd.open(folder)` opens a project; docs/python.md shows what it can do. Importing this loads nothing of it yet.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adaptd.api import OpenProject, open  # noqa: A004 (as in gzip.open)
    from adaptd.serving.offline import Predictor

__version__ = "0.1.0"
__all__ = ["OpenProject", "Predictor", "__version__", "open"]


def __getattr__(name: str) -> Any:
    """The names above, loaded when they are used: `adaptd status` needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module 'adaptd' has no attribute {name!r}")
    import adaptd.api

    return getattr(adaptd.api, name)
