"""Tensor parallelism in plans: split a model over several GPUs where one can't serve it.

The smallest number of GPUs is chosen for each kind, before mixes are considered. A split model has its GPUs to itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cotenant.planning.mixes.replicas import hopeless

if TYPE_CHECKING:
    from cotenant.planning.mixes.devices import DeviceKind
    from cotenant.planning.mixes.tenants import ServingTenant
    from cotenant.planning.predictors.closed_form import ClosedForm

SPANS = (2, 4, 8)
SPLIT = ("encoder", "decoder", "seq2seq")
"""Families of models whose layers can be split."""


def with_spans(
    tenants: "Sequence[ServingTenant]", kinds: "Sequence[DeviceKind]", predictor: "ClosedForm"
) -> "tuple[ServingTenant, ...]":
    """The tenants, each split over as many GPUs of each kind as it needs there.

    Args:
        tenants: Tenants of the plan.
        kinds: Kinds of GPUs.
        predictor: Knows how far each tenant is split; changed accordingly.
    """
    found = list(tenants)
    for kind in kinds:
        splits = [number for number in range(len(found)) if _may_be_split(number, kind, found, predictor)]
        left = hopeless(found, [kind], predictor, splits)
        for spans in (one for one in SPANS if one <= kind.available):
            for number in left:
                _split(number, kind.name, spans, found, predictor)
            left = hopeless(found, [kind], predictor, left)
        for number in left:
            _split(number, kind.name, 1, found, predictor)
    return tuple(found)


def _split(number: int, kind: str, spans: int, tenants: "list[ServingTenant]", predictor: "ClosedForm") -> None:
    kept = {name: count for name, count in tenants[number].spans.items() if name != kind}
    predictor.simulation.spans.pop((kind, number), None)
    if spans > 1:
        kept[kind] = predictor.simulation.spans[kind, number] = spans
    tenants[number] = replace(tenants[number], spans=kept)


def _may_be_split(number: int, kind: "DeviceKind", tenants: "Sequence[ServingTenant]", predictor: "ClosedForm") -> bool:
    """Language models without constraints on the device they share."""
    tenant = tenants[number]
    bound = tenant.near or any(tenant.name in other.near for other in tenants)
    if tenant.job or tenant.parallel > 1 or tenant.isolation == "mig" or tenant.share or bound:
        return False
    spec = predictor.simulation.spec(kind.name, number, tenant.batches[0])
    return not spec.train and predictor.simulation.gpus[kind.name].family(spec) in SPLIT
