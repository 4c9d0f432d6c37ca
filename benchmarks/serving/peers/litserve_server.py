"""LitServe with defaults: one worker process per tenant."""

import sys
from typing import Any

import litserve
from tenants import NAMES, load


class Tenant(litserve.LitAPI):
    """One tenant, named by its path."""

    def setup(self, device: str) -> None:  # noqa: ARG002
        """In the worker."""
        self._request = load(self.api_path.strip("/"))

    def decode_request(self, request):  # noqa: ANN001, ANN201 - LitServe makes a query parameter of a hint
        """The numbers."""
        return request["data"]

    def predict(self, x: Any) -> Any:
        """A request."""
        return self._request(x)

    def encode_response(self, output: Any) -> Any:
        """A few numbers."""
        return {"data": output}


if __name__ == "__main__":
    apis = [Tenant(api_path=f"/{name}") for name in NAMES]
    litserve.LitServer(apis, accelerator="cpu", workers_per_device=1).run(
        host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, num_api_servers=1
    )
