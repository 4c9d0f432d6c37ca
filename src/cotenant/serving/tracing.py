"""A span per request, if OpenTelemetry is installed and configured."""

import time
from typing import Any

from cotenant.serving.measures import Measures
from cotenant.serving.tickets import RequestOutcome

NAME = "cotenant.serve"


def trace(measures: Measures) -> bool:
    """Trace every outcome; False if the package isn't installed.

    Spans go where OpenTelemetry is configured to send them, by its environment variables (`OTEL_...`) or the embedding
    program. Without a provider, none are made.
    """
    try:
        from opentelemetry import trace as api
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return False
    spans = Spans(api, TraceContextTextMapPropagator())
    measures.listen(spans.add)
    return True


class Spans:
    """Turns an outcome into a span, with its start and first output as events."""

    def __init__(self, api: Any, propagator: Any) -> None:
        self._api = api
        self._propagator = propagator
        self._ahead_ns = time.time_ns() - time.monotonic_ns()

    def add(self, outcomes: list[RequestOutcome]) -> None:
        """Add answered requests."""
        if isinstance(self._api.get_tracer_provider(), self._api.ProxyTracerProvider):
            return  # not configured (yet)
        tracer = self._api.get_tracer(NAME)
        for outcome in outcomes:
            self._span(tracer, outcome)

    def _span(self, tracer: Any, outcome: RequestOutcome) -> None:
        parent = self._propagator.extract({"traceparent": outcome.trace}) if outcome.trace else None
        span = tracer.start_span(
            f"serve {outcome.tenant}",
            context=parent,
            kind=self._api.SpanKind.SERVER,
            start_time=self._ns(outcome.arrived),
            attributes={
                "cotenant.tenant": outcome.tenant,
                "cotenant.met": outcome.met,
                "cotenant.why": outcome.why or "served",
                "cotenant.device_s": outcome.device_s,
                "cotenant.predicted_s": outcome.predicted_s,
                **({"gen_ai.usage.output_tokens": outcome.tokens} if outcome.tokens else {}),
            },
        )
        if outcome.began is not None:
            span.add_event("began", timestamp=self._ns(outcome.began))
        if outcome.first is not None:
            span.add_event("first output", timestamp=self._ns(outcome.first))
        if outcome.why not in (None, "cancelled"):
            span.set_status(self._api.StatusCode.ERROR, outcome.why)
        span.end(end_time=self._ns(outcome.done))

    def _ns(self, seconds: float) -> int:
        return round(seconds * 1e9) + self._ahead_ns
