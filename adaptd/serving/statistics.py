"""What the versions did so far, in the words of Triton's statistics extension. Prometheus's view is in `observe`."""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a model: for how many requests with how many images, and where the nanoseconds went."""

    version: int
    requests: int
    images: int
    queue_ns: int
    input_ns: int
    infer_ns: int
    failed: bool


@dataclass(slots=True)
class _Duration:
    count: int = 0
    ns: int = 0

    def add(self, ns: int, count: int = 1) -> None:
        self.count += count
        self.ns += ns

    def to_json(self) -> dict[str, int]:
        return {"count": self.count, "ns": self.ns}


@dataclass(slots=True)
class _Batch:
    input: _Duration = field(default_factory=_Duration)
    infer: _Duration = field(default_factory=_Duration)


@dataclass(slots=True)
class _Version:
    """Sums over all runs of a version."""

    last_inference: int = 0
    inference_count: int = 0
    success: _Duration = field(default_factory=_Duration)
    fail: _Duration = field(default_factory=_Duration)
    queue: _Duration = field(default_factory=_Duration)
    batches: dict[int, _Batch] = field(default_factory=lambda: defaultdict(_Batch))

    def add(self, run: Run) -> None:
        # What each request of the run had to wait for: its own time in the queue, and the whole run.
        spent = run.queue_ns + run.requests * (run.input_ns + run.infer_ns)
        if run.failed:
            self.fail.add(spent, run.requests)
            return
        self.last_inference = time.time_ns() // 1_000_000
        self.inference_count += run.images
        self.success.add(spent, run.requests)
        self.queue.add(run.queue_ns, run.requests)
        batch = self.batches[run.images]
        batch.input.add(run.input_ns)
        batch.infer.add(run.infer_ns)

    def to_json(self) -> dict[str, Any]:
        nothing = _Duration()
        inputs, infers = _Duration(), _Duration()
        for batch in self.batches.values():
            inputs.add(batch.input.ns, batch.input.count)
            infers.add(batch.infer.ns, batch.infer.count)
        durations = {
            "success": self.success,
            "fail": self.fail,
            "queue": self.queue,
            "compute_input": inputs,
            "compute_infer": infers,
            "compute_output": nothing,
            "cache_hit": nothing,
            "cache_miss": nothing,
        }
        return {
            "last_inference": self.last_inference,
            "inference_count": self.inference_count,
            "execution_count": infers.count,
            "inference_stats": {name: duration.to_json() for name, duration in durations.items()},
            "batch_stats": [
                {
                    "batch_size": size,
                    "compute_input": batch.input.to_json(),
                    "compute_infer": batch.infer.to_json(),
                    "compute_output": nothing.to_json(),
                }
                for size, batch in sorted(self.batches.items())
            ],
        }


class Statistics:
    """Every version that ran since the server started."""

    def __init__(self) -> None:
        self._versions: dict[int, _Version] = defaultdict(_Version)

    def add(self, run: Run) -> None:
        """Count a run."""
        self._versions[run.version].add(run)

    def describe(self, model: str, version: int) -> dict[str, Any]:
        """One version's `model_stats`; zeros where it never ran."""
        found = self._versions.get(version) or _Version()
        return {"name": model, "version": str(version), **found.to_json()}
