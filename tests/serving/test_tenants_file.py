"""The tenants file: read like a study, every problem at once with its line; contracts and workers follow from it."""

import pytest

from cotenant.errors import ServingError, StudyError
from cotenant.planning.check import check_plan
from cotenant.planning.check_simulated import service_range
from cotenant.scheduling import BatchCurve, TenantCosts, chunk_cost
from cotenant.serving.deployment import orders, worker_cores
from cotenant.serving.dry_run import _seat, judge, simulate_contracts
from cotenant.serving.http.access import new_key
from cotenant.serving.server import Listening, _checked, check_exposure
from cotenant.serving.tenants_file import TenantsFile, read_tenants
from cotenant.tenancy.document import write


def read(tmp_path, text):
    path = tmp_path / "tenants.yaml"
    path.write_text(text)
    return read_tenants(path)


def tenants(**entries):
    return TenantsFile.model_validate({"tenants": entries})


def bert(**more):
    return {"workload": "bert-base-mini", "slo": "50ms", **more}


def test_objectives_and_shares_are_read_in_all_their_forms(tmp_path):
    file = read(
        tmp_path,
        "tenants:\n"
        "  a: {workload: bert-base-mini, slo: 50ms, share: 40%}\n"
        "  b: {workload: bert-base-mini, slo: {p95: 0.1s}, share: 20%}\n"
        "  c: {workload: gpt2-mini, slo: {ttft p99: 300ms, tpot p99: 40ms}, share: 10, mode: generate}\n"
        "  d: {workload: bert-base-mini, slo: {latency: 1s}, best_effort: true, hard: false}\n",
    )
    a, b, c, d = file.contracts()
    assert (a.objective_s, a.share) == (0.05, 0.4)
    assert (b.objective_s, b.share, file.tenants["b"].deadline.quantile) == (0.1, 0.2, 0.95)
    assert (c.within_s(10), c.share) == (0.3 + 0.4, 0.1)
    assert (d.hard, d.service) == (False, "best-effort")


def test_a_rate_stands_for_poisson_arrivals_as_in_a_file_for_plan(tmp_path):
    file = read(tmp_path, "tenants:\n  a: {workload: bert-base-mini, slo: {p99: 50ms}, rate: 90/min}\n")
    assert str(file.tenants["a"].arrivals) == "poisson(1.5)"
    with pytest.raises(StudyError) as refusal:
        read(tmp_path, "tenants:\n  a: {workload: bert-base-mini, slo: 50ms, rate: 2/s, load: poisson(2)}\n")
    assert "expected one of rate, load and job, not rate and load" in "".join(refusal.value.problems)


def test_every_problem_is_reported_with_its_line(tmp_path):
    with pytest.raises(StudyError) as refusal:
        read(
            tmp_path,
            "tenants:\n"
            "  a: {workload: bert-base-mini, slow: 50ms}\n"
            "  b: {workload: bert-base-mini, slo: soon}\n"
            "  c: {workload: bert-base-mini, slo: 1s, share: 140%}\n"
            "  d: {workload: bert-base-mini, slo: 1s, key: secret}\n"
            "  e: {workload: gpt2-mini, slo: {ttft: 1s}}\n"
            "devise: cpu\n",
        )
    text = "\n".join(refusal.value.problems)
    assert 'tenants.yaml:2: tenants.a.slow: unknown key; did you mean "slo"?' in text
    assert "tenants.yaml:2: tenants.a: serve needs an objective" not in text, "slow may be what was meant"
    assert "tenants.yaml:6: tenants.e: ttft and tpot are times of generated tokens: add mode: generate" in text
    assert 'tenants.yaml:3: tenants.b.slo: expected a time with its unit such as 50ms, not "soon"' in text
    assert "tenants.yaml:4: tenants.c.share: expected a share of the device such as 40%" in text
    assert "tenants.yaml:5: tenants.d.key: expected the hash of a key" in text
    assert 'tenants.yaml:7: devise: unknown key; did you mean "device"?' in text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty; expected a mapping with the key tenants"),
        ("tenants: {}", "serve needs a tenant with requests"),
        ("tenants: [", "not valid YAML"),
        ("tenants: {a: {workload: x, slo: 1s, share: 70%}, b: {workload: x, slo: 1s, share: 60%}}", "add up to"),
        ("tenants: {a: {workload: x, slo: {tpot: 1s}}}", "state one latency, or ttft and tpot"),
    ],
)
def test_an_invalid_tenants_file_is_refused(tmp_path, text, sentence):
    with pytest.raises(StudyError) as refused:
        read(tmp_path, text)
    assert sentence in "\n".join(refused.value.problems)


