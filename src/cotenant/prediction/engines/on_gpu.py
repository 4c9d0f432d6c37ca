"""Engines on a GPU: which workloads they serve, the memory they need, and the tenant they become."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cotenant.errors import DeviceError, DoesNotFit
from cotenant.prediction.calibration.engine_fit import LEAST_PROBES, EngineFit, fit_engine, limits_of
from cotenant.prediction.calibration.engine_law import kernel_law
from cotenant.prediction.calibration.solo import SoloTime
from cotenant.prediction.contention.layout import Part, whole_of
from cotenant.prediction.engines.alone import step_ns
from cotenant.prediction.engines.continuous_batching import EngineSettings
from cotenant.prediction.engines.engine_profile import ENGINES, EngineProfile
from cotenant.prediction.engines.language_model import LanguageModel, language_model
from cotenant.prediction.engines.layer_tables import EnginePart
from cotenant.prediction.engines.step import StepShape, StepTimes, prompt_step
from cotenant.prediction.engines.step_traces import StepTraces
from cotenant.prediction.engines.tails import EngineQueue
from cotenant.prediction.engines.tenant import EngineLoad, EngineTenant
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.kernels.layers import HALF_BYTES
from cotenant.workloads.protocol import DEFAULT_TOKENS, WorkloadSpec, in_steps

_DEFAULT_PROMPT = 128
_HALVES = ("float16", "bfloat16")
_LEAST, _LEAST_BFLOAT16 = (7, 0), (8, 0)
"""Compute capability that vLLM needs, and for bfloat16 (its errors say so: vllm#1284, vllm#946)."""


class Engines:
    """Engines on a GPU; times of steps are kept."""

    def __init__(self, gpu: GpuSpec, dimensions: Callable[[str], Mapping[str, Any] | None]) -> None:
        self._gpu, self._dimensions = gpu, dimensions
        self._models: dict[str, LanguageModel | None] = {}
        self._times: dict[tuple[str, Part, float, float], StepTimes] = {}

    def serve(self, spec: WorkloadSpec) -> bool:
        """Whether this is served by an engine: generation, one sequence per request."""
        return in_steps(spec) and self._model(spec) is not None

    def least_bytes(self, spec: WorkloadSpec) -> int:
        """Weights, activations of a step and the cache of a request.

        Raises:
            DoesNotFit: The engine doesn't run on such a GPU, or the request is longer than the model's context.
        """
        model, profile, part = self._known(spec), _profile(spec), self._part(spec)
        needed = engine_bytes(model, part, profile, most_tokens=self._limits(spec)[1])
        return int(needed + self.sequence_bytes(spec))

    def sequence_bytes(self, spec: WorkloadSpec) -> float:
        """Cache of a request.

        Raises:
            DoesNotFit: The request is longer than the model's context.
        """
        model, profile, (prompt, output) = self._known(spec), _profile(spec), _lengths(spec)
        if model.max_context is not None and prompt + output > model.max_context:
            raise DoesNotFit(
                f"a request of {prompt + output} tokens is longer than the context of {spec.name}, "
                f"{model.max_context} tokens",
                hint="lower seq or tokens, or choose a model with a longer context",
            )
        blocks = -(-(prompt + output) // profile.block_tokens)
        return blocks * profile.block_tokens * token_bytes(model, self._part(spec))

    def fit(self, spec: WorkloadSpec, probes: Sequence[SoloTime]) -> EngineFit:
        """Host and device of an engine from what its clients saw on the whole GPU.

        Raises:
            DeviceError: There are too few probes, or no such engine could be that fast.
        """
        profile = _profile(spec)
        sequences, tokens = self._usual_limits(profile)
        if len(probes) < LEAST_PROBES:
            raise DeviceError(
                f"{probes[0].row}: {len(probes)} probes of {spec.name} can't calibrate an engine",
                hint=f"give at least {LEAST_PROBES}, at several lengths of prompts and numbers of requests in flight",
            )
        clock = self._gpu.clocks_mhz.under_load
        times = self._steps(spec, whole_of(self._gpu), clock, replace(profile, attention=1.0))
        settings = EngineSettings(sequences, tokens, block_tokens=profile.block_tokens)
        return fit_engine(kernel_law(times), probes, limits_of(probes, settings))

    def request_s(
        self, spec: WorkloadSpec, part: Part, in_flight: int, *, calibrated: EngineProfile | None = None
    ) -> float:
        """Time of a request alone with this many in flight, in closed form: prompts and tokens take turns."""
        profile = calibrated or _profile(spec)
        times = self._steps(spec, part, self._gpu.clocks_mhz.under_load, profile)
        sequences, tokens = self._limits(spec)
        prompt, output = _lengths(spec)
        memory = part.memory_bytes * profile.memory_share
        blocks = cache_blocks(times.model, times.part, profile, most_tokens=tokens, memory_bytes=memory)
        held = blocks * profile.block_tokens / (prompt + output)
        running = max(1, int(min(in_flight, sequences, held)))
        decode_ns, _ = step_ns(profile, times, StepShape(running, running * (prompt + output / 2)))
        prompt_ns, _ = step_ns(profile, times, prompt_step(prompt, spec.prefix_hits))
        return (decode_ns * output + prompt_ns * running) * max(1.0, in_flight / running) / 1e9

    def tenant(
        self,
        spec: WorkloadSpec,
        part: Part,
        load: EngineLoad,
        *,
        clock_mhz: float,
        slower: float,
        calibrated: EngineProfile | None = None,
    ) -> EngineTenant:
        """The engine as a tenant on a part of the GPU."""
        profile = calibrated or _profile(spec)
        prompt, output = _lengths(spec)
        return EngineTenant(
            self.traces(spec, part, profile, clock_mhz=clock_mhz, slower=slower),
            profile,
            self._settings(spec, part, load.memory_bytes),
            load,
            prompt=prompt,
            output=output,
        )

    def queue(
        self,
        spec: WorkloadSpec,
        part: Part,
        *,
        clock_mhz: float,
        slower: float,
        calibrated: EngineProfile | None = None,
    ) -> EngineQueue:
        """The engine alone on a part of the GPU; its cache takes the memory that engines usually do."""
        profile = calibrated or _profile(spec)
        times = self._steps(spec, part, clock_mhz, profile)
        prompt, output = _lengths(spec)
        settings = self._settings(spec, part, part.memory_bytes * profile.memory_share)
        launching_ns = 0.0 if times.part.graphs else times.kernels * profile.eager_us * 1e3
        table = times.tabulated(settings.max_sequences, prompt + output)
        return EngineQueue(table, profile, settings, prompt, output, slower * profile.device, launching_ns)

    def traces(
        self, spec: WorkloadSpec, part: Part, profile: EngineProfile | None = None, *, clock_mhz: float, slower: float
    ) -> StepTraces:
        """Kernels of steps on a part of the GPU."""
        engine = profile or _profile(spec)
        times = self._steps(spec, part, clock_mhz, engine)
        return StepTraces(times, domain_sms=part.domain_sms, slower=slower * engine.device)

    def _settings(self, spec: WorkloadSpec, part: Part, memory_bytes: float) -> EngineSettings:
        self.sequence_bytes(spec)  # refuses requests longer than the context
        profile, (sequences, tokens) = _profile(spec), self._limits(spec)
        blocks = cache_blocks(
            self._known(spec), self._part(spec, part), profile, most_tokens=tokens, memory_bytes=memory_bytes
        )
        settings = EngineSettings(sequences, tokens, blocks, profile.block_tokens, spec.prefix_hits)
        settings.check(*_lengths(spec))
        return settings

    def _limits(self, spec: WorkloadSpec) -> tuple[int, int]:
        """Sequences and tokens of a step."""
        sequences, tokens = self._usual_limits(_profile(spec))
        return spec.at_once or sequences, tokens

    def _usual_limits(self, profile: EngineProfile) -> tuple[int, int]:
        return profile.limits(self._gpu.name, self._gpu.memory_gib)

    def _steps(self, spec: WorkloadSpec, part: Part, clock_mhz: float, profile: EngineProfile) -> StepTimes:
        step = self._gpu.clocks_mhz.step
        clock = max(round(clock_mhz / step), 1) * step
        key = (
            spec.model_copy(update={"at_once": None, "prefix_hits": 0.0}).model_dump_json(),
            part,
            clock,
            profile.attention,
        )
        if key not in self._times:
            self._times[key] = StepTimes(
                self._known(spec),
                self._part(spec, part, clock),
                most_tokens=self._usual_limits(profile)[1],
                graph_tokens=profile.graph_tokens,
                attention=profile.attention,
            )
        return self._times[key]

    def _part(self, spec: WorkloadSpec, part: Part | None = None, clock_mhz: float | None = None) -> EnginePart:
        return EnginePart(
            self._gpu,
            sms=None if part is None else part.sms,
            bandwidth_share=1.0 if part is None else part.dram_share,
            clock_mhz=clock_mhz,
            quantised=spec.quantised,
            gpus=spec.parallel,
        )

    def _known(self, spec: WorkloadSpec) -> LanguageModel:
        model = self._model(spec)
        assert model is not None, "only asked of models that an engine serves"
        self._check(spec)
        return model

    def _check(self, spec: WorkloadSpec) -> None:
        """Raise DoesNotFit if the engine doesn't run it on such a GPU."""
        gpu, needs = self._gpu, "it needs compute capability {}.{}, and this has {}"
        if gpu.capability < _LEAST:
            raise DoesNotFit(
                f"{spec.software} doesn't run on {gpu.title}: {needs.format(*_LEAST, gpu.compute_capability)}",
                hint="use software eager, or a newer GPU",
            )
        if spec.dtype == "bfloat16" and gpu.capability < _LEAST_BFLOAT16:
            raise DoesNotFit(
                f"{spec.software} doesn't run {spec.name} in bfloat16 on {gpu.title}: "
                f"{needs.format(*_LEAST_BFLOAT16, gpu.compute_capability)}",
                hint="leave dtype out, or use float16",
            )
        if spec.dtype not in _HALVES or spec.layers != "full":
            key = "layers" if spec.dtype in _HALVES else "dtype"
            raise DoesNotFit(
                f"{spec.software} is simulated in half precision with all layers, not with {key} "
                f"{getattr(spec, key)} ({spec.name})",
                hint=f"leave {key} out, or use software eager",
            )

    def _model(self, spec: WorkloadSpec) -> LanguageModel | None:
        if spec.name not in self._models:
            config = self._dimensions(spec.name)
            self._models[spec.name] = language_model(spec.name, config) if config else None
        return self._models[spec.name]


def _profile(spec: WorkloadSpec) -> EngineProfile:
    return ENGINES[str(spec.software)]


def _lengths(spec: WorkloadSpec) -> tuple[int, int]:
    return spec.seq or _DEFAULT_PROMPT, spec.tokens or DEFAULT_TOKENS


# Memory of an engine: weights, activations of a step, and the cache in what is left

_GIB = 2**30


def weight_bytes(model: LanguageModel, part: EnginePart) -> float:
    """Weights on each GPU; embeddings and the language head keep half precision."""
    return (model.layer_weights * part.weight_bytes + model.table_weights * HALF_BYTES) / part.gpus


def activation_bytes(model: LanguageModel, part: EnginePart, most_tokens: int) -> float:
    """Activations of a step, whatever the contexts: a layer's input, its widest product and its result."""
    products = (*model.before, *model.after, *model.mlp, *model.dense_mlp)
    widest = max((product.outer + product.inner for product in products), default=model.width)
    assigned = model.mixture.active * (model.mixture.inner * 3 + model.width) if model.mixture else 0
    return most_tokens * HALF_BYTES * (2 * model.width + max(widest, assigned) / part.gpus)


def token_bytes(model: LanguageModel, part: EnginePart) -> float:
    """Keys and values of a token on each GPU."""
    shared = max(1.0, model.heads.cached / part.gpus) / model.heads.cached
    return model.cached_bytes * shared * part.cached_bytes / HALF_BYTES


def engine_bytes(model: LanguageModel, part: EnginePart, profile: EngineProfile, *, most_tokens: int) -> float:
    """Everything besides the cache."""
    return weight_bytes(model, part) + activation_bytes(model, part, most_tokens) + profile.reserved_gib * _GIB


def cache_blocks(
    model: LanguageModel,
    part: EnginePart,
    profile: EngineProfile,
    *,
    most_tokens: int,
    memory_bytes: float | None = None,
) -> int:
    """Blocks of the cache in the engine's share of the memory.

    Args:
        model: The model.
        part: The part of the GPU.
        profile: The engine.
        most_tokens: Tokens of a step.
        memory_bytes: Memory that the engine may use; None: its usual share of the GPU's.

    Raises:
        DoesNotFit: No block is left.
    """
    given = part.gpu.memory_bytes * profile.memory_share if memory_bytes is None else memory_bytes
    needed = engine_bytes(model, part, profile, most_tokens=most_tokens)
    blocks = int((given - needed) // (token_bytes(model, part) * profile.block_tokens))
    if blocks < 1:
        raise DoesNotFit(
            f"{profile.name} needs {needed / _GIB:.1f} GiB besides its cache, and has {given / _GIB:.1f} GiB",
            hint="quantise the weights, split the model over more GPUs, or use a GPU with more memory",
        )
    return blocks
