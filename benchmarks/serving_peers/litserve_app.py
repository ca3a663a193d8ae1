"""The same ONNX file behind LitServe, as its guide shows it: one worker, batches of what waits. `python litserve_app.py`."""

import os
from typing import Any

import litserve
from net import MAX_BATCH, Net


class Api(litserve.LitAPI):
    """Base64 in JSON; LitServe takes JSON or forms."""

    def setup(self, device: str) -> None:  # noqa: ARG002
        """In the worker."""
        self.net = Net()

    def decode_request(self, request) -> Any:  # noqa: ANN001 (LitServe reads the annotation as a schema)
        """JSON → images."""
        return self.net.decode(request["images"])

    def batch(self, inputs: list[Any]) -> Any:
        """The net joins them itself."""
        return inputs

    def predict(self, x: Any) -> Any:
        """Probabilities."""
        return self.net.run(x)

    def unbatch(self, output: Any) -> Any:
        """One for each request."""
        return output

    def encode_response(self, output: Any) -> dict[str, Any]:
        """JSON."""
        return {"probabilities": output.tolist()}


if __name__ == "__main__":
    server = litserve.LitServer(Api(max_batch_size=MAX_BATCH, batch_timeout=0.0), accelerator="cpu", workers_per_device=1)
    port = int(os.environ["PEER_PORT"])
    server.run(host="127.0.0.1", port=port, num_api_servers=1, generate_client_file=False, log_level="warning")
