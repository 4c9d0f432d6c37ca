"""Sharing: mixes of language models in turns, copies under MPS, MIG slices, pairs of trainings, tails beside training.

A data set with solo times is simulated twice: without any measurements, and with `solo_ms`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.prediction.trust import Class, Phase
from validation.product import Answers, Served, ask, ask_on_share, window_s
from validation.reading import count, number, positive, read_json, read_table
from validation.users.row import UserRow
from validation.users.solo import alone_ms, features

_LLMS = "sharing/a100_timeslicing_llms.csv"
_PARVA = "sharing/a100_mig_mps_parvagpu.csv"
_NOS = "sharing/a100_mechanisms_nos.csv"
_GAVEL = "sharing/v100_p100_pairs_gavel.json"
_GAVEL_GPUS = {"v100": "v100-sxm2-16gb", "p100": "p100-pcie-16gb"}
TAILS_FILE = "sharing/a100_tails_bert_beside_training_tally.csv"
_THROUGHPUT = "throughput_per_proc_or_reported"
_CALLED = {"bert": "bert-large", "mobilenetv2": "torchvision:mobilenet_v2", "inceptionv3": "inception-v3"}
_SLICES = {1: "1g.10gb", 2: "2g.20gb", 3: "3g.40gb", 4: "4g.40gb"}
_WHOLE = 7
_PARVA_GPU = Path(__file__).with_name("parvagpu.yaml")
_STATED: Mapping[str, Mapping[str, Any]] = {
    "bert": {"seq": 128, "attention": "unfused"},
    "inceptionv3": {"params": {"image": 224}},
}
"""What models' names don't say, from the project's script: images are of 224 pixels, BERT's attention is of its own
code. All run with TF32: on one MIG slice, BERT does 15 TFLOP/s, six times the slice's float32 peak."""
FITTED_PARVA = frozenset({"resnet50", "vgg16", "densenet121", "mobilenetv2"})
_TRAINS = {"train": True, "dtype": "float32", "attention": "unfused"}
TRAINED: Mapping[str, Mapping[str, Any]] = {
    "resnet50_train_128": {"workload": "resnet50", "batch": 128, **_TRAINS},
    "pointnet_train_128": {"workload": "pointnet", "batch": 128, "params": {"image": 50}, **_TRAINS},
    "pegasus-x-base_train_4": {"workload": "pegasus-x-base", "batch": 4, **_TRAINS},
    "gpt2-large_train_1": {"workload": "gpt2-large", "batch": 1, "seq": 512, **_TRAINS},
    "bert_train_32": {"workload": "bert-base", "batch": 32, "seq": 384, **_TRAINS},
}
"""What the project's scripts train: in float32 (a job in mixed precision has it in its name), PointNet on 2500 points,
GPT-2 on blocks of 512 tokens, BERT-base on 384. Pegasus' length isn't given. Whisper with a batch of 16 doesn't fit the
simulated card."""
_WAYS = {"processes": ("processes", 0), "mps": ("mps", 0), "mps, bert with high priority": ("mps", 1)}
_TAIL = ("p90", "p95", "p99")


@dataclass(frozen=True, slots=True)
class _Beside:
    """A mean time beside others and alone, milliseconds, measured and simulated: rows of both are the same case's."""

    data_set: str
    case: str
    group: str
    kind: Class
    measured_ms: float
    simulated_ms: float
    fitted: bool = False
    features: tuple[float, ...] = ()
    gpu: str = "a100-sxm4-40gb"

    def rows(self, *, measured_alone_ms: float, simulated_alone_ms: float) -> Iterator[UserRow]:
        """The slowdown, and the time itself."""
        yield UserRow(
            self.data_set, self.case, self.group, self.kind, "slowdown", self.measured_ms / measured_alone_ms,
            self.simulated_ms / simulated_alone_ms, self.fitted, self.features, self.gpu,
        )  # fmt: skip
        yield UserRow(
            self.data_set, self.case, self.group, self.kind, "time", self.measured_ms, self.simulated_ms, self.fitted,
            gpu=self.gpu,
        )  # fmt: skip


