"""Checkpoints on disk."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adaptd.errors import CheckpointError
from adaptd.learning.checkpoint import PARTIAL, State, read_checkpoint, write_checkpoint

STATE = State(
    {"theta": torch.tensor([0.1, -0.0, 1e-40]), "buffer.n": torch.tensor(3), "none": torch.zeros(0, 4)},
    {"step": 7, "seconds": 0.1 + 0.2, "before": {"source": None}},
)


def test_what_is_written_comes_back_bit_for_bit(tmp_path):
    """Tensors, their types and all facts survive, floats to the last bit."""
    again = read_checkpoint(tmp_path / "a", write_checkpoint(tmp_path / "a", STATE))
    assert again.facts == STATE.facts
    assert again.tensors.keys() == STATE.tensors.keys()
    for name, tensor in STATE.tensors.items():
        assert again.tensors[name].dtype == tensor.dtype
        assert again.tensors[name].numpy().tobytes() == tensor.numpy().tobytes()


def test_the_hash_is_over_the_content(tmp_path):
    """Equal states have equal hashes, different ones differ."""
    first, same = (write_checkpoint(tmp_path / name, STATE) for name in "ab")
    other = write_checkpoint(tmp_path / "c", State(STATE.tensors, STATE.facts | {"step": 8}))
    assert first == same != other


def test_checkpoints_are_never_overwritten(tmp_path):
    """Writing to a name that exists is refused, and what stands there stays."""
    digest = write_checkpoint(tmp_path / "a", STATE)
    with pytest.raises(CheckpointError, match="never overwritten"):
        write_checkpoint(tmp_path / "a", State({}, {}))
    assert read_checkpoint(tmp_path / "a", digest).facts == STATE.facts


def test_what_a_crash_left_is_replaced(tmp_path):
    """A half-written directory is not a checkpoint, and the next write clears it away."""
    (tmp_path / f"a{PARTIAL}").mkdir()
    (tmp_path / f"a{PARTIAL}" / "facts.json").write_text("{")
    write_checkpoint(tmp_path / "a", STATE)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_everything_is_synced_before_it_gets_its_name(tmp_path, monkeypatch):
    """Both files and the directory are flushed to disk before the rename, the parent after it."""
    order = []
    sync, rename = os.fsync, type(tmp_path).rename
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append(str(Path(f"/proc/self/fd/{fd}").readlink())), sync(fd)))
    monkeypatch.setattr(type(tmp_path), "rename", lambda a, b: (order.append("rename"), rename(a, b))[1])
    write_checkpoint(tmp_path / "a", STATE)
    partial = str(tmp_path / f"a{PARTIAL}")
    assert order == [f"{partial}/facts.json", f"{partial}/tensors.safetensors", partial, "rename", str(tmp_path)]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_flipped_bit_is_noticed(tmp_path_factory, data):
    """One changed bit, anywhere in either file, and the checkpoint is refused with what to do."""
    folder = tmp_path_factory.mktemp("flip") / "a"
    digest = write_checkpoint(folder, STATE)
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match=r"is damaged.*resume from an older one"):
        read_checkpoint(folder, digest)


def test_a_missing_checkpoint_is_said(tmp_path):
    """A checkpoint that is gone says so, and what to do."""
    with pytest.raises(CheckpointError, match=r"cannot read.*resume from an older one"):
        read_checkpoint(tmp_path / "gone", "0" * 64)
