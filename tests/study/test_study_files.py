"""Reading a valid study file: forms, defaults, overrides, and writing it out again."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.errors import StudyError
from cotenant.study.files import load_study, study_from, study_from_text
from cotenant.study.model import BlocksEntry, Study
from cotenant.study.schema import builtin_names
from cotenant.tenancy.load import Load
from cotenant.tenancy.objective import Objective
from cotenant.tenancy.sharing import Sharing

TWO = {"bert": {"workload": "bert-base-mini"}, "gpt2": {"workload": "gpt2-mini"}}


def test_tenants_are_all_that_a_study_needs():
    study = study_from({"tenants": TWO})
    assert study.device == "cpu"
    assert study.sharings(modes=("processes", "threads")) == (Sharing(mode="processes"),)
    assert [mix.label for mix in study.mix_list()] == ["bert+gpt2"]
    assert study.loads == (Load(kind="closed"),)
    assert study.until is not None
    assert study.budget_s is not None


def test_a_study_is_named_after_its_file_unless_it_has_a_name(tmp_path: Path):
    file = tmp_path / "my study (2).yaml"
    file.write_text("tenants: {a: {workload: x}}\n")
    assert load_study(file).name == "my-study-2"
    file.write_text("name: other\ntenants: {a: {workload: x}}\n")
    assert load_study(str(file)).name == "other"


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("500ms", 0.5), ("2s", 2), ("2min", 120), ("1h", 3600), ("250us", 0.00025), (1.5, 1.5), (3, 3), (".5 s", 0.5)],
)
def test_times_are_written_with_their_unit_or_in_seconds(written: object, seconds: float):
    assert study_from({"tenants": TWO, "window": written, "budget": None}).window_s == seconds


@pytest.mark.parametrize(
    ("written", "slo"),
    [
        ("50ms", [("latency", 0.99, 50)]),
        ({"latency": "2s"}, [("latency", 0.99, 2000)]),
        ({"p99.9": "33.1ms"}, [("latency", 0.999, 33.1)]),
        ({"latency p50": "30ms"}, [("latency", 0.5, 30)]),
        ({"tpot p90": "40ms", "ttft p95": "300ms"}, [("ttft", 0.95, 300), ("tpot", 0.9, 40)]),
        ({"ttft": "200ms", "tpot": "30ms"}, [("ttft", 0.99, 200), ("tpot", 0.99, 30)]),
        ({"p99": "2s", "ttft p95": "300ms"}, [("latency", 0.99, 2000), ("ttft", 0.95, 300)]),
    ],
)
def test_an_objective_is_a_time_for_a_quantile_of_one_or_more_metrics(written: object, slo: list):
    entry = study_from({"tenants": {"a": {"workload": "x", "slo": written}}}).tenants["a"]
    assert entry.tenant("a", "a", Load(kind="closed")).slo == tuple(Objective(*one) for one in slo)
    again = study_from({"tenants": {"a": entry.model_dump(mode="json", by_alias=True, exclude_defaults=True)}})
    assert again.tenants["a"].slo == entry.slo


@pytest.mark.parametrize("metrics", ["/metrics", "http://127.0.0.1:8002/metrics", None])
def test_the_metrics_of_a_running_server_are_kept(metrics):
    entry = study_from({"tenants": {"a": {"workload": "openai:http://127.0.0.1:1", "server": {"metrics": metrics}}}})
    again = study_from(entry.model_dump(mode="json", by_alias=True, exclude_defaults=True)).tenants["a"].spec()
    assert (again.server, again.metrics) == (None, metrics)


def test_a_tenant_keeps_all_its_settings():
    entry = {
        "workload": "gpt2-mini",
        "batch": 2,
        "seq": 16,
        "dtype": "float32",
        "tf32": True,
        "attention": "unfused",
        "channels_last": True,
        "prefix_hits": "60%",
        "loading": "40ms",
        "mode": "generate",
        "tokens": 4,
        "software": "compile",
        "quantised": "int8",
        "parallel": 2,
        "train": False,
        "layers": "last 50%",
        "weights": "dir",
        "params": {"size": 3},
        "seed": 9,
        "load": "gamma(70%, 2)",
        "priority": -1,
        "share": 40,
        "threads": 1,
        "timing": "synchronised",
    }
    read = study_from({"tenants": {"a": entry}}).tenants["a"]
    tenant = read.tenant("a#1", "a", read.load or Load(kind="closed"))
    assert tenant.workload.model_dump() == {
        "name": "gpt2-mini",
        **{
            key: entry[key]
            for key in (
                *("batch", "seq", "dtype", "tf32", "attention", "mode", "tokens", "software", "quantised", "parallel"),
                *("train", "layers", "weights"),
            )
        },
        "channels_last": True,
        "prefix_hits": 0.6,
        "loading_s": 0.04,
        "params": {"size": 3},
        "seed": 9,
        "server": None,
        "metrics": "",
        "at_once": None,
    }
    assert (tenant.name, tenant.of, str(tenant.load)) == ("a#1", "a", "gamma(70%, 2)")
    assert (tenant.priority, tenant.share, tenant.threads, tenant.synchronised) == (-1, 40, 1, True)


def test_words_that_old_yaml_parses_as_other_types_are_names():
    study = study_from_text("tenants: {no: {workload: x}, 1:30: {workload: on}, 007: {workload: y}}", "s")
    assert tuple(study.tenants) == ("no", "1:30", "007")
    assert study.tenants["1:30"].workload == "on"
    assert study_from_text(study.to_yaml(), "s") == study


def test_a_fixed_number_of_blocks_stops_by_itself():
    study = study_from({"tenants": TWO, "blocks": 4})
    assert (study.blocks, study.until) == (BlocksEntry(min=4, max=4), None)
    assert study_from_text(study.to_yaml(), "s") == study


@pytest.mark.parametrize(
    ("change", "blocks", "until"),
    [
        ("blocks.max=3", BlocksEntry(min=3, max=3), False),
        ("blocks.max=2", BlocksEntry(min=2, max=2), False),
        ("blocks.min=12", BlocksEntry(min=12, max=12), False),
        ("blocks.max=5", BlocksEntry(min=3, max=5), True),
    ],
)
def test_one_end_of_the_number_of_blocks_can_be_set_alone(change: str, blocks: BlocksEntry, until: bool):
    file = {"tenants": TWO, "blocks": {"min": 3, "max": 10}, "until": {"interval": "3%"}}
    study = study_from(file, [change])
    assert study.blocks == blocks
    assert (study.until is not None) == until


def test_a_trace_is_found_beside_the_study_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "t.csv").write_text("arrival_s\n0\n1\n")
    (tmp_path / "s.yaml").write_text("tenants: {a: {workload: x, load: 'trace(t.csv)'}}\nloads: ['trace(t.csv, 5%)']\n")
    monkeypatch.chdir("/")
    study = load_study(tmp_path / "s.yaml")
    assert study.loads[0].path == str(tmp_path / "t.csv")
    assert study.tenants["a"].load == Load(kind="trace", path=str(tmp_path / "t.csv"))
    assert study_from_text(study.to_yaml(), "s") == study


def test_overrides_replace_values_of_the_file():
    study = load_study(
        "tenancy",
        [
            "tenants.llama-3.2-3b.batch=4",
            "tenants.bert-base.params.size=7",
            "tenants.tiny-1.5b={workload: gpt2-mini}",
            "window=2s",
            "sharing=[processes, {mps: [50]}]",
            "sharing.1=threads",
            "until.interval=5%",
            "device=cuda:0",
            "about=",
            "about='again'",
        ],
    )
    assert study.tenants["llama-3.2-3b"].batch == 4
    assert study.tenants["bert-base"].params == {"size": 7}
    assert study.tenants["tiny-1.5b"].workload == "gpt2-mini"
    assert study.window_s == 2
    assert study.sharing == (Sharing(mode="processes"), Sharing(mode="threads"))
    assert study.until is not None
    assert study.until.interval == 0.05
    assert (study.device, study.about) == ("cuda:0", "again")


def test_overriding_the_number_of_blocks_cancels_the_precision_target():
    assert load_study("quick", ["blocks=1"]).until is None
    with pytest.raises(StudyError):
        load_study("quick", ["blocks=1", "until={interval: 3%}"])


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("window", "expected key=value, such as window=2s or tenants.bert.batch=8"),
        ("=3", "expected key=value, such as window=2s or tenants.bert.batch=8"),
        ("window=2x", 'window: expected a time such as 500ms, 2s or 2min, not "2x"'),
        ("widnow=2s", 'widnow: unknown key; did you mean "window"?'),
        ("tenants.encoder.btach=8", 'tenants.encoder.btach: unknown key; did you mean "batch"?'),
        ("tenants.encodr.batch=8", 'there is no tenant "encodr" in this study; did you mean "encoder"?'),
        ("tenants.new=8", 'there is no tenant "new" in this study'),
        ("device.x=3", "device: expected text, not a mapping"),
        ("sharing.0=threads", 'sharing is "all" here, not a mapping; replace it entirely'),
        ("mixes.7=solo", 'mixes is a list; expected a position from 0 to 1, not "7"'),
        ("window=!!python/x 3", 'tags such as "!!python/x" are not used here'),
        ("window=*a", "anchors (&) and aliases (*) are not used here; write the value out"),
    ],
)
def test_an_invalid_override_is_named(override: str, sentence: str):
    with pytest.raises(StudyError) as caught:
        load_study("quick", [override])
    assert caught.value.problems == (f"--set {override}: {sentence}",)


def test_problems_of_overrides_and_of_the_file_are_reported_together(tmp_path: Path):
    file = tmp_path / "s.yaml"
    file.write_text("tenants: {a: {workload: spin}}\nlead: x\n")
    with pytest.raises(StudyError) as caught:
        load_study(file, ["window=[", "seed=x"])
    places = [problem.removeprefix(str(tmp_path)).split(": ")[0] for problem in caught.value.problems]
    assert places == ["/s.yaml:2", "--set seed=x", "--set window=["]


@pytest.mark.parametrize("name", builtin_names())
def test_a_built_in_study_survives_a_round_trip(name: str):
    study = load_study(name)
    assert study_from_text(study.to_yaml(), name) == study


names = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters="/\\+#"), min_size=1, max_size=12
).filter(lambda name: name.isprintable() and name not in {".", ".."})
times = st.floats(min_value=1e-6, max_value=1e4, allow_nan=False)
rates = st.floats(min_value=0.01, max_value=400).map(lambda rate: float(f"{rate:.9g}"))
loads = st.one_of(
    st.integers(1, 99).map(lambda n: f"closed({n})"),
    rates.map(lambda rate: f"poisson({rate!r})"),
    st.tuples(st.integers(1, 999), st.integers(1, 9)).map(lambda pair: f"gamma({pair[0] / 10}%, {pair[1]})"),
)
entries = st.fixed_dictionaries(
    {"workload": st.sampled_from(["null", "1e3", "true", "~", "a: b", "x #y", "- z", "0x10", "1_000"])},
    optional={
        "batch": st.integers(1, 64),
        "params": st.dictionaries(names, st.one_of(st.integers(-9, 9), st.booleans(), st.none(), names), max_size=2),
        "load": loads,
        "slo": st.dictionaries(
            st.sampled_from(["p50", "p99.9", "ttft p95"]), times.map(lambda time: f"{time:.9f}s"), min_size=1
        ).filter(lambda slo: len(slo.keys() & {"p50", "p99.9"}) < 2),
        "share": st.just("3g.20gb"),
    },
)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    data=st.fixed_dictionaries(
        {"tenants": st.dictionaries(names, entries, min_size=1, max_size=3)},
        optional={
            "window": times,
            "lead": times,
            "until": st.one_of(st.none(), st.floats(0.0001, 0.9999).map(lambda share: {"interval": share})),
            "settings": st.lists(st.dictionaries(names, st.integers(0, 9), max_size=2), min_size=1, max_size=2),
            "loads": st.lists(loads, min_size=1, max_size=3),
            "sharing": st.sampled_from(["all", ["threads"], ["processes", {"mps": [60, 40]}]]),
        },
    )
)
def test_any_study_survives_a_round_trip(data: dict[str, object]):
    study = study_from({**data, "budget": None})
    again = study_from_text(study.to_yaml(), "again")
    assert again == study
    assert isinstance(again, Study)
