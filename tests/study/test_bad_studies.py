"""Every mistake in a study file gets one plain sentence with its file, line and key; all of them at once."""

from pathlib import Path

import pytest

from cotenant.errors import StudyError
from cotenant.study.files import LARGEST_FILE, load_study, study_from, study_from_text
from cotenant.study.schema import builtin_names

GOOD = "tenants: {bert: {workload: bert-base-mini}, gpt2: {workload: gpt2-mini}}\n"
MIX_WORDS = (
    "solo, pairs, all, {copies: {tenant: [2, 3]}}, {replicas: {tenant: [2, 3]}}, "
    "{beside: {tenant: [tenant]}} or {groups: {name: [tenant, tenant]}}"
)
STUDY_KEYS = (
    "name, about, device, tenants, mixes, sharing, shares, settings, spread, devices, turns, before, pause, loads, "
    "window, lead, until, budget, blocks, fresh, alone_stopped, seed, prices, fairness, cache_memory, "
    "threads, admin_key"
)
TENANTS_EXAMPLE = "{bert-mini: {workload: bert-base-mini, batch: 4}}"
LOADS = "closed(n), poisson(rate), gamma(rate, cv), trace(file.csv, rate)"
MODES = "processes, threads, streams, exclusive, mps, mps-static, green, mig, pinned, scheduled"


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def problems_of(text: str) -> list[str]:
    Path("s.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(StudyError) as caught:
        load_study("s.yaml")
    assert caught.value.hint
    return list(caught.value.problems)


BATCH = (
    "batch: batch is the number of items in one request; how many requests the software executes together is at_once: "
    "1..16"
)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("batch: x", 'batch: expected a whole number of at least 1, not "x"'),
        ("batch: 0", "batch: expected a whole number of at least 1, not 0"),
        ("batch: 1.5", "batch: expected a whole number of at least 1, not 1.5"),
        ("batch: true", "batch: expected a whole number of at least 1, not true"),
        ("batch:", "batch: expected a whole number of at least 1, not nothing"),
        ("batch: [1]", BATCH),
        ("batch: 99999999999999999999", 'batch: "99999999999999999999" is too long for a number'),
        ("btach: 4", 'btach: unknown key; did you mean "batch"?'),
        ("train: yes", 'train: expected true or false, not "yes"'),
        (
            "dtype: flaot16",
            'dtype: expected one of float64, float32, float16, bfloat16, int8, not "flaot16"; did you mean "float16"?',
        ),
        (
            "timing: pipelind",
            'timing: expected one of pipelined, synchronised, not "pipelind"; did you mean "pipelined"?',
        ),
        ("priority: high", 'priority: expected a whole number, not "high"'),
        ("share: 0", "share: expected a share of the device such as 40% or 3g.20gb, not 0"),
        ("ttft: 500ms", "ttft: unknown key; an objective goes below slo, such as slo: {ttft: 500ms}"),
        ("slo: p99 fast", 'slo: expected a time with its unit such as 50ms, not "fast"'),
        ("slo: 50", "slo: expected a time with its unit such as 50ms, not 50"),
        ("slo: {latency: 0ms}", 'slo: expected a time above 0, not "0ms"'),
        ("slo: {p0: 5ms}", 'slo: expected a quantile such as p99 or p99.9, not "p0"'),
        ("slo: {quantile: p99}", "slo: quantile is not an objective; expected p99, ttft p95, tpot p95 or the like"),
        (
            "slo: {}",
            "slo: expected an objective such as 50ms, {p99: 30ms} or {ttft p95: 300ms, tpot p95: 40ms}, not a mapping",
        ),
        ("slo: {ttft p95: 0.3}", "slo: expected a time with its unit such as 50ms, not 0.3"),
        (
            "slo: {p50: 1ms, p99: 2ms}",
            "slo: latency has more than one limit; give each metric one quantile and one time",
        ),
        ("slo: {itl: 3ms}", "slo: itl is not an objective; expected p99, ttft p95, tpot p95 or the like"),
        (
            "server: {start: vllm serve m}",
            "server: start has no {port}: cotenant chooses a free port and must pass it to the server",
        ),
        (
            "server: {ready: /health}",
            "server: start is missing, such as serve --port {port}; a running server has metrics only",
        ),
        ("server: {start: 'x {port}', ready: health}", "server.ready: expected a path such as /health"),
        ("load: poison(3)", f'load: expected a load ({LOADS}), not "poison(3)"; did you mean "poisson(3)"?'),
        ("load: poisson(0)", "load: rate must be above 0, not 0"),
        ("load: 5", "load: expected a load such as closed(1) or poisson(70%), not 5"),
        ("params: 5", "params: expected a mapping of the workload's own options such as {size: 2048}, not 5"),
        ("params: {size: .inf}", "params: size is inf; expected a finite number"),
        ("mode: !!python/name:os.system x", 'mode: tags such as "!!python/name:os.system" are not used here'),
        ("batch: !!int four", 'batch: tags such as "!!int" are not used here'),
    ],
)
def test_a_wrong_value_of_a_tenant(line: str, sentence: str):
    assert problems_of(f"tenants:\n  bert:\n    workload: spin\n    {line}\n") == [f"s.yaml:4: tenants.bert.{sentence}"]