def llms(data: Path) -> Iterator[UserRow]:
    """Mixes of five language models, forward passes, in turns; and their solos."""
    lines = read_table(data, _LLMS, ("mix", "tenants", "tenant", "solo_ms", "slowdown"))
    solos = {line["tenant"]: positive(line["solo_ms"], _LLMS, "solo_ms") for line in lines}
    mixes: dict[str, dict[str, float]] = defaultdict(dict)
    members = {line["mix"]: line["tenants"].split() for line in lines}
    for line in lines:
        mixes[line["mix"]][line["tenant"]] = positive(line["slowdown"], _LLMS, "slowdown")
    seen: dict[str, float] = {}
    for calibrated in (False, True):
        for mix, measured in mixes.items():
            if mix == "alone":
                continue
            names = list(measured)
            tenants = {name: {"workload": name, "batch": 8, "seq": 128, "dtype": "float16"} for name in names}
            given = [{"workload": name, "ms": solos[name]} for name in names]
            study = {
                "device": "sim:a100-sxm4-40gb",
                "tenants": tenants,
                "mixes": [{"groups": {"mix": members[mix]}}],
                "sharing": ["processes"],
                "window": "1.2s",
                "settings": [{"solo_ms": given} if calibrated else {}],
            }
            answers = ask(study)
            for name in names:
                kind = Class("ampere", "eager", _phase(name), "processes", calibrated=calibrated)
                seen.setdefault(name, answers.solo[name].mean_ms)
                beside = _Beside(
                    "timeslicing_llms", f"{name} in {mix}", name, kind, measured[name] * solos[name],
                    _mean_ms(answers, name), fitted=mix in ("10_distilgpt2", "all_models"),
                    features=(float(len(members[mix])),),
                )  # fmt: skip
                yield from beside.rows(measured_alone_ms=solos[name], simulated_alone_ms=answers.solo[name].mean_ms)
    for name, time in seen.items():
        kind = Class("ampere", "eager", _phase(name), "alone", calibrated=False)
        tenant = {"workload": name, "batch": 8, "seq": 128, "dtype": "float16"}
        yield UserRow(
            "timeslicing_llms", f"{name} alone", name, kind, "time", solos[name], time, fitted=True,
            features=features("a100-sxm4-40gb", tenant), gpu="a100-sxm4-40gb",
        )  # fmt: skip


def parvagpu(data: Path) -> Iterator[UserRow]:
    """2 to 5 copies under MPS on a full A100, MIG slices relative to the full GPU, and solos."""
    table: dict[tuple[str, int, int, int], float] = {}
    for line in read_table(data, _PARVA, ("model", "mig_gpcs", "batch", "n_procs_mps", _THROUGHPUT)):
        value = number(line[_THROUGHPUT] or "0", _PARVA, _THROUGHPUT)
        gpcs, batch, copies = (count(line[name], _PARVA, name) for name in ("mig_gpcs", "batch", "n_procs_mps"))
        if value > 0:
            table[line["model"], gpcs, batch, copies] = batch / value * 1e3
    for calibrated in (False, True):
        for (model, gpcs, batch, copies), time in sorted(table.items()):
            alone = table.get((model, _WHOLE, batch, 1))
            if alone is None or (gpcs != _WHOLE and copies > 1):
                continue
            phase: Phase = "encoder" if model == "bert" else "vision"
            study = _parva_study(table, model, batch, expected_ms=time * 1.3, calibrated=calibrated)
            fitted = model in FITTED_PARVA
            case = f"{model}, batch {batch}"
            if gpcs == _WHOLE and copies > 1:
                study |= {"mixes": [{"copies": {"tenant": [copies]}}], "sharing": ["mps"]}
                answers = ask(study)
                kind = Class("ampere", "eager", phase, "mps", calibrated=calibrated)
                beside = _Beside(
                    "parvagpu", f"{case}, {copies} processes", model, kind, time, _mean_ms(answers, "tenant"), fitted,
                    (float(copies),), gpu="a100-sxm4-80gb",
                )  # fmt: skip
                yield from beside.rows(measured_alone_ms=alone, simulated_alone_ms=answers.solo["tenant"].mean_ms)
            elif gpcs != _WHOLE:
                on_slice = ask_on_share(study, _SLICES[gpcs], "mig").mean_ms
                whole = ask(study).solo["tenant"].mean_ms
                kind = Class("ampere", "eager", phase, "mig", calibrated=calibrated)
                beside = _Beside(
                    "parvagpu", f"{case}, {gpcs}g", model, kind, time, on_slice, fitted, (_WHOLE / gpcs,),
                    gpu="a100-sxm4-80gb",
                )  # fmt: skip
                yield from beside.rows(measured_alone_ms=alone, simulated_alone_ms=whole)
            elif not calibrated:
                kind = Class("ampere", "eager", phase, "alone", calibrated=False)
                yield UserRow(
                    "parvagpu", case, model, kind, "time", time, ask(study).solo["tenant"].mean_ms, fitted,
                    features(str(_PARVA_GPU), study["tenants"]["tenant"]), gpu="a100-sxm4-80gb",
                )  # fmt: skip


