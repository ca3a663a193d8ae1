"""What Prometheus sees of `adaptd serve`: the metrics' names, and how they are counted. HTTP is served elsewhere."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

ENDPOINTS = ("infer", "predict", "model", "repository", "health", "metrics", "page", "other")
"""Every value of the label `endpoint`."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_IMAGES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServingMetrics:
    """The metrics of one server, in a registry of their own."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._requests = Counter(
            "adaptd_requests", "Requests answered, by endpoint and HTTP status.", ("endpoint", "code"), registry=self.registry
        )
        durations = Histogram(
            "adaptd_request_duration_seconds",
            "Time from a request's headers to its answer.",
            ("endpoint",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._batch_size = Histogram(
            "adaptd_batch_size", "Images in a run of the model.", buckets=_IMAGES, registry=self.registry
        )
        self._queue = Gauge("adaptd_queue_depth", "Requests waiting for the model.", registry=self.registry)
        self._model = Gauge("adaptd_model_info", "The version that is served.", ("model", "version"), registry=self.registry)
        self._swaps = Counter("adaptd_model_swaps", "Versions that started to be served.", registry=self.registry)
        self._refused = Counter("adaptd_model_refused", "Versions that were damaged or odd.", registry=self.registry)
        # Known series exist from the start, at zero; and looking a label up costs more than counting.
        self._durations = {endpoint: durations.labels(endpoint) for endpoint in ENDPOINTS}
        self._counts = {(endpoint, 200): self._requests.labels(endpoint, "200") for endpoint in ENDPOINTS}

    def answered(self, endpoint: str, code: int, seconds: float) -> None:
        """A request was answered."""
        count = self._counts.get((endpoint, code))
        if count is None:
            count = self._counts[endpoint, code] = self._requests.labels(endpoint, str(code))
        count.inc()
        self._durations[endpoint].observe(seconds)

    def ran(self, images: int) -> None:
        """The model ran."""
        self._batch_size.observe(images)

    def swapped(self, model: str, version: int) -> None:
        """Another version is served."""
        self._model.clear()
        self._model.labels(model, str(version)).set(1)
        self._swaps.inc()

    def refused(self) -> None:
        """A version cannot be served."""
        self._refused.inc()

    def watch_queue(self, depth: Callable[[], float]) -> None:
        """Ask for the queue's depth whenever somebody looks."""
        self._queue.set_function(depth)

    def render(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)
