"""One tenants file for every verb: what it says, what is refused, and what a verb does without."""

import pytest

from cotenant.errors import StudyError
from cotenant.planning.inputs.tenants import tenants_to_plan
from cotenant.planning.mixes.tenants import planned
from cotenant.serving.tenants_file import read_tenants
from cotenant.study.files import load_study
from cotenant.tenancy.tenant_entry import demands

READERS = (load_study, tenants_to_plan, read_tenants)


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "tenants.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refused(read, path):
    with pytest.raises(StudyError) as caught:
        read(path)
    return "\n".join(caught.value.problems)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("batch: 1..16", "how many requests the software executes together is at_once: 1..16"),
        ("at_once: 0", "tenants.a.at_once: expected a number of requests such as 8, a range such as 1..16, or auto"),
        ("share: 0.4", "tenants.a.share: expected a share of the device such as 40% or 3g.20gb, not 0.4; did you mean"),
        ("sahre: 40%", 'tenants.a.sahre: unknown key; did you mean "share"?'),
        ("load: poisson(3)", "tenants.a: expected one of rate, load and job, not rate and load"),
        ("isolation: group", "tenants.a.isolation: expected one of any, process, mig"),
    ],
)
def test_every_verb_refuses_what_none_knows_with_its_line(written, read, line, sentence):
    path = written(f"tenants:\n  a:\n    workload: bert-base-mini\n    rate: 2/s\n    slo: 1s\n    {line}\n")
    text = refused(read, path)
    assert sentence in text
    assert f"{path}:6" in text or "tenants.a: expected" in text


@pytest.mark.parametrize("read", READERS)
def test_shares_given_twice_agree_or_are_refused(written, read):
    file = (
        "sharing: {{mps: [60, 40]}}\ntenants:\n"
        "  a: {{workload: bert-base-mini, rate: 2/s, slo: 1s, share: {}}}\n"
        "  b: {{workload: bert-base-mini, rate: 2/s, slo: 1s}}\n"
    )
    assert "tenants.a.share: is 50%, but sharing: mps[60, 40] gives it 60%" in refused(
        read, written(file.format("50%"))
    )
    if read is not read_tenants:  # which needs a share of every tenant or of none
        assert read(written(file.format("60%"))).tenants["a"].share == 60


def test_a_batch_is_the_items_of_a_request_for_every_verb(written):
    path = written("tenants: {a: {workload: bert-base-mini, batch: 8, at_once: 4, rate: 100/s, slo: 1s}}")
    measured, to_plan, served = (read(path).tenants["a"] for read in READERS)
    assert measured.spec().batch == to_plan.spec().batch == served.spec().batch == 8
    assert planned({"a": to_plan})[0].batches == (4,)
    assert planned({"a": to_plan})[0].rate_rps == measured.load.rate_rps == served.load.rate_rps == 100
    assert to_plan.spec(4).batch == 32
    assert served.most_at_once == 4


def test_requests_and_items_are_shown_in_a_line_for_each_tenant_with_a_rate(written):
    path = written(
        "tenants: {a: {workload: bert-base-mini, batch: 8, rate: 100/s}, b: {workload: bert-base-mini},"
        " c: {workload: bert-base-mini, load: poisson(3)}, d: {workload: bert-base-mini, rate: 1/s},"
        " e: {workload: bert-base-mini, rate: 12000/s}}"
    )
    assert demands(load_study(path).tenants) == [
        "a: 100 requests/s of 8 items, 800 items/s",
        "c: 3 requests/s, 3 items/s",
        "d: 1 request/s, 1 item/s",
        "e: 12,000 requests/s, 12,000 items/s",
    ]


def test_a_verb_names_what_it_needs_and_the_file_lacks(written):
    path = written("tenants: {a: {workload: bert-base-mini}}")
    assert load_study(path).tenants
    assert "tenants.a: a plan needs a rate such as rate: 20/s" in refused(tenants_to_plan, path)
    assert "tenants.a: serve needs an objective, such as slo: 50ms" in refused(read_tenants, path)


def test_serve_takes_one_way_to_share_with_the_tenants_shares_and_leaves_jobs_out(written):
    file = (
        "sharing: {}\ntenants:\n"
        "  a: {{workload: bert-base-mini, slo: 1s, share: 70%}}\n"
        "  b: {{workload: bert-base-mini, slo: 1s, share: 30%}}\n"
        "  c: {{workload: bert-base-mini, train: true, job: {{time: 1h}}}}\n"
    )
    divided = read_tenants(written(file.format("[mps]")))
    assert (list(divided.tenants), str(divided.sharing)) == (["a", "b"], "mps[70, 30]")
    turns = read_tenants(written(file.format("[processes, mps]")))
    assert not turns.divided
    assert [contract.share for contract in turns.contracts()] == [0.7, 0.3]


ORDERED = "sharing: scheduled\ntenants: {{a: {{workload: llama-3.2-1b, mode: generate, {}}}}}"


def test_a_server_orders_requests_of_its_own_models_that_are_due(written):
    path = written(ORDERED.format("slo: {ttft: 1s, tpot: 50ms}, rate: 2/s"))
    assert [way.mode for way in load_study(path).sharings(())] == ["scheduled"]
    assert not read_tenants(path).divided


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("rate: 2/s", "scheduled needs an objective, such as slo: 50ms: a"),
        ("rate: 2/s, slo: {tpot: 50ms}", "scheduled needs a deadline; state one latency, or ttft and tpot: a"),
        ("slo: 1s", "scheduled needs requests that arrive at a rate, such as rate: 20/s: a"),
        ("slo: 1s, rate: 2/s, software: vllm", "scheduled needs models that the server runs itself: a"),
        ("slo: 1s, rate: 2/s, best_effort: true, share: 40%", "scheduled needs a contract; "),
    ],
)
def test_what_a_server_can_t_order_is_refused(written, keys, sentence):
    assert sentence in refused(load_study, written(ORDERED.format(keys)))


@pytest.mark.parametrize(
    ("short", "long"),
    [("30ms", "{p99: 30ms}"), ("p95 30ms", "{p95: 30ms}"), ("ttft p95 0.5s", "{ttft p95: 500ms}")],
)
def test_an_objective_is_read_alike_in_short_and_at_length(written, short, long):
    path = "tenants: {{a: {{workload: bert-base, rate: 1/s, slo: {}}}}}"
    brief, whole = (load_study(written(path.format(slo))).tenants["a"].slo for slo in (short, long))
    assert brief == whole != ()


@pytest.mark.parametrize(("text", "rps"), [("1.5e2/s", 150.0), ("3E2/min", 5.0), ("1e-1/s", 0.1), (".5/h", 0.5 / 3600)])
def test_a_rate_is_any_number_with_its_unit(written, text, rps):
    path = written(f"tenants:\n  a: {{workload: bert-base-mini, rate: {text}, slo: 1s}}\n")
    assert tenants_to_plan(path).tenants["a"].load.rate_rps == pytest.approx(rps)


@pytest.mark.parametrize("text", ["e2/s", "1e/s", "1e1000/s", "0/s", "0e5/s"])
def test_a_rate_that_is_no_number_above_0_is_refused(written, text):
    path = written(f"tenants:\n  a: {{workload: bert-base-mini, rate: {text}, slo: 1s}}\n")
    assert "tenants.a.rate: expected a rate" in refused(tenants_to_plan, path)
