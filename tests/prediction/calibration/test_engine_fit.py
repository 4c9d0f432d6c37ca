"""What clients of an engine see at several loads determines its host and device times."""

from dataclasses import replace

import numpy as np
import pytest

from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.errors import DeviceError
from cotenant.prediction.calibration.engine_fit import _latencies, fit_engine
from cotenant.prediction.calibration.engine_law import kernel_law, plain_law
from cotenant.prediction.calibration.engine_loads import predicted_load
from cotenant.prediction.calibration.solo import SoloTime
from cotenant.prediction.contention.layout import whole_of
from cotenant.prediction.engines.continuous_batching import EngineSettings
from cotenant.prediction.engines.engine_profile import ENGINES
from cotenant.prediction.engines.layer_tables import EnginePart
from cotenant.prediction.engines.step import StepTimes
from cotenant.prediction.engines.tenant import EngineLoad
from cotenant.prediction.simulated_gpu import Controls
from cotenant.tenancy.load import Load
from cotenant.workloads import find
from cotenant.workloads.protocol import WorkloadSpec

GPU = open_simulated("sim:h100-sxm5-80gb")
NAME = "llama-3.2-3b"
SETTINGS = EngineSettings(256, 2048)
TRUE = {
    "step_us": 1800.0,
    "sequence_us": 90.0,
    "prompt_us": 2500.0,
    "request_us": 4000.0,
    "token_us": 1.0,
    "device": 1.3,
    "attention": 1.8,
}
LOADS = [(64, 1), (2000, 1), (512, 4), (512, 16), (512, 64), (2000, 16)]


@pytest.fixture(scope="module")
def law():
    from cotenant.prediction.engines.language_model import language_model

    model = language_model(NAME, find(NAME).entry.config)
    return kernel_law(StepTimes(model, EnginePart(GPU.gpu), most_tokens=2048))


def seen(law, values, asked):
    """Times to the first token and per token of an engine with these rates, ms."""
    rates = np.array([values[name] for name in law.names])
    latencies = _latencies(law.work, rates, asked, SETTINGS)
    return latencies.first @ rates / 1e6, latencies.each @ rates / 1e6


def probe(law, prompt, in_flight, *, true=TRUE, off=1.0, **given):
    asked = SoloTime(
        workload=NAME, software="vllm", ms=1.0, seq=prompt, tokens=32, tokens_spread=0.5,
        in_flight=in_flight, ttft_ms=1.0, tpot_ms=1.0, row="a probe", **given,
    )  # fmt: skip
    ttft, tpot = seen(law, true, asked)
    return asked.model_copy(update={"ttft_ms": ttft * off, "tpot_ms": tpot / off})


def test_probes_at_several_loads_tell_an_engines_rates(law):
    fit = fit_engine(law, [probe(law, *load) for load in LOADS], SETTINGS)
    assert fit.off < 0.01
    assert fit.left_out < 0.03
    for name in ("step_us", "sequence_us", "request_us", "device"):
        assert fit.value(name) == pytest.approx(TRUE[name], rel=0.12), name
    assert all(rate.determined for rate in fit.rates if rate.rate.name in ("device", "sequence_us", "step_us"))


def test_noise_of_five_percent_leaves_loads_in_between_well_predicted(law):
    signs = [1, -1, -1, 1, -1, 1]
    noisy = [probe(law, *load, off=1 + 0.05 * sign) for load, sign in zip(LOADS, signs, strict=True)]
    fit = fit_engine(law, noisy, SETTINGS)
    values = {rate.rate.name: rate.value for rate in fit.rates}
    for load in ((256, 8), (1000, 32), (128, 48)):
        true, asked = probe(law, *load), probe(law, *load)
        ttft, tpot = seen(law, values, asked)
        assert ttft == pytest.approx(true.ttft_ms, rel=0.1)
        assert tpot == pytest.approx(true.tpot_ms, rel=0.1)
        error = fit.error(load[0], load[1])
        assert error.low < true.tpot_ms / tpot < error.high


def test_probes_of_low_loads_only_dont_determine_the_time_per_sequence(law):
    fit = fit_engine(law, [probe(law, prompt, 1) for prompt in (64, 200, 400)], SETTINGS)
    by_name = {rate.rate.name: rate for rate in fit.rates}
    assert not by_name["sequence_us"].determined
    assert "calibrated with up to 1 requests in flight, asked about 64" in (fit.beyond(100, 64) or "")
    assert fit.error(100, 64).high > fit.error(100, 1).high


def test_a_utilisation_tells_host_from_device(law):
    slow_host = TRUE | {"step_us": 6000.0}
    plain = [probe(law, 64, 1, true=slow_host), probe(law, 64, 2, true=slow_host), probe(law, 64, 3, true=slow_host)]
    alone = fit_engine(law, plain, SETTINGS)
    device_ms = plain[0].tpot_ms - 6.0 - 0.09
    told = fit_engine(
        law, [plain[0].model_copy(update={"utilisation": device_ms / plain[0].tpot_ms}), *plain[1:]], SETTINGS
    )
    half = {name: next(rate.half for rate in fit.rates if rate.rate.name == "device") for name, fit in
            (("alone", alone), ("told", told))}  # fmt: skip
    assert half["told"] < 0.5 * half["alone"]
    assert told.value("device") == pytest.approx(TRUE["device"], rel=0.1)