def nos(data: Path) -> Iterator[UserRow]:
    """YOLOS-small by 3, 5 and 7 pods, in turns and under MPS."""
    times: dict[str, dict[int, float]] = defaultdict(dict)
    for line in read_table(data, _NOS, ("mechanism", "n_pods", "avg_inference_s")):
        pods = count(line["n_pods"], _NOS, "n_pods")
        times[line["mechanism"]][pods] = positive(line["avg_inference_s"], _NOS, "avg_inference_s") * 1e3
    tenant = {"workload": "yolos-small", "dtype": "float32"}
    yield _alone("nos", "YOLOS-small", "a100-pcie-80gb", tenant, times["MPS"][1])
    for calibrated in (False, True):
        for way, mode in (("time-slicing", "processes"), ("MPS", "mps")):
            alone = times[way][1]
            for pods, time in times[way].items():
                if pods == 1:
                    continue
                answers = ask({
                    "device": "sim:a100-pcie-80gb",
                    "tenants": {"tenant": tenant},
                    "mixes": [{"copies": {"tenant": [pods]}}],
                    "sharing": [mode],
                    "window": "5s",
                    "settings": [{"solo_ms": {"yolos-small": alone}} if calibrated else {}],
                })  # fmt: skip
                kind = Class("ampere", "eager", "vision", mode, calibrated=calibrated)
                beside = _Beside(
                    "nos", f"YOLOS-small, {pods} pods", "yolos-small", kind, time, _mean_ms(answers, "tenant"),
                    fitted=way == "time-slicing" and pods == 3, features=(float(pods),), gpu="a100-pcie-80gb",
                )  # fmt: skip
                yield from beside.rows(measured_alone_ms=alone, simulated_alone_ms=answers.solo["tenant"].mean_ms)


def gavel(data: Path) -> Iterator[UserRow]:
    """ResNet trainings, the only such jobs in the catalogue, alone on a V100 and a P100, and in pairs on the V100."""
    tables: Mapping[str, Mapping[str, Mapping[str, Any]]] = read_json(data, _GAVEL)
    for name, gpu in _GAVEL_GPUS.items():
        yield from _gavel_on(gpu, tables.get(name, {}))


