"""The closed form of contention against the event simulation, on random mixes of catalogue tenants, by way to share.

    python -m benchmarks.contention [MIXES] [SEED]

Prints one JSON document: differences of slowdowns as fractions. 50 mixes for each way take about two minutes.
"""

import json
import sys
from dataclasses import dataclass

import numpy as np

from cotenant.devices.simulated.simulated_gpu import SimulatedGpuDevice, open_simulated
from cotenant.errors import SharingUnavailable
from cotenant.prediction.contention.closed_form import Terms, slowdowns
from cotenant.prediction.contention.demand import demands_of
from cotenant.prediction.contention.mix import MixTenant, mean_slowdowns, stretches
from cotenant.prediction.kernels.columns import Floats
from cotenant.prediction.simulated_gpu import Controls
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing
from cotenant.workloads.protocol import WorkloadSpec

WAYS = ("processes", "mps", "mps with shares", "streams", "green", "mig")
GPUS = ("a100-sxm4-40gb", "v100-sxm2-16gb", "h100-sxm5-80gb", "t4", "a10g")
CUT = ("a100-sxm4-40gb", "h100-sxm5-80gb")
"""GPUs with MIG."""
NAMES = ("distilbert", "bert-base", "bert-large", "roberta-large", "deberta-v3-base", "bge-small", "ms-marco-minilm",
         "gpt2", "gpt2-medium", "distilgpt2", "llama-3.2-1b", "resnet18", "resnet50", "resnet152", "mobilenet-v2",
         "efficientnet-b0", "vgg16", "densenet121", "inception-v3", "vit-b-16", "vit-l-32", "dlrm",
         "pointnet")  # fmt: skip
DECODED = ("gpt2", "distilgpt2", "llama-3.2-1b")
NOT_TRAINED = ("llama-3.2-1b", "dlrm", "pointnet")
SHARES = (10.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the closed form is from the event simulation."""

    median: float
    nine_in_ten: float
    mean: float
    tenants: int


def agreement(way: str, *, mixes: int, seed: int) -> Agreement:
    """Differences of the slowdowns of all tenants of some random mixes of 2 to 6."""
    random = np.random.default_rng([seed, WAYS.index(way)])
    gpus: dict[str, SimulatedGpuDevice] = {}
    found: list[Floats] = []
    while len(found) < mixes:
        name = str(random.choice(CUT if way == "mig" else GPUS))
        gpu = gpus.setdefault(name, open_simulated(f"sim:{name}"))
        specs = [_spec(random) for _ in range(int(random.integers(2, 7)))]
        shares = tuple(float(one) for one in random.choice(SHARES, len(specs))) if way == "mps with shares" else ()
        tenants = [
            Tenant(name=f"t{place}", of=f"t{place}", workload=spec, load=Load(kind="closed"))
            for place, spec in enumerate(specs)
        ]
        try:
            layout = gpu.arrange(Sharing(mode=way.partition(" ")[0], shares=shares), tenants).layout
        except SharingUnavailable:  # too many tenants for this GPU's parts
            continue
        traces = [
            gpu.trace(gpu.request(spec), part, Controls()) for spec, part in zip(specs, layout.parts, strict=True)
        ]
        mix = [MixTenant(trace, part) for trace, part in zip(traces, layout.parts, strict=True)]
        simulated = mean_slowdowns(stretches(mix, slicing=layout.slicing, shared_host=layout.shared_host))
        terms = Terms(
            layout.slicing,
            layout.shared_host,
            sm_domain=np.array([[part.sm_domain for part in layout.parts]]),
            dram_domain=np.array([[part.dram_domain for part in layout.parts]]),
        )
        closed = slowdowns(demands_of(traces), np.arange(len(specs))[None], terms)[0]
        found.append(np.expm1(np.abs(np.log(closed / np.array(simulated)))))
    every = np.concatenate(found)
    return Agreement(float(np.median(every)), float(np.quantile(every, 0.9)), float(every.mean()), every.size)


def _spec(random: np.random.Generator) -> WorkloadSpec:
    """A request of a catalogue model: mostly inference, some decoding and training."""
    name, batch, kind = str(random.choice(NAMES)), int(random.choice([1, 2, 4, 8, 16, 32])), random.random()
    if name in DECODED and kind < 0.4:
        return WorkloadSpec(name=name, mode="decode", batch=batch, seq=128)
    return WorkloadSpec(name=name, batch=batch, train=kind > 0.85 and name not in NOT_TRAINED)


def main(mixes: int = 50, seed: int = 2) -> None:
    """Every way to share."""
    rows = {way: agreement(way, mixes=mixes, seed=seed) for way in WAYS}
    table = {
        way: {"median": round(one.median, 3), "nine_in_ten_within": round(one.nine_in_ten, 3),
              "mean": round(one.mean, 3), "tenants": one.tenants}
        for way, one in rows.items()
    }  # fmt: skip
    print(json.dumps({"mixes": mixes, "seed": seed, "differences": table}, indent=2))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
