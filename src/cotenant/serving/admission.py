"""From a model to an engine with known costs: cuts placed by time, a typical request measured."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cotenant.scheduling import TenantCosts
from cotenant.serving.costs import Effort, measure_costs
from cotenant.serving.engines.protocol import Call, Engine, Prompt

if TYPE_CHECKING:
    from cotenant.serving.engines.recorded import Recorder


@dataclass(frozen=True, slots=True)
class Admitted:
    """An engine and the costs of its typical request."""

    engine: Engine
    costs: TenantCosts


def admit(
    model: Callable[..., Any],
    sample: Call | Prompt,
    *,
    wait: Callable[[], None],
    largest: int = 1,
    chunk_s: float | None = None,
    effort: Effort | None = None,
    recorder: "Recorder | None" = None,
) -> Admitted:
    """Cut and measure a model on the thread that will run it. A `Prompt` as the sample makes it a decoder.

    ``recorder``: run forward passes as graphs; decoders run as usual, since their caches grow.
    """
    engine = build_engine(model, sample, wait=wait, largest=largest, chunk_s=chunk_s, recorder=recorder)
    try:
        costs = measure_costs(engine, sample, largest=largest, wait=wait, effort=effort or Effort())
    except BaseException:
        engine.close()
        raise
    return Admitted(engine, costs)


def build_engine(
    model: Callable[..., Any],
    sample: Call | Prompt,
    *,
    wait: Callable[[], None],
    largest: int = 1,
    chunk_s: float | None = None,
    recorder: "Recorder | None" = None,
) -> Engine:
    """The engine that suits a model, with its cuts placed by time."""
    from torch import nn

    from cotenant.serving.chunking.balance import CHUNK_S, balanced_cuts
    from cotenant.serving.chunking.greenlets import Cuts
    from cotenant.serving.engines.decoder import DecoderEngine
    from cotenant.serving.engines.forward import ForwardEngine
    from cotenant.serving.engines.recorded import Recordings
    from cotenant.serving.engines.recorded_steps import RecordedSteps
    from cotenant.serving.engines.whole import WholeEngine

    cuts = None
    if isinstance(model, nn.Module):
        found = balanced_cuts(model, _typical(model, sample), wait=wait, chunk_s=chunk_s or CHUNK_S)
        cuts = Cuts(found) if found else None
    if isinstance(sample, Prompt):
        assert isinstance(model, nn.Module)
        steps = RecordedSteps(model, sample, recorder, largest=largest) if recorder else None
        return DecoderEngine(model, cuts, steps)
    recordings = Recordings(model, sample, recorder, largest=largest) if recorder else None
    if cuts is None and largest == 1 and recordings is None:
        return WholeEngine(model)
    return ForwardEngine(model, cuts, batches=largest > 1, recordings=recordings)


def _typical(model: Callable[..., Any], sample: Call | Prompt) -> Callable[[], Any]:
    if isinstance(sample, Call):
        return lambda: model(*sample.args, **sample.kwargs)
    import torch
    from torch import nn

    assert isinstance(model, nn.Module)
    ids = torch.tensor([sample.ids], device=next(model.parameters()).device)
    return lambda: model(input_ids=ids, logits_to_keep=1)
