"""A prediction as the text that a run folder keeps, for its report on any machine."""

import json
from dataclasses import asdict, replace

from pydantic import TypeAdapter, ValidationError

from cotenant.prediction.interference.forecast import MixForecast, PredictedMixes

NAME = "prediction.json"
"""The file in the folder of an active run's last round."""


def text_of(prediction: PredictedMixes) -> str:
    """JSON. Latencies under open loads are left out: reports don't show them, and JSON has no infinite ones."""
    mixes = tuple(map(_without_tails, prediction.mixes))
    return json.dumps(asdict(replace(prediction, mixes=mixes)), ensure_ascii=False, allow_nan=False)


def prediction_of(text: str) -> PredictedMixes:
    """The prediction. Raises ValueError with the first problem."""
    try:
        return TypeAdapter(PredictedMixes).validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise ValueError(f"{where}: {problem['msg']}" if where else str(problem["msg"])) from None


def _without_tails(mix: MixForecast) -> MixForecast:
    return replace(mix, tenants=tuple(replace(one, tail=None) for one in mix.tenants))
