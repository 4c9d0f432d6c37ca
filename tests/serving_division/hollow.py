"""A worker process without torch: takes its seat, and answers every request with the same number at once."""

import sys

from cotenant.scheduling import ChunkCost, TenantCosts
from cotenant.serving.engines.protocol import Progress
from cotenant.serving.models.signature import Signature, TensorSpec
from cotenant.serving.processes import child
from cotenant.serving.processes.frames import frame
from cotenant.serving.processes.parcel import Parcel, Tensor
from cotenant.serving.processes.sentinels import post_sentinels
from cotenant.serving.processes.written import costs_out
from cotenant.serving.worker.place import seated

COSTS = TenantCosts((ChunkCost(1e-3, 1e-3, 1e-3),))
SIGNATURE = Signature((TensorSpec("input_ids", "INT64", (-1, -1)),), (TensorSpec("number", "FP32", (1,)),))
COMMAND = (sys.executable, "-m", "tests.serving_division.hollow")


class Codec:
    """Inputs are not looked at."""

    tensors_of = staticmethod(lambda _: {})
    parcel_of = staticmethod(lambda parcel: parcel)


class Bench:
    """Every request ends with its first chunk."""

    def take(self, request, tenant, work):
        pass

    def free(self, requests):
        pass

    def run(self, chunk, tell=None):
        number = Parcel((Tensor("number", "FP32", (1,), bytes(4)),))
        return Progress(results=dict.fromkeys(chunk.requests, number))


class Hollow(child.Child):
    """The protocol of a worker around nothing."""

    def live(self):
        post_sentinels(self._connection.fileno(), self._held)
        order = self._order()
        self._codec, self._bench = Codec, Bench()
        seat = seated(order.device, order.seat)._seat
        with seat.occupy():
            for tenant in order.tenants:
                self._send(frame(["admitted", tenant.name, costs_out(COSTS), SIGNATURE.to_json()]))
            self._send(frame(["ready", dict(seat.observed())]))
            while True:
                if self._next is None:
                    self._receive(wait=True)
                else:
                    self._carry_out(self._next)


if __name__ == "__main__":
    child.Child = Hollow
    child.main()
