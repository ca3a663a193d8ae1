"""The same ONNX file behind BentoML, as its guide shows it: one worker, adaptive batching. `bentoml serve bentoml_app:App`."""

import bentoml
from net import MAX_BATCH, Net


@bentoml.service(workers=1, traffic={"timeout": 60, "max_concurrency": 512})
class App:
    """Base64 in JSON."""

    def __init__(self) -> None:
        self.net = Net()

    @bentoml.api(batchable=True, max_batch_size=MAX_BATCH, max_latency_ms=60_000)
    def infer(self, images: list[str]) -> list[list[list[float]]]:
        """Probabilities of each text's images."""
        return [rows.tolist() for rows in self.net.run([self.net.decode(text) for text in images])]
