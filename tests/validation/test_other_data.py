"""Other data in the same form: other rows are compared, the rest is reported, damage is a sentence."""

import csv

import pytest

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.errors import DataError
from cotenant.prediction.kernels.cost import solo_costs
from validation import longhorn, runner, vidur, zeus
from validation.reading import LeftOutRows

LAYERS = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")


def write(folder, file, rows, *, end="\n"):
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, list(rows[0]), lineterminator=end)
        table.writeheader()
        table.writerows(rows)


def layer(tokens, *, heads=32, kv_heads=32, width=4096, inner=11008, parts=1, time_ms=1.0):
    sizes = {
        "n_head": heads,
        "n_kv_head": kv_heads,
        "n_embd": width,
        "n_expanded_embd": inner,
        "use_gated_mlp": True,
        "num_tokens": tokens,
        "num_tensor_parallel_workers": parts,
    }
    return {f"time_stats.{name}.median": time_ms for name in LAYERS} | sizes


def test_every_file_of_layers_is_compared_whatever_its_model_and_gpu(tmp_path):
    write(tmp_path, "solo/vidur/h100_Another-13b_mlp.csv", [layer(8), layer(512)])
    write(tmp_path, "solo/vidur/l40s_Another-13b_mlp.csv", [layer(8)])
    write(tmp_path, "solo/vidur/mi300_Another-13b_mlp.csv", [layer(8)])
    [result] = vidur.validate(tmp_path)
    assert (result.n, result.n_held_out) == (12, 12)
    assert {row.case.rpartition(", ")[2] for row in result.rows} == {"h100-sxm5-80gb", "l40s"}
    [sentence] = result.left_out
    assert sentence.startswith("1 row left out")
    assert "mi300_Another-13b_mlp.csv" in sentence


def test_keys_and_values_with_fewer_heads_than_queries_make_a_narrower_product(tmp_path):
    write(tmp_path, "solo/vidur/a40_Grouped_mlp.csv", [layer(64, heads=64, kv_heads=8, width=8192, parts=2)])
    [result] = vidur.validate(tmp_path)
    assert "attn_pre_proj, 64 x 5120 x 8192" in result.rows[0].case
    alone = solo_costs(vidur._kernels([vidur._product(64, 5120, 8192)]), find_gpu("a40")).duration_ns[0]
    assert result.rows[0].simulated == pytest.approx(alone / 1e3)


def test_another_gpu_under_power_limits_is_compared_as_held_out(tmp_path):
    def epoch(limit, seconds, watts):
        job = {"dataset": "d", "network": "resnet50", "batch_size": 8, "optimizer": "sgd"}
        return job | {"power_limit": limit, "time_per_epoch": seconds, "average_power": watts}

    write(tmp_path, "power/zeus/summary_power_l4.csv", [epoch(50, 14, 49), epoch(72, 10, 70)])
    write(tmp_path, "power/zeus/summary_power_rtx9000.csv", [epoch(50, 14, 49)])
    times, _ = zeus.validate(tmp_path)
    assert [row.case for row in times.rows] == ["l4, d resnet50 8 sgd, 50 W"]
    assert "rtx9000" in times.left_out[0]


def test_a_fleet_of_too_few_unseen_gpus_has_no_spread(tmp_path):
    run = {"uuid": "g", "cabinet": "c009", "perf": 2400, "freq": 1365, "temp": 60, "pwr": 297}
    write(tmp_path, longhorn.SGEMM, [run])
    with pytest.raises(DataError, match="has 1 GPUs of cabinets that nothing was fitted on"):
        longhorn.validate(tmp_path)


def test_a_fleet_without_fitted_cabinets_or_light_loads_is_compared(tmp_path):
    runs = [
        {"uuid": f"g{k}", "cabinet": "x1", "perf": 2400 + 5 * k, "freq": 1380 - 3 * k, "temp": 55 + k, "pwr": 297}
        for k in range(12)
    ]
    write(tmp_path, longhorn.SGEMM, runs)
    [result] = longhorn.validate(tmp_path)
    assert (result.n, result.n_held_out) == (12, 12)
    assert result.source.startswith("12 Tesla V100-SXM2-16GB, 12 runs")
    assert not any("PageRank" in measure.name for measure in result.measures)


def test_a_named_data_set_must_exist(tmp_path):
    with pytest.raises(DataError, match=r"There is no power/v100_sgemm-longhorn\.csv"):
        list(runner.run(tmp_path, ["longhorn"]))


def test_a_folder_with_none_of_the_files_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "DATA_SETS", ("vidur", "longhorn"))
    with pytest.raises(DataError, match="has none of the files"):
        list(runner.run(tmp_path))


def test_reasons_are_counted_and_long_lists_are_cut():
    left_out = LeftOutRows()
    for k in range(8):
        left_out.add("it is too old", f"m{k}", rows=2 if k == 0 else 1)
    assert left_out.sentences() == ("9 rows left out, as it is too old: m0 (2), m1, m2, m3, m4, m5 and 2 more.",)
