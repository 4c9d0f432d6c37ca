"""Ray Serve with defaults: one deployment per tenant."""

import signal
import sys
from typing import Any

import ray
from ray import serve
from tenants import NAMES, load


@serve.deployment(ray_actor_options={"num_cpus": 0.1})
class Tenant:
    """One tenant."""

    def __init__(self, name: str) -> None:
        self._request = load(name)

    async def __call__(self, request: Any) -> Any:
        """A request."""
        return {"data": self._request(await request.json())}


if __name__ == "__main__":
    ray.init(
        "local",  # never a cluster that happens to run here
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=200 * 2**20,
        logging_level="error",
    )
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    for name in NAMES:
        serve.run(Tenant.bind(name), name=name, route_prefix=f"/{name}")
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    serve.shutdown()
    ray.shutdown()
