"""The fault matrix of docs/reliability.md. `make test` runs each fault a few times, `make faults` as often as the matrix asks.

ADAPTD_FAULTS names the file that takes the figures of a long run, a line of JSON each.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.conftest import drop, pictures, reference, start  # noqa: F401 (fixtures)


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Writes down what a long run measured."""

    def write(**values: object) -> None:
        if file := os.environ.get("ADAPTD_FAULTS"):
            with Path(file).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"test": request.node.nodeid} | values) + "\n")

    return write
