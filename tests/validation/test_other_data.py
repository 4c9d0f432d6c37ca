"""Data of the same form from elsewhere: other rows are compared, what can't be is named, damage is a sentence."""

import csv
import json

import numpy as np
import pytest
from cotenant.prediction.calibration.anatomy import Anatomy

from cotenant.cli.main import main
from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.errors import DataError
from cotenant.prediction.kernels.cost import solo_costs
from validation import gavel, longhorn, mig, miso, nos, nvidia_tables, parvagpu, runner, timm, vidur, zeus
from validation.__main__ import command
from validation.leaving_out import LeftOutRows
from validation.result import Skipped

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


def parva(model, gpcs, batch, processes, throughput):
    return {
        "model": model,
        "mig_gpcs": gpcs,
        "batch": batch,
        "n_procs_mps": processes,
        "throughput_per_proc_or_reported": throughput,
    }


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


def test_an_unknown_network_on_slices_is_told_from_its_times_and_named(tmp_path):
    rows = [parva("mystery", 7, batch, 1, 100 * batch / (1 + batch / 8)) for batch in (1, 4, 16, 64)]
    rows += [parva("mystery", 7, 16, 2, 300), parva("mystery", 3, 16, 1, 300), parva("mystery", 3, 64, 1, "")]
    rows += [parva("mystery", 5, 16, 1, 300), parva("mystery", 2, 8, 2, 300)]
    write(tmp_path, parvagpu.FILE, rows, end="\r\n")
    copies, traced, probed, _ = parvagpu.validate(tmp_path)
    assert (copies.n, traced.n, probed.n) == (1, 0, 1)
    assert [sentence.partition(":")[0] for sentence in copies.left_out] == [
        "1 row left out, as it ran out of memory (no throughput)",
        "1 row left out, as an A100 has no such slice",
        "1 row left out, as it wasn't measured alone",
    ]
    assert "mystery" in traced.left_out[0]
    [together] = mig.validate(tmp_path)
    assert [row.case for row in together.rows] == ["mystery, batch 16, 3g"]
    assert "a100_mig_miso.csv" in together.left_out[0]


def test_training_on_slices_that_the_gpu_lacks_or_without_the_whole_gpu_is_named(tmp_path):
    def step(part, batch, seconds):
        cells = {"mig_slice": part, "model": "new", "batch": batch}
        return cells | {"median_s_per_iter": seconds, "mean_s_per_iter": seconds}

    write(tmp_path, miso.FILE, [step("7g.40gb", 8, 0.1), step("3g.20gb", 8, 0.15), step("2g.10gb", 4, 0.2)])
    [result] = miso.validate(tmp_path)
    assert [row.case for row in result.rows] == ["new, batch 8, 3g.20gb"]
    assert "no time of that batch on the whole GPU: new" in result.left_out[0]


def test_turns_of_several_models_are_compared_and_unknown_mechanisms_named(tmp_path):
    def pods(model, way, number, seconds):
        return {"model": model, "mechanism": way, "n_pods": number, "avg_inference_s": seconds}

    rows = [pods(model, "time-slicing", number, 0.1 * number * 1.1) for model in "ab" for number in (1, 2)]
    write(tmp_path, nos.FILE, [*rows, pods("a", "vGPU", 1, 0.1), pods("c", "MPS", 3, 0.3)])
    turns, side_by_side = nos.validate(tmp_path)
    assert (turns.n_held_out, side_by_side.n) == (2, 0)
    assert [sentence.partition(":")[2].strip() for sentence in turns.left_out] == ["vGPU.", "c, MPS."]


def test_pairs_may_be_stored_once_and_unknown_jobs_are_told_from_their_times(tmp_path):
    jobs = {
        "Mystery (batch size 8)": {"null": 10.0, "Mystery (batch size 16)": [6.0, 3.5], "Gone": [1.0, 1.0]},
        "Mystery (batch size 16)": {"null": 6.0, "Mystery (batch size 16)": [0.0, 0.0]},
    }
    path = tmp_path / gavel.FILE
    path.parent.mkdir()
    path.write_text(json.dumps({"v100": jobs, "k80": {"LM": {"null": 1.0, "LM": [0.5, 0.5]}}}))
    [result] = gavel.validate(tmp_path)
    assert {row.case for row in result.rows if row.held_out} == {
        "Mystery (batch size 8) beside Mystery (batch size 16)",
        "Mystery (batch size 16) beside Mystery (batch size 8)",
    }
    left_out = " ".join(result.left_out)
    assert "the GPU isn't one that is compared: k80" in left_out
    for words in ("weren't measured together", "don't fit together", "the other job wasn't measured alone"):
        assert words in left_out
    assert any("Mystery" in note for note in result.notes)