def test_groups_share_a_worker_and_isolated_tenants_have_their_own():
    file = tenants(a=bert(), b=bert(at_once=4), c=bert(isolation="process"), d=bert(group="others"))
    homes = [[tenant.name for tenant in order.tenants] for order in orders(file, "cpu")]
    assert homes == [["a", "b"], ["c"], ["d"]]
    assert orders(file, "cpu")[0].tenants[1].largest == 4


def test_the_front_end_keeps_a_core_where_there_are_several():
    assert worker_cores("cpu", [0, 1, 2]) == (1, 2)
    assert worker_cores("cpu", [3]) == (3,)
    assert worker_cores("cpu:1", [0, 1]) == (1,)
    assert worker_cores("cuda:0", [0, 1]) is None


def test_a_public_address_requires_keys_and_tls():
    key = new_key()[1]
    open_file, keyed = tenants(a=bert()), tenants(a=bert(key=key)).model_copy(update={"admin_key": key})
    for host in ("127.0.0.1", "::1", "localhost"):
        check_exposure(open_file, Listening(host))
    with pytest.raises(ServingError, match="tenant a has no key"):
        check_exposure(open_file, Listening("0.0.0.0"))
    with pytest.raises(ServingError, match="the admin has no key"):
        check_exposure(tenants(a=bert(key=key)), Listening("10.0.0.1"))
    with pytest.raises(ServingError, match="sent unencrypted"):
        check_exposure(keyed, Listening("::"))
    with pytest.raises(ServingError, match="both a certificate and its key"):
        check_exposure(keyed, Listening("::", tls_cert="a.pem"))
    check_exposure(keyed, Listening("::", tls_cert="a.pem", tls_key="b.pem"))


def test_a_reload_may_not_take_the_keys_of_a_public_server_away():
    key = new_key()[1]
    public = Listening("::", tls_cert="a.pem", tls_key="b.pem")
    for file in (tenants(a=bert()), tenants(a=bert(key=key))):
        with pytest.raises(ServingError, match="public address"):
            _checked(lambda file=file: file, public)()
    assert _checked(lambda: tenants(a=bert()), Listening("127.0.0.1"))().tenants, "on this machine only, it may"
    assert _checked(None, public) is None


def test_a_dry_run_reports_kept_and_missed_objectives():
    file = tenants(
        calm=bert(slo={"p95": "80ms"}, load="poisson(20%)", share="50%"),
        flood=bert(slo="60ms", load="poisson(150%)", share="50%"),
    )
    costs = {name: TenantCosts((chunk_cost(0.005),) * 2) for name in file.tenants}
    found = judge(file, costs, basis="measured", seconds=10.0, seed=1)
    calm, flood = found.tenants
    assert (calm.verdict, flood.verdict) == ("kept", "missed")
    assert (found.keeps_all, found.misses) == (False, True)
    assert flood.attained.est < 0.8
    assert flood.shed > 0.1
    assert flood.rate_rps == pytest.approx(150.0), "150 % of what it can do alone"
    assert found == judge(file, costs, basis="measured", seconds=10.0, seed=1)


def test_tokens_in_turns_are_judged_by_their_own_limits():
    """Prompts of 20 ms and steps of 10 ms: the whole is due in 1 s, and yet tokens come too slowly."""
    file = tenants(
        chat={
            "workload": "gpt2-mini", "mode": "generate", "tokens": 11, "load": "poisson(2)",
            "slo": {"ttft p95": "900ms", "tpot p95": "9ms"},
        }
    )  # fmt: skip
    costs = {"chat": TenantCosts((chunk_cost(0.02),), BatchCurve(), chunk_cost(0.01), BatchCurve(), 10)}
    first, each = judge(file, costs, basis="measured", seconds=30.0, seed=1).tenants
    assert (first.objective, first.verdict) == ("ttft p95", "kept")
    assert 20 < first.tail_ms.est < 300
    assert (each.objective, each.verdict) == ("tpot p95", "missed")
    assert each.tail_ms.est > 10


def test_an_error_of_predicted_costs_goes_through_the_scheduler():
    """At 40 % of the device, requests that take longer than predicted wait longer, too."""
    file = tenants(a=bert(load="poisson(20%)", slo="1s"), b=bert(load="poisson(20%)", slo="1s"))
    costs = {name: TenantCosts((chunk_cost(0.01),)) for name in file.tenants}
    known, _ = judge(file, costs, basis="measured", seconds=10.0, seed=1).tenants
    predicted, _ = judge(
        file.model_copy(update={"device": "sim:a100-sxm4-40gb"}), costs, basis="simulated", seconds=10.0, seed=1
    ).tenants
    assert known.tail_ms.lo is None
    assert predicted.tail_ms.est == known.tail_ms.est
    low, high = predicted.tail_ms.ends
    assert low < predicted.tail_ms.est < high
    _, longest = service_range("sim:a100-sxm4-40gb", "a", _seat(file.tenants["a"], costs["a"], None), risk=file.risk)
    assert high / predicted.tail_ms.est > longest, "the queue makes an error larger"
    assert predicted.attained.lo <= known.attained.lo