def _gavel_on(gpu: str, jobs: Mapping[str, Mapping[str, Any]]) -> Iterator[UserRow]:
    known = {name: job for name in sorted(jobs) if (job := gavel_job(name)) is not None}
    solos = {name: 1e3 / jobs[name]["null"] for name in known}
    family = find_gpu(gpu).architecture
    alone = Class(family, "eager", "training", "alone", calibrated=False)
    for name, job in known.items():
        yield UserRow(
            "gavel", f"{name} alone, {gpu}", job["workload"], alone, "time",
            solos[name], alone_ms(gpu, job, solos[name]), features=features(gpu, job), gpu=gpu,
        )  # fmt: skip
    if family == "pascal":
        return  # simulated, its MPS can't run kernels of several processes at once
    pairs = [(first, second) for first in known for second in known if second >= first]
    for calibrated, (first, second) in product((False, True), pairs):
        speeds = jobs[first].get(second) or [0.0, 0.0]
        if min(speeds) <= 0:
            continue
        given = [
            {"workload": job["workload"], "batch": job["batch"], "ms": solos[name], "train": True}
            for name, job in ((first, known[first]), (second, known[second]))
        ]
        answers = ask({
            "device": f"sim:{gpu}",
            "tenants": {"a": known[first], "b": known[second]},
            "mixes": [{"groups": {"pair": ["a", "b"]}}],
            "sharing": ["mps"],
            "window": f"{window_s([solos[first] * 2, solos[second] * 2], requests=4):.4f}s",
            "settings": [{"solo_ms": given} if calibrated else {}],
        })  # fmt: skip
        kind = Class(family, "eager", "training", "mps", calibrated=calibrated)
        shared = answers.shared.get(("pair", "mps"), {})
        for tenant, name, other, speed in (("a", first, second, speeds[0]), ("b", second, first, speeds[1])):
            if tenant in shared and shared[tenant].latency_ns.size:
                beside = _Beside(
                    "gavel", f"{name} beside {other}, {gpu}", known[name]["workload"], kind, 1e3 / speed,
                    shared[tenant].mean_ms, features=(2.0,), gpu=gpu,
                )  # fmt: skip
                yield from beside.rows(measured_alone_ms=solos[name], simulated_alone_ms=answers.solo[tenant].mean_ms)


def tails(data: Path) -> Iterator[UserRow]:
    """Service times of BERT, open loop at half load, beside trainings."""
    columns = ("training_job", "sharing", "bert_mean_ms_alone", "bert_mean_ms")
    quantiles = [f"bert_{name}_ms{alone}" for name in _TAIL for alone in ("_alone", "")]
    lines = read_table(data, TAILS_FILE, (*columns, *quantiles, "training_speed_vs_alone"))
    bert = {"workload": "bert-large", "seq": 128, "dtype": "float16", "software": "onnxruntime"}
    given_ms = positive(lines[0]["bert_mean_ms_alone"], TAILS_FILE, columns[2])
    yield _alone("tails", "BERT", "a100-sxm4-40gb", bert, given_ms, fitted=True)
    for line in lines:
        job, way = line["training_job"], line["sharing"]
        if job not in TRAINED:
            continue
        mode, priority = _WAYS[way]
        for calibrated in (False, True):
            solo_ms = positive(line["bert_mean_ms_alone"], TAILS_FILE, columns[2])
            given = [{"workload": "bert-large", "ms": solo_ms, "software": "onnxruntime"}]
            answers = ask({
                "device": "sim:a100-sxm4-40gb",
                "tenants": {
                    "bert": {**bert, "load": "poisson(50%)", "priority": priority},
                    "training": {**TRAINED[job], "load": "closed(1)"},
                },
                "mixes": [{"groups": {"mix": ["bert", "training"]}}],
                "sharing": [mode],
                "window": "8s",
                "settings": [{"solo_ms": given} if calibrated else {}],
            })  # fmt: skip
            shared, alone = answers.shared["mix", mode], answers.solo["bert"]
            sharing = "mps with priority" if priority else mode
            kind = Class("ampere", "onnxruntime", "encoder", sharing, calibrated=calibrated)
            trained = Class("ampere", "eager", "training", sharing, calibrated=calibrated)
            mean_ms = positive(line["bert_mean_ms"], TAILS_FILE, columns[3])
            beside = _Beside(
                "tails", f"BERT beside {job}, {way}, mean", "bert-large", kind, mean_ms,
                float(shared["bert"].service_ns.mean()) / 1e6,
            )  # fmt: skip
            yield from beside.rows(measured_alone_ms=solo_ms, simulated_alone_ms=float(alone.service_ns.mean()) / 1e6)
            for name in _TAIL:
                share = int(name[1:]) / 100
                measured = positive(line[f"bert_{name}_ms"], TAILS_FILE, f"bert_{name}_ms")
                case, simulated = f"BERT beside {job}, {way}, {name}", shared["bert"].service_ms(share)
                yield UserRow(
                    "tails", case, "bert-large", kind, "tail", measured / float(line[f"bert_{name}_ms_alone"]),
                    simulated / alone.service_ms(share), gpu="a100-sxm4-40gb",
                )  # fmt: skip
            yield UserRow(
                "tails", f"{job} beside BERT, {way}", TRAINED[job]["workload"], trained, "slowdown",
                1 / positive(line["training_speed_vs_alone"], TAILS_FILE, "training_speed_vs_alone"),
                shared["training"].mean_ms / answers.solo["training"].mean_ms, gpu="a100-sxm4-40gb",
            )  # fmt: skip


