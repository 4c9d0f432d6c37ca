"""Plans with engines: continuous batching in the plan, in its check and in the promise of `serve`."""

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
        kept.upper_ms < kept.limit_ms / 4 for kept in seat.kept
    )  # one request at a time can't serve five a second
    (checked,) = planned.check().tenants
    assert checked.verdict == "kept"
    assert cotenant.promise(file, seconds=10.0).kept