def test_without_a_known_device_the_times_are_still_explained():
    true = {
        "step_us": 5000.0, "sequence_us": 300.0, "prompt_us": 2000.0, "request_us": 1500.0,
        "token_us": 150.0, "context_us": 0.5, "pair_us": 0.05,
    }  # fmt: skip
    law = plain_law()
    fit = fit_engine(law, [probe(law, *load, true=true) for load in LOADS], SETTINGS)
    assert fit.off < 0.01
    assert fit.value("step_us") == pytest.approx(5000, rel=0.1)
    assert fit.value("token_us") == pytest.approx(150, rel=0.1)


def test_a_slow_device_is_believed_even_if_its_times_varied_from_pass_to_pass():
    """A CPU takes 25 ms per step, a hundred times a GPU's: no prior of GPUs may pull it down."""
    true = {
        "step_us": 25_000.0, "sequence_us": 300.0, "prompt_us": 2000.0, "request_us": 1500.0,
        "token_us": 700.0, "context_us": 0.5, "pair_us": 0.05,
    }  # fmt: skip
    law = plain_law()
    unsteady = {"ttft_spread": 0.25, "tpot_spread": 0.25}
    fit = fit_engine(law, [probe(law, *load, true=true, **unsteady) for load in LOADS], SETTINGS)
    assert fit.value("step_us") == pytest.approx(25_000, rel=0.1)
    assert fit.off < 0.05


def test_a_simulated_gpu_serves_with_the_probed_rates(law):
    """The tenant of the event simulation shows the latencies that were measured."""
    rows = tuple(probe(law, *load) for load in LOADS)
    spec = WorkloadSpec(name=NAME, mode="generate", software="vllm", dtype="bfloat16", seq=512, tokens=32)
    fit = GPU.engine_fit(spec, Controls(solo_ms=rows))
    calibrated = GPU.engine_profile(spec, Controls(solo_ms=rows))
    assert calibrated.step_us == fit.value("step_us")
    slow = GPU.request_s(spec, in_flight=16, controls=Controls(solo_ms=rows))
    assert slow > 1.2 * GPU.request_s(spec, in_flight=16)
    load = EngineLoad(window_end_ns=2e9, memory_bytes=60 * 2**30, in_flight=1)
    tenant = GPU.engine(spec, whole_of(GPU.gpu), load, clock_mhz=None, controls=Controls(solo_ms=rows))
    assert tenant._delay_ns == pytest.approx(calibrated.request_us * 1e3)
    assert GPU.engine_fit(spec, Controls()) is None
    assert replace(ENGINES["vllm"]).device == 1.0


def test_two_probes_are_too_few(law):
    spec = WorkloadSpec(name=NAME, mode="generate", software="vllm", dtype="bfloat16", seq=512, tokens=32)
    rows = tuple(probe(law, *load) for load in LOADS[:2])
    with pytest.raises(DeviceError, match=r"2 probes of llama-3\.2-3b can't calibrate an engine"):
        GPU.engine_fit(spec, Controls(solo_ms=rows))


VLLM_CPU = ((32, 1, 18.3, 8.1), (256, 1, 71.3, 8.39), (32, 2, 26.6, 8.79), (256, 4, 126.0, 14.4), (32, 8, 46.3, 12.9),
            (256, 8, 206.0, 25.3))  # fmt: skip
"""Tokens of prompts, requests in flight, ms to first token and per token, of vLLM 0.32 with distilgpt2 on a core."""


@pytest.fixture(scope="module")
def vllm_cpu():
    """Fits of those probes, each with errors of a few per cent."""
    noise = np.random.default_rng(1)
    fits = []
    for _ in range(6):
        off, spread = noise.normal(1.0, 0.02, (6, 2)), np.abs(noise.normal(0.0, 0.06, (6, 2)))
        probes = [
            SoloTime(
                workload="m", software="vllm", ms=1.0, seq=prompt, tokens=32, tokens_spread=0.5, in_flight=in_flight,
                ttft_ms=ttft * first, tpot_ms=tpot * each, ttft_spread=ttft_spread, tpot_spread=tpot_spread, row="",
            )
            for (prompt, in_flight, ttft, tpot), (first, each), (ttft_spread, tpot_spread) in zip(
                VLLM_CPU, off, spread, strict=True
            )
        ]  # fmt: skip
        fits.append(fit_engine(plain_law(), probes, EngineSettings()))
    return fits


def test_small_errors_of_probes_dont_turn_the_fit_over(vllm_cpu):
    """Whether requests start together depends on the fitted rates, and the fit on that: rounds could end at either."""
    for fit in vllm_cpu:
        assert fit.off < 0.04
        assert fit.value("token_us") == pytest.approx(225, rel=0.08)


@pytest.mark.parametrize(("load", "ttft", "tpot"), [("128/24 closed(4)", 140, 11.6), ("192/32 closed(6)", 316, 13.3)])
def test_loads_that_were_not_probed_are_predicted_as_they_were_measured(vllm_cpu, load, ttft, tpot):
    lengths, arrivals = load.split()
    for fit in vllm_cpu:
        predicted = predicted_load(fit, *map(int, lengths.split("/")), Load.model_validate(arrivals))
        assert predicted.ttft[0].ms == pytest.approx(ttft, rel=0.15)
        assert predicted.tpot[0].ms == pytest.approx(tpot, rel=0.15)


def test_beside_a_neighbour_an_engine_has_an_even_part_of_its_cores(vllm_cpu):
    """Measured: 11.6 ms per token with a neighbour on another core, 20.1 ms with it on the same."""
    load = Load.model_validate("closed(4)")
    alone, shared = (predicted_load(vllm_cpu[0], 128, 32, load, beside=share).tpot[0].ms for share in (0.0, 1.0))
    assert alone == pytest.approx(11.6, rel=0.15)
    assert shared == pytest.approx(20.1, rel=0.15)
