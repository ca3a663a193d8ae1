"""Checkpoints on disk: a directory with tensors and facts, written once, whole, and verified when read.

What is in them is decided by the loop; which one counts, by the store's row with its hash.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from adaptd.errors import CheckpointError
from adaptd.files import publish_folder, remove

TENSORS, FACTS = "tensors.safetensors", "facts.json"
PARTIAL = ".partial"
"""Suffix of a directory that is being written. After a crash it may be deleted; writing again does so."""


@dataclass(frozen=True, slots=True)
class State:
    """Everything a running episode needs to go on: tensors by name, and facts that JSON can hold."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def write_checkpoint(directory: Path, state: State) -> str:
    """Write a new directory atomically; the SHA-256 of its content.

    Raises:
        CheckpointError: there is one of that name already; checkpoints are never overwritten.
    """
    if directory.exists():
        raise CheckpointError(f"{directory} exists, and checkpoints are never overwritten: choose another name")
    partial = directory.with_name(directory.name + PARTIAL)
    remove(partial)
    partial.mkdir(parents=True)
    content = {
        FACTS: json.dumps(state.facts, sort_keys=True).encode(),
        TENSORS: save({name: tensor.detach().contiguous() for name, tensor in state.tensors.items()}),
    }
    for name, data in content.items():
        (partial / name).write_bytes(data)
    publish_folder(partial, directory)
    return _digest(content[FACTS], content[TENSORS])


def read_checkpoint(directory: Path, sha256: str) -> State:
    """Read a checkpoint and verify that it is the one that was written.

    Raises:
        CheckpointError: it is missing, damaged, or another one.
    """
    try:
        facts, tensors = (directory / FACTS).read_bytes(), (directory / TENSORS).read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint {directory} ({error}): resume from an older one") from error
    found = _digest(facts, tensors)
    if found != sha256:
        raise CheckpointError(
            f"the checkpoint {directory} is damaged: its SHA-256 is {found[:12]}…, not {sha256[:12]}…; resume from an older one"
        )
    try:
        return State(load(tensors), json.loads(facts))
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(f"the checkpoint {directory} cannot be understood ({error}): resume from an older one") from error


def _digest(facts: bytes, tensors: bytes) -> str:
    # The length keeps bytes from moving between the files unnoticed.
    digest = hashlib.sha256(len(facts).to_bytes(8, "big"))
    digest.update(facts)
    digest.update(tensors)
    return digest.hexdigest()