def test_a_job_of_a_plan_runs_beside_the_server(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(
        "plan: 2\ndevices:\n- name: sim:a100-sxm4-40gb\n  sharing: mps\n  tenants:\n"
        "    a: {rate_rps: 10, share: 60, runs: {workload: bert-base-mini}, expected: {p99: {limit_ms: 50}}}\n"
        "    learn: {share: 40, runs: {workload: bert-base-mini, train: true}}\n",
        encoding="utf-8",
    )
    file = read_tenants(path)
    assert list(file.tenants) == ["a"]
    assert list(file.jobs) == ["learn"]
    assert file.sharing.shares == (60.0,)
    assert simulate_contracts(file).tenants == check_plan(path).tenants


def test_a_dry_run_needs_a_load():
    with pytest.raises(ServingError, match="Tenant a has no open load"):
        simulate_contracts(tenants(a=bert()))


def plan(**changes):
    bert = {
        "tenant": "bert",
        "rate_rps": 20.0,
        "at_once": 4,
        "runs": {"workload": "bert-base-mini", "seq": 32},
        "software": "eager",
        "share": 40.0,
        "expected": {"p99": {"limit_ms": 60.0, "lower_ms": 1.0, "estimate_ms": 2.0, "upper_ms": 3.0}},
        **changes,
    }
    return {"plan": 2, "devices": [{"name": "sim:a100-sxm4-40gb", "sharing": "mps", "tenants": {"bert": bert}}]}


def written(tmp_path, data):
    path = tmp_path / "plan.yaml"
    path.write_text(write(data))
    return path


def test_a_plan_is_served_as_it_was_made(tmp_path):
    file = read_tenants(written(tmp_path, plan()))
    bert = file.tenants["bert"]
    assert (file.device, bert.workload, bert.seq, bert.most_at_once) == ("sim:a100-sxm4-40gb", "bert-base-mini", 32, 4)
    assert (bert.deadline.latency_s, bert.deadline.quantile, str(bert.load)) == (0.06, 0.99, "poisson(20)")
    assert str(file.sharing) == "mps[40]"


def test_a_plan_is_served_with_its_software(tmp_path):
    names = ("eager", "graphs", "onnxruntime")
    specs = [read_tenants(written(tmp_path, plan(software=name))).tenants["bert"].spec() for name in names]
    assert [spec.software for spec in specs] == [None, "graphs", "onnxruntime"]


def test_software_that_only_simulated_gpus_have_is_refused_at_start(tmp_path):
    entry = "{workload: bert-base-mini, slo: 1s, rate: 1/s, software: onnxruntime}"
    file = read(tmp_path, f"device: cpu:0\ntenants: {{a: {entry}}}\n")
    with pytest.raises(ServingError, match="can't serve with `software: onnxruntime`"):
        simulate_contracts(file)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"runs": None}, r"1 problem\n.*:\d+: devices\.0\.tenants.bert.runs: expected a mapping"),
        ({"expected": {}}, "has no objective for bert"),
    ],
)
def test_unsupported_parts_of_a_plan_are_refused(tmp_path, changes, sentence):
    with pytest.raises(StudyError, match=sentence):
        read_tenants(written(tmp_path, plan(**changes)))


def test_a_plan_for_another_device_is_refused(tmp_path):
    with pytest.raises(StudyError, match="is a plan for sim:a100-sxm4-40gb, not for cpu"):
        read_tenants(written(tmp_path, plan()), "cpu")


def test_a_share_that_agrees_with_the_way_to_share_may_be_given_for_some_tenants_only(tmp_path):
    both = "  a: {workload: bert-base-mini, slo: 50ms, share: 60%}\n  b: {workload: resnet18-mini, slo: 50ms}\n"
    assert read(tmp_path, "sharing: [{mps: [60, 40]}]\ntenants:\n" + both).sharing.shares == (60.0, 40.0)
    with pytest.raises(StudyError) as refused:
        read(tmp_path, "sharing: [mps]\ntenants:\n" + both)
    assert "give every tenant a share, or none" in str(refused.value.problems)