def test_only_workloads_that_talk_to_a_server_have_one():
    text = "tenants:\n  bert:\n    workload: spin\n    server: {start: 'x {port}'}\n"
    assert problems_of(text) == [
        "s.yaml:2: tenants.bert: server is for workloads that talk to one: openai:, v2:, v2:grpc:, http:/path"
    ]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("widnow: 3s", 'widnow: unknown key; did you mean "window"?'),
        ("colour: red", f"colour: unknown key; expected one of {STUDY_KEYS}"),
        ("window: 2 seconds", 'window: expected a time such as 500ms, 2s or 2min, not "2 seconds"'),
        ("window: 0", "window: expected a time above 0, not 0"),
        ("window: .inf", "window: expected a time such as 500ms, 2s or 2min, not inf"),
        ("lead: -1", "lead: expected a time of at least 0, not -1"),
        ("until: 3%", 'until: expected a mapping such as {interval: 3%}, not "3%"'),
        ("until: {interval: 3}", "until.interval: expected a share between 0% and 100% such as 3%, not 3"),
        (
            "blocks: none",
            'blocks: expected a whole number of at least 1 or a mapping such as {min: 3, max: 30}, not "none"',
        ),
        ("blocks: {min: 5, max: 3}", "blocks: min is 5, which is more than max, 3"),
        ("blocks: {mn: 5}", 'blocks.mn: unknown key; did you mean "min"?'),
        ("fresh: window", 'fresh: expected one of study, block, trial, not "window"'),
        ("seed: 1e3", "seed: expected a whole number from 0 to 9223372036854775807, not 1000.0"),
        ("about: [1]", "about: expected a sentence, not a list"),
        ("device: ''", 'device: expected text, not ""'),
        ("mixes: pairs", 'mixes: expected a list such as [solo, pairs], not "pairs"'),
        ("mixes: []", "mixes: is an empty list; leave the key out for its default"),
        ("mixes: [piars]", f'mixes.0: expected {MIX_WORDS}, not "piars"; did you mean "pairs"?'),
        ("mixes: [{}]", "mixes.0: expected copies, replicas, beside or groups in this mapping"),
        ("mixes: [{copy: {bert: [2]}}]", 'mixes.0.copy: unknown key; did you mean "copies"?'),
        ("mixes: [{copies: {bert: 2}}]", "mixes.0.copies.bert: expected a list, not 2"),
        ("mixes: [{copies: {bert: [1]}}]", "mixes.0.copies.bert.0: expected a whole number from 2 to 1000, not 1"),
        (
            "mixes: [{copies: {bert: []}}]",
            "mixes.0.copies.bert: expected how many copies, such as [2, 3, 4], not an empty list",
        ),
        (
            "mixes: [{copies: {brt: [2]}}]",
            'mixes.0.copies.brt: there is no tenant "brt" in this study; did you mean "bert"?',
        ),
        (
            "mixes: [{groups: {both: [bert, gpt]}}]",
            'mixes.0.groups.both.1: there is no tenant "gpt" in this study; did you mean "gpt2"?',
        ),
        (
            "mixes: [{groups: {none: []}}]",
            "mixes.0.groups.none: a group needs at least 2 tenants, not 0; solo trials are always measured",
        ),
        (
            "mixes: [{groups: {bert: [bert, gpt2]}}]",
            'mixes.0.groups.bert: a tenant is called "bert" too; rename one of them',
        ),
        (
            "mixes: [{groups: {x+y: [bert, gpt2]}}]",
            'mixes.0.groups.x+y: a name with + must be that of the members, "bert+gpt2"',
        ),
        ("sharing: some", 'sharing: expected all or a list such as [processes, threads], not "some"'),
        ("sharing: [thread]", f'sharing.0: expected one of {MODES}, not "thread"; did you mean "threads"?'),
        (
            "sharing: [alone]",
            "sharing.0: alone is the sharing of solo trials, which are always measured; it can't be listed",
        ),
        ("sharing: [{threads: [1, 2]}]", "sharing.0: threads doesn't split the device, so it takes no shares"),
        (
            "sharing: [{mps: [120, 1]}]",
            "sharing.0: shares of mps are percentages of the device, above 0 and at most 100",
        ),
        ("sharing: [{mps: 60}]", "sharing.0: expected a list of shares such as {mps: [60, 40]}, not 60"),
        ("sharing: [{mps: [9, 9, 9]}]", 'sharing.0: mps[9, 9, 9] has 3 shares, but the mix "bert+gpt2" has 2 tenants'),
        (
            "mixes: [{copies: {bert: [2, 3, 4]}}, {groups: {t: [bert, bert, gpt2]}}]\nsharing: [{mps: [50, 50]}]",
            'sharing.0: mps[50, 50] has 2 shares, but the mix "bert x3" has 3 tenants (and 2 more mixes differ)',
        ),
        ("settings: {a: 1}", "settings: expected a list such as [{}, {power_limit_w: 250}], not a mapping"),
        ("loads: closed(1)", 'loads: expected a list such as [closed(1), poisson(70%)], not "closed(1)"'),
        ("loads: ['trace(no.csv, 5)']", 'loads.0: there is no trace file "no.csv" beside the study (in {folder})'),
        (
            "window: 2s\nlead: 300ms\nbudget: 10s",
            (
                "budget: 10s is too short for 3 blocks of at least 3 trials, 20.7s; "
                "raise it, shorten the window or lower blocks.min"
            ),
        ),
        (
            "name: ../../etc",
            (
                "name: \"../../etc\" can't name a folder; use letters, digits, spaces, '-', '_' and '.', "
                "beginning with a letter"
            ),
        ),
    ],
)
def test_a_wrong_value_of_the_study(line: str, sentence: str):
    last = line.count("\n") + 2
    assert problems_of(f"{GOOD}{line}\n") == [f"s.yaml:{last}: {sentence.replace('{folder}', str(Path.cwd()))}"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a/b", "a/b: a name can't contain any of / \\ + #: they structure mixes and paths"),
        ("a+b", "a+b: a name can't contain any of / \\ + #: they structure mixes and paths"),
        ("a#1", "a#1: a name can't contain any of / \\ + #: they structure mixes and paths"),
        ("", '"": expected a name, not ""'),
        (" a", " a: a name can't begin or end with a space, contain a line break, or consist of dots"),
        ("..", "..: a name can't begin or end with a space, contain a line break, or consist of dots"),
        ("\\e[31mred", '"\\u001b[31mred": contains control characters; use printable text'),
        ("a" * 81, "a" * 57 + "...: is 81 characters long; at most 80 are allowed"),
    ],
)
def test_an_invalid_name(name: str, sentence: str):
    assert problems_of(f'tenants:\n  "{name}": {{workload: spin}}\n') == [f"s.yaml:2: tenants.{sentence}"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "s.yaml:1: is empty; expected a mapping with the key tenants"),
        ("# nothing\n", "s.yaml:1: is empty; expected a mapping with the key tenants"),
        ("- a\n", "s.yaml:1: holds a list; expected a mapping with the key tenants"),
        ("hello", 's.yaml:1: holds "hello"; expected a mapping with the key tenants'),
        ("window: 1s\n", f"s.yaml:1: tenants is missing, such as {TENANTS_EXAMPLE}"),
        ("tenants: {}\n", "s.yaml:1: tenants: is empty; name at least one tenant"),
        (
            "tenants: [a]\n",
            f"s.yaml:1: tenants: expected a mapping such as {TENANTS_EXAMPLE}, not a list",
        ),
        (
            "tenants: {a: {workload: spin}}\nmixes: [pairs]\n",
            "s.yaml:2: mixes: a mix needs 2 tenants, and there is 1; write [solo] to measure it alone",
        ),
        ("tenants:\n  a: 3\n", "s.yaml:2: tenants.a: expected a mapping such as {workload: bert-base-mini}, not 3"),
        ("tenants:\n  a: {batch: 3}\n", "s.yaml:2: tenants.a: workload is missing, such as bert-base-mini"),
        ("tenants:\n\ta: {workload: spin}\n", "s.yaml:2: a tab where YAML requires spaces; indent with spaces"),
        ("tenants: {a: [1\nb: 2\n", "s.yaml:2: not valid YAML: expected ',' or ']', but got ':' (begun on line 1)"),
        (
            "about: this: that\n",
            (
                "s.yaml:1: not valid YAML: a second ': ' on this line, or wrong indentation; "
                "quote text that contains ': '"
            ),
        ),
        (f"{GOOD}---\na: 1\n", "s.yaml:2: a second document (---) begins here; the file must be one document"),
        (f"{GOOD}window: 1s\nwindow: 2s\n", "s.yaml:2: window: occurs twice, here and on line 3; keep one"),
        (
            "tenants: {? [a] : {workload: spin}, b: {workload: spin}}\n",
            "s.yaml:1: tenants: line 1 has a list or mapping as a key; keys are text",
        ),
        ("tenants: {a\x01: 1}\n", "s.yaml:1: contains a control character; the file must be plain text"),
        ("a: " + "[" * 50 + "]" * 50, "s.yaml:1: nested more than 20 levels deep"),
        (
            "a: &a [x]\nb: &b [*a, *a]\n",
            "s.yaml:1: anchors (&) and aliases (*) are not used here; write the value out",
        ),
    ],
)
def test_a_file_that_is_not_a_study(text: str, problem: str):
    assert problems_of(text) == [problem]


