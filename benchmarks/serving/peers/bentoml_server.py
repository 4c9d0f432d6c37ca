"""BentoML tuned: one service per tenant, at most two requests inside it, the others refused with 429."""

import bentoml
from tenants import load


class _Tenant:
    name = ""

    def __init__(self) -> None:
        self._request = load(self.name)

    @bentoml.api
    def predict(self, data: list[int]) -> list[float]:
        return self._request(data)


_tuned = bentoml.service(workers=1, traffic={"timeout": 10, "max_concurrency": 2})


@_tuned
class Bert(_Tenant):
    """The encoder."""

    name = "bert"


@_tuned
class Conv(_Tenant):
    """The convolutional network."""

    name = "conv"


@_tuned
class Gpt(_Tenant):
    """The decoder."""

    name = "gpt"