def _alone(
    data_set: str, case: str, gpu: str, tenant: Mapping[str, Any], time: float, *, fitted: bool = False
) -> UserRow:
    """A tenant's time alone in a data set about sharing."""
    software, group = str(tenant.get("software", "eager")), str(tenant["workload"])
    phase: Phase = "encoder" if "bert" in group else "vision"
    kind = Class("ampere", software, phase, "alone", calibrated=False)
    simulated = alone_ms(gpu, tenant, time)
    return UserRow(
        data_set, f"{case} alone", group, kind, "time", time, simulated, fitted, features=features(gpu, tenant), gpu=gpu
    )


def _phase(name: str) -> Phase:
    return "encoder" if "bert" in name else "prefill"


def _mean_ms(answers: Answers, of: str) -> float:
    (shared,) = answers.shared.values()
    copies: Sequence[Served] = [served for name, served in shared.items() if name.partition("#")[0] == of]
    return float(np.mean([copy.mean_ms for copy in copies]))


def _parva_study(
    table: Mapping[tuple[str, int, int, int], float], model: str, batch: int, *, expected_ms: float, calibrated: bool
) -> dict[str, Any]:
    workload = _CALLED.get(model, model)
    stated = _STATED.get(model, {})
    sized = {key: value for key, value in stated.items() if key == "seq"}
    given = [
        {"workload": workload, "batch": items, "ms": time, **sized}
        for (name, gpcs, items, copies), time in table.items()
        if name == model and gpcs == _WHOLE and copies == 1
    ]
    return {
        "device": f"sim:{_PARVA_GPU}",
        "tenants": {
            "tenant": {"workload": workload, "batch": batch, "dtype": "float32", "tf32": True, **stated},
        },
        "mixes": ["solo"],
        "window": f"{window_s([expected_ms], requests=7):.6f}s",
        "lead": f"{expected_ms * 2e-3:.6f}s",
        "settings": [{"solo_ms": given} if calibrated else {}],
    }


def gavel_job(name: str) -> Mapping[str, Any] | None:
    """The tenant that stands for a job of Gavel's; None if the catalogue has none."""
    family, _, rest = name.partition(" (batch size ")
    workload = {"ResNet-18": "resnet18", "ResNet-50": "resnet50"}.get(family)
    if workload is None:
        return None
    # CIFAR's ResNet-18 starts without stride and pooling: from its first layer on, it equals torchvision's for 128
    # pixels.
    image = {"params": {"image": 128}} if family == "ResNet-18" else {}
    return {"workload": workload, "batch": int(rest.rstrip(")")), "train": True, "dtype": "float32", **image}