def test_a_load_with_a_comma_in_a_flow_list_says_how_to_write_it():
    first, _ = problems_of(f"{GOOD}loads: [gamma(20, 2)]\n")
    assert first == (
        's.yaml:2: loads.0: "gamma(20" is cut short; a load with a comma needs quotes inside [...]: "gamma(20, 2)"'
    )


def test_all_problems_come_at_once_in_the_order_of_the_file():
    text = """\
tenants:
  bert: {workload: bert-base-mini, batch: x}
  gpt2: {workload: gpt2-mini, load: "trace(none.csv)"}
mixes:
  - copies: {brt: [2], gpt2: [1]}
  - groups: {both: [bert, gpt]}
sharing: [proceses]
blocks: {min: 4, max: 2}
widnow: 1s
"""
    keys = [problem.split(": ")[:2] for problem in problems_of(text)]
    assert keys == [
        ["s.yaml:2", "tenants.bert.batch"],
        ["s.yaml:3", "tenants.gpt2.load"],
        ["s.yaml:5", "mixes.0.copies.gpt2.0"],
        ["s.yaml:5", "mixes.0.copies.brt"],
        ["s.yaml:6", "mixes.1.groups.both.1"],
        ["s.yaml:7", "sharing.0"],
        ["s.yaml:8", "blocks"],
        ["s.yaml:9", "widnow"],
    ]


