"""Mosec with defaults: one worker process per tenant."""

from typing import Any

from mosec import Runtime, Server, Worker
from tenants import NAMES, load


class Tenant(Worker):
    """One tenant."""

    name = ""

    def __init__(self) -> None:
        super().__init__()
        self._request = load(self.name)

    def forward(self, data: Any) -> Any:
        """A request."""
        return self._request(data)


class Bert(Tenant):
    """The encoder."""

    name = "bert"


class Conv(Tenant):
    """The convolutional network."""

    name = "conv"


class Gpt(Tenant):
    """The decoder."""

    name = "gpt"


class Nothing(Tenant):
    """No model."""

    name = "nothing"


if __name__ == "__main__":
    server = Server()
    workers = [worker for worker in (Bert, Conv, Gpt, Nothing) if worker.name in NAMES]
    server.register_runtime({f"/{worker.name}": [Runtime(worker)] for worker in workers})
    server.run()
