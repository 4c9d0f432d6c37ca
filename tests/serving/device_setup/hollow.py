"""A worker process without torch: takes its seat, and answers every request with the same number at once."""

import sys

from cotenant.scheduling import ChunkCost, TenantCosts
from cotenant.serving.tensors import Parcel, Signature, Tensor, TensorSpec
from cotenant.serving.workers import child
from cotenant.serving.workers.place import seated
from cotenant.serving.workers.wire import costs_out, frame, post_sentinels
from cotenant.serving.workers.work import ChunkProgress

COSTS = TenantCosts((ChunkCost(1e-3, 1e-3, 1e-3),))
SIGNATURE = Signature((TensorSpec("input_ids", "INT64", (-1, -1)),), (TensorSpec("number", "FP32", (1,)),))
COMMAND = (sys.executable, "-m", "tests.serving.device_setup.hollow")


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
        return ChunkProgress(results=dict.fromkeys(chunk.requests, number))


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