def test_a_tenant_that_is_wrong_is_no_reason_to_call_the_budget_too_short():
    text = (
        "tenants:\n  a: {workload: spin, load: poisson(6)}\n  b: {workload: spin, load: poisson(6)}\n"
        "  c: {workload: spin, load: poison(6)}\nwindow: 10s\nblocks: 3\nbudget: 220s\n"
    )
    assert study_from_text(text.replace("poison(", "poisson("), source="s.yaml").budget_s == 220
    [problem] = problems_of(text)
    assert problem.startswith("s.yaml:4: tenants.c.load: ")


def test_until_needs_room_between_the_smallest_and_the_largest_number_of_blocks():
    assert problems_of(f"{GOOD}until: {{interval: 3%}}\nblocks: 3\n") == [
        "s.yaml:2: until: has no room: the number of blocks is fixed at 3; give blocks a min and a larger max"
    ]


def test_an_unknown_workload_is_named_beside_the_other_problems():
    problems = problems_of("tenants:\n  bert: {workload: bert-base-minni, batch: 0}\nwindow: soon\n")
    assert [problem.split(": ")[:2] for problem in problems] == [
        ["s.yaml:2", "tenants.bert.batch"],
        ["s.yaml:2", "tenants.bert.workload"],
        ["s.yaml:3", "window"],
    ]
    assert "did you mean bert-base-mini" in problems[1]


def test_a_trace_is_read_before_anything_is_measured():
    Path("t.csv").write_text("arrival_s\n0\nsoon\n")
    [problem] = problems_of(f"{GOOD}loads: [trace(t.csv)]\n")
    assert problem.startswith("s.yaml:2: loads.0: the trace ")
    assert problem.endswith("has no arrival time in line 3; give one number of seconds per row")


def test_more_requests_than_a_trial_can_hold_are_refused():
    assert problems_of(f"{GOOD}loads: [poisson(1e9)]\nwindow: 2s\nlead: 0s\n") == [
        "s.yaml:2: loads.0: poisson(1000000000) means 2e+09 requests in one trial; at most 10,000,000 are sent"
    ]