def test_a_job_of_unknown_kernels_has_as_many_as_its_host_can_launch():
    job = gavel.Job("x", "Mystery", batch=8, seconds=0.1)
    known = Anatomy(host=(0.05, 1e-9), device=(1e-3, 0.012), fixed=(0.5, 0.2), sm_bound=(0.6, 0.6))
    trace = gavel._scaled(known, job, None)
    assert trace.launch_ns.sum() / np.count_nonzero(trace.launch_ns) == pytest.approx(gavel.HOST_US * 1e3, rel=0.01)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "doesn't hold jobs by GPU"),
        ('{"k80": {"LM": {"null": 1.0}}}', "no jobs on any of v100, p100"),
        ('{"v100": {"LM": {}}}', "no throughput of 'LM' alone"),
        ('{"v100": {"LM": {"null": 1.0, "LM": [1.0]}}}', "no two throughputs of 'LM' beside 'LM'"),
        ('{"v100": {"LM": {"null": 1.0}}}', "no pair of jobs"),
    ],
)
def test_damaged_pairs_are_refused_in_a_sentence(tmp_path, text, words):
    path = tmp_path / gavel.FILE
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(DataError, match=words):
        gavel.validate(tmp_path)


def test_which_table_a_row_of_tensorflow_2_is_from_is_known_without_the_other_tables(tmp_path):
    def published(line, section="", **other):
        cells = {"model": "TensorFlow2/LanguageModeling/BERT", "gpu": "T4", "precision": "FP16", "batch": 8, "seq": 384}
        return (
            cells | {"throughput": 50.0, "backend": "", "section": section, "source_path": f"README.md:{line}"} | other
        )

    triton = {"model": "PyTorch/LanguageModeling/BERT/triton/large", "backend": "ONNX Runtime", "seq": ""}
    rows = [
        published(1045),
        published(9, section="ONNX Runtime with FP16, Backend accelerator TensorRT", **triton),
        published(1, model="PyTorch/Segmentation/nnUNet"),
        published(1005, gpu="RTX 5090"),
    ]
    write(tmp_path, "solo/inference_nvidia_dle.csv", rows)
    [result] = nvidia_tables.validate(tmp_path)
    assert [row.case for row in result.rows] == [
        "bert-base, float32, batch 8, 384 tokens, t4, TensorFlow 2",
        "bert-large, float16, batch 8, 384 tokens, t4, Triton, ONNX Runtime with TensorRT",
    ]
    assert "nnUNet" in result.left_out[0]
    assert "RTX 5090" in result.left_out[1]


def test_vision_tables_of_another_gpu_and_with_names_of_weights_are_compared(tmp_path):
    def step(model, params):
        sizes = {"infer_img_size": 224, "infer_step_time": 50.0, "infer_batch_size": 64}
        return {"model": model, "param_count": params} | sizes

    write(tmp_path, "solo/vision_rtx4090_timm.csv", [step("resnet18.a1_in1k", 11.69), step("convnext_tiny", 28.6)])
    write(tmp_path, "solo/vision_cpu_timm.csv", [step("resnet18", 11.69)])
    [result] = timm.validate(tmp_path)
    assert [row.case for row in result.rows] == ["resnet18.a1_in1k, 224 pixels, batch 64, rtx-4090"]
    assert result.n_held_out == 1
    assert "convnext_tiny" in result.left_out[1]
    assert "cpu" in result.left_out[0]


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


def test_absent_data_sets_are_named_and_damaged_ones_are_exit_code_1(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(runner, "DATA_SETS", ("vidur", "nos", "parvagpu"))
    write(tmp_path, "solo/vidur/a40_Another_mlp.csv", [layer(8)])
    found = list(runner.run(tmp_path))
    assert [(one.data_set, one.damaged) for one in found if isinstance(one, Skipped)] == [
        ("nos", False),
        ("parvagpu", False),
    ]
    (tmp_path / "sharing").mkdir()
    (tmp_path / nos.FILE).write_text("")
    assert main(["--data", str(tmp_path)], command=command, name="validation") == 1
    out = capsys.readouterr().out
    assert "nos: skipped. sharing/a100_mechanisms_nos.csv is empty." in " ".join(out.split())
    assert "not compared: nos, parvagpu" in " ".join(out.split())


def test_a_data_set_that_is_asked_for_must_be_there(tmp_path):
    with pytest.raises(DataError, match=r"There is no sharing/a100_mechanisms_nos\.csv"):
        list(runner.run(tmp_path, ["nos"]))


def test_a_folder_with_none_of_the_files_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "DATA_SETS", ("vidur", "nos"))
    with pytest.raises(DataError, match="holds none of the files"):
        list(runner.run(tmp_path))


def test_reasons_are_counted_and_long_lists_are_cut():
    left_out = LeftOutRows()
    for k in range(8):
        left_out.add("it is too old", f"m{k}", rows=2 if k == 0 else 1)
    assert left_out.sentences() == ("9 rows left out, as it is too old: m0 (2), m1, m2, m3, m4, m5 and 2 more.",)
