"""Plans with engines: continuous batching in the plan, in its check and in the promise of `serve`."""

import pytest

import cotenant

CHAT = """device: sim:a100-sxm4-40gb
tenants:
  chat: {workload: llama-3.2-1b, mode: generate, software: vllm, seq: 512, tokens: 64, rate: 5/s,
         slo: {ttft p95: 300ms, tpot p95: 40ms}}
mixes: [solo]
"""


def test_a_single_chat_tenant_is_planned_checked_and_promised(tmp_path):
    file = tmp_path / "chat.yaml"
    file.write_text(CHAT, encoding="utf-8")
    planned = cotenant.plan(file, "sim:a100-sxm4-40gb", seconds=5.0)
    (device,) = planned.devices
    (seat,) = device.tenants
    assert planned.keeps_all
    assert seat.at_once in {64, 256}
    assert all(
        kept.time_ms.hi < kept.limit_ms / 4 for kept in seat.kept
    )  # one request at a time can't serve five a second
    checked = planned.check()
    assert checked.keeps_all
    assert [row.objective for row in checked.tenants] == ["ttft p95", "tpot p95"]
    promised = cotenant.promise(file)
    assert promised.keeps_all
    for row, same in zip(promised.tenants, checked.tenants, strict=True):
        assert (row.objective, row.objective_ms) == (same.objective, same.objective_ms)
        assert row.tail_ms.est == pytest.approx(same.tail_ms.est, rel=0.05)
    assert cotenant.promise(planned.write(tmp_path / "plan.yaml")).tenants == checked.tenants


def test_a_gpu_too_old_for_the_engine_is_left_out_or_refused_in_a_sentence(tmp_path):
    file = tmp_path / "chat.yaml"
    file.write_text(CHAT.replace("device: sim:a100-sxm4-40gb\n", ""), encoding="utf-8")
    with pytest.raises(cotenant.CotenantError, match="vllm doesn't run on NVIDIA Tesla P100"):
        cotenant.plan(file, "sim:p100-pcie-16gb", seconds=5.0)
    with pytest.raises(cotenant.CotenantError, match="even alone on sim:p100-pcie-16gb: no engine runs chat so"):
        cotenant.plan(file, "sim:p100-pcie-16gb,sim:p100-sxm2-16gb", seconds=5.0, minimise="devices")
    planned = cotenant.plan(file, "sim:p100-pcie-16gb,sim:a30", seconds=5.0, minimise="devices")
    assert [device.name for device in planned.devices] == ["sim:a30"]