def test_two_traces_of_one_name_are_refused():
    for folder in ("a", "b"):
        Path(folder).mkdir()
        Path(folder, "t.csv").write_text("arrival_s\n0\n1\n")
    assert problems_of(f"{GOOD}loads: [trace(a/t.csv), trace(b/t.csv)]\n") == [
        "s.yaml:2: loads.1: trace(t.csv) refers to two different files; rename one of the traces"
    ]


def test_a_study_of_absurd_size_is_refused_quickly():
    many = "".join(f"  t{index}: {{workload: spin}}\n" for index in range(201))
    assert problems_of(f"tenants:\n{many}") == ["s.yaml:1: tenants: has 201 tenants; at most 200 are allowed"]
    many = "".join(f"  t{index}: {{workload: spin}}\n" for index in range(200))
    loads = ", ".join(f"closed({n})" for n in range(1, 10))
    [problem] = problems_of(f"loads: [{loads}]\ntenants:\n{many}")
    assert problem == "s.yaml:1: a block would have 180900 trials; at most 100000 are allowed"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("quik", 'there is no study "quik", neither a file nor a built-in one; did you mean "quick"?'),
        (
            "sub/quik.yaml",
            'there is no study "sub/quik.yaml", neither a file nor a built-in one; did you mean "quick"?',
        ),
        ("nothing", 'there is no study "nothing", neither a file nor a built-in one'),
        ("a\0b", 'there is no study "a\\u0000b", neither a file nor a built-in one'),
        ("/dev/zero", '"/dev/zero" is not a regular file'),
        (".", '"." is a directory, not a study file'),
    ],
)
def test_a_missing_file(name: str, sentence: str):
    with pytest.raises(StudyError) as caught:
        load_study(name)
    assert caught.value.message == sentence
    assert ", ".join(builtin_names()) in str(caught.value.hint)


def test_a_missing_file_of_tenants_can_be_written():
    with pytest.raises(StudyError) as caught:
        load_study("my models.yaml")
    assert caught.value.hint == "write it: cotenant init --out 'my models.yaml'"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"PK\x03\x04\x00\x00", "s.yaml is not a text file"),
        (b"\xff\xfe\xfd", "s.yaml is not a text file"),
        (b"#" * (LARGEST_FILE + 1), "s.yaml is larger than 256 KiB, too large for a study"),
    ],
)
def test_a_file_of_another_kind(content: bytes, sentence: str):
    Path("s.yaml").write_bytes(content)
    with pytest.raises(StudyError, match=sentence):
        load_study("s.yaml")


def test_data_and_text_without_a_file_are_judged_by_the_same_rules():
    with pytest.raises(StudyError) as caught:
        study_from({"tenants": {"a": {"workload": "spin", "batch": 0}}})
    assert caught.value.problems == ("tenants.a.batch: expected a whole number of at least 1, not 0",)
    with pytest.raises(StudyError) as caught:
        study_from_text("tenants: [", "manifest")
    assert caught.value.problems[0].startswith("manifest:1: not valid YAML: ")


def test_hostile_names_are_taken_as_plain_text():
    names = (
        "<script>alert(1)</script>".replace("/", ""),
        "'; drop table trials; --",
        "[bold]x[end]",
        "$(reboot)",
        "模型",
    )
    study = study_from({"tenants": {name: {"workload": "null"} for name in names}})
    assert tuple(study.tenants) == names
    assert study_from_text(study.to_yaml(), "again") == study


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("mixes: [{copies: {a: [3], ..: [3]}}]\ntenants:\n  a: {workload: bert-base}\n", ["mixes.0.copies...: a name"]),
        ("tenants:\n  ..: {workload: bert-base}\n", ["tenants...: a name can't"]),
        (f"tenants:\n  a: {{workload: {'x' * 5000}}}\n", ["5000 characters long"]),
    ],
)
def test_names_that_no_file_could_have_are_problems_of_their_line_only(tmp_path, text, sentences):
    from cotenant.planning.inputs.tenants import tenants_to_plan

    path = tmp_path / "tenants.yaml"
    path.write_text(text, encoding="utf-8")
    for read in (load_study, tenants_to_plan):
        with pytest.raises(StudyError) as caught:
            read(path)
        problems = caught.value.problems
        assert all(any(sentence in problem for problem in problems) for sentence in sentences)
        assert not any("null" in problem for problem in problems)
