"""Tables of language-model engines: other rows are compared, absent and damaged files are sentences."""

import pandas as pd
import pytest

from cotenant.errors import DataError
from validation import runner
from validation.llm import kernels, passes
from validation.llm.data import read
from validation.reading import AbsentData
from validation.result import Skipped

PASS = {
    "phase": "decode", "counter_id": 0, "ctx_tokens": 0, "ctx_requests": 0, "ctx_kv_tokens": 0, "decode_requests": 8,
    "decode_kv_tokens": 8000, "latency_ms": 15.0,
}  # fmt: skip


def test_an_absent_file_is_skipped_and_a_file_without_a_column_is_damaged(tmp_path):
    with pytest.raises(AbsentData, match=r"There is no llm/x\.csv"):
        read(tmp_path, "llm/x.csv", ("a",))
    (tmp_path / "llm").mkdir()
    (tmp_path / "llm" / "x.csv").write_text("b\n1\n")
    with pytest.raises(DataError, match=r"llm/x\.csv has no column 'a'"):
        read(tmp_path, "llm/x.csv", ("a",))


def test_engines_have_their_own_data_sets(tmp_path):
    (tmp_path / "llm").mkdir()
    pd.DataFrame([{"wrong": 1}]).to_csv(tmp_path / passes._FILE)
    found = list(runner.run(tmp_path, (), runner.ENGINE_DATA_SETS))
    assert all(isinstance(result, Skipped) for result in found)
    assert {result.data_set: result.damaged for result in found}["llm.passes"]


def test_products_that_match_the_law_have_no_error(tmp_path):
    frame = pd.DataFrame({"m": [1, 64, 4096], "n": [4096, 8192, 1024], "k": [4096, 1024, 8192]})
    gpu = kernels.gpu_of("h100")
    family = kernels.family_of(gpu.architecture)
    times, roofline = kernels.product_times(gpu, family, "half", kernels._columns(frame))
    assert (times > roofline).all()
    same = frame.assign(latency=times / 1e6)
    rows = kernels._compared(same, [False] * 3, (times, roofline))
    assert [row.simulated / row.measured for row in rows] == pytest.approx([1.0, 1.0, 1.0])


def test_forward_passes_of_another_run_are_compared(tmp_path):
    rows = [{**PASS, "counter_id": number, "decode_kv_tokens": 1000 * number} for number in range(1, 40)]
    prompt = {"phase": "context", "ctx_requests": 1, "ctx_tokens": 1024, "decode_requests": 0, "decode_kv_tokens": 0}
    rows += [{**PASS, **prompt, "counter_id": 100 + number, "latency_ms": 50.0} for number in range(12)]
    mixed = {"phase": "mixed", "ctx_requests": 1, "ctx_tokens": 1024, "latency_ms": 55.0}
    rows += [{**PASS, **mixed, "counter_id": 200 + number} for number in range(30)]
    (tmp_path / "llm").mkdir()
    pd.DataFrame(rows).to_csv(tmp_path / passes._FILE)
    plain, _ = passes.validate(tmp_path)
    assert {row.case for row in plain.rows} == {"context", "decode", "mixed"}
    assert len(plain.rows) == len(rows)
