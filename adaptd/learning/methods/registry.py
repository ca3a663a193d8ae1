"""Methods by name. To add one: write its file, name it here and in [method] name."""

from collections.abc import Callable

from adaptd.errors import ConfigError
from adaptd.learning.methods.grcl import Grcl
from adaptd.learning.methods.guarded import Guarded
from adaptd.learning.methods.multitask import Multitask
from adaptd.learning.methods.protocol import Method
from adaptd.learning.methods.source_only import SourceOnly
from adaptd.learning.methods.supervised import Supervised

METHODS: dict[str, Callable[[], Method]] = {
    "grcl": lambda: Grcl("grcl"),
    "contrastive+sdc": lambda: Grcl("contrastive+sdc", memory_constraint=False),
    "contrastive+source": lambda: Multitask("contrastive+source", memory=False),
    "contrastive+source+memory": lambda: Multitask("contrastive+source+memory"),
    "guarded": Guarded,
    "self-training": lambda: Guarded("self-training", projected=False),
    "source-only": SourceOnly,
    "supervised": Supervised,
}


def create_method(name: str) -> Method:
    """A method, ready for one episode; its settings come with the plan."""
    if name not in METHODS:
        raise ConfigError(f"there is no method named {name!r}: choose one of {', '.join(METHODS)}")
    return METHODS[name]()
