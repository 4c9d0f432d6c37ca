"""Simulated against measured solo times, on models and GPUs not used for fitting."""

import os
from pathlib import Path

import pytest

from cotenant.workloads.models.libraries import stand_in
from validation import max_batch, orion, vidur

DATA = Path(os.environ.get("COTENANT_DATA") or Path(__file__).parents[3].parent / "shared" / "data")
needs_data = pytest.mark.skipif(not (DATA / "solo").is_dir(), reason=f"no measured data in {DATA} (set COTENANT_DATA)")


def reaches_its_targets(module):
    (result,) = module.validate(DATA)
    assert result.n_held_out > 0
    for measure in result.measures:
        assert measure.reached is not False, f"{measure.name}: {measure.value:.3g}"
    first = result.measures[0]
    return first.value, min(first.baselines.values())


@needs_data
def test_products_of_language_models_on_a100_and_a40():
    error, roofline = reaches_its_targets(vidur)
    assert error < roofline / 3


@needs_data
def test_kernels_of_small_batches_on_a_v100():
    times, free = orion.validate(DATA)
    for row in times.rows:
        assert row.simulated == pytest.approx(row.measured, rel=0.2), row.case
    for row in free.rows:
        assert row.simulated == pytest.approx(row.measured, abs=0.15), row.case


@pytest.mark.slow
def test_largest_batches_on_a_card_of_24_gb():
    (result,) = max_batch.validate(DATA)
    wrong = {row.case: row.simulated for row in result.rows if row.simulated != row.measured}
    assert not wrong


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet34", "resnet34"),
        ("vit_tiny_patch16_384", "vit-b-16"),
        ("mobilenetv2_140", "mobilenet-v2"),
        ("efficientnet_b3", "efficientnet-b0"),
        ("efficientnetv2_m", "efficientnet-v2-s"),
        ("efficientnetv2_l", "efficientnet-v2-l"),
        ("resnext50_32x4d", None),
        ("tf_efficientnet_b3", None),
    ],
)
def test_a_model_of_timm_is_a_variant_of_one_of_the_catalogue(name, expected):
    entry = stand_in(name, 224)
    assert (entry.name if entry else None) == expected
