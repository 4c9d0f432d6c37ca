"""`serve --dry-run` of a file that is cut off, has wrong types or hostile names: every problem, its line, exit 1."""

import copy
import random
import re

import pytest
import yaml

from cotenant.cli.main import main
from cotenant.errors import ServingError
from cotenant.serving import dry_run
from tests.storm.mutating import mutated

TENANTS = """\
device: sim:a100-sxm4-40gb
sharing: [{mps: [60, 40]}]
tenants:
  embed: {workload: bert-base, batch: 4, rate: 100/s, slo: {p99: 30ms}, priority: 1}
  chat:
    workload: llama-3.2-1b
    software: vllm
    mode: generate
    tokens: 32
    seq: 128
    load: gamma(2, 2)
    slo: {ttft p95: 500ms, tpot p95: 60ms}
"""
WRONG = (None, 7, -1, True, 1e400, [], {}, "", "x", "\u202e$(id)`;\x1b[2J", "a" * 5000, [[[[]]]], {"a": {"b": 1}})


def paths(tree, above=()):
    """Every place of a tree."""
    yield above
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from paths(value, (*above, key))


def replaced(tree, path, value):
    """A copy with another value at a place."""
    tree = copy.deepcopy(tree)
    if not path:
        return value
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return tree


def renamed(tree, name):
    """A copy with another name of the first tenant."""
    tree = copy.deepcopy(tree)
    tree["tenants"] = {name if key == "embed" else key: entry for key, entry in tree["tenants"].items()}
    return tree


def wrong_types():
    tree = yaml.safe_load(TENANTS)
    for path in paths(tree):
        for value in WRONG:
            yield yaml.safe_dump(replaced(tree, path, value), sort_keys=False, allow_unicode=True)
    for name in WRONG:
        if not isinstance(name, (dict, list)):
            yield yaml.safe_dump(renamed(tree, name), sort_keys=False, allow_unicode=True)


def damaged(count):
    for seed in range(count):
        yield mutated(TENANTS.encode(), random.Random(seed))
    for end in range(0, len(TENANTS), 7):
        yield TENANTS[:end]


@pytest.fixture
def dry_run_of(tmp_path, monkeypatch, capsys):
    """Runs the verb in an empty folder, without the simulation: files that are sound after all are not the question."""
    read = []

    def sound(file, **_):
        read.append(file)
        raise ServingError("it is sound")

    monkeypatch.setattr(dry_run, "simulate_contracts", sound)
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.chdir(room)

    def run(content):
        file = tmp_path / "tenants.yaml"
        file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        read.clear()
        code = main(["serve", str(file), "--dry-run"])
        said = capsys.readouterr()
        assert list(room.iterdir()) == [], "nothing is written"
        return code, said, bool(read)

    return run


def judge(code, said, *, was_read):
    """What is wrong with an answer, if anything."""
    if was_read:
        return None
    if code != 1 or said.out:
        return f"exit {code}, {said.out[:200]}"
    if "should not have happened" in said.err or "Traceback" in said.err or not said.err.startswith("error: "):
        return said.err
    if any(not character.isprintable() and character != "\n" for character in said.err):
        return f"control characters: {said.err!r}"
    announced = re.search(r"has (\d+) problems?$", said.err.splitlines()[0])
    listed = re.findall(r"^  \S+?tenants\.yaml:\d+: ", said.err, re.MULTILINE)
    if announced and int(announced[1]) != len(listed):
        return f"{announced[1]} problems, {len(listed)} with lines: {said.err}"
    return None


@pytest.mark.parametrize("part", range(4))
def test_wrong_types_and_hostile_names_are_refused_with_their_lines(dry_run_of, part):
    for content in list(wrong_types())[part::4]:
        code, said, was_read = dry_run_of(content)
        assert judge(code, said, was_read=was_read) is None, content


def test_damaged_files_are_refused_in_a_sentence(dry_run_of):
    refused = 0
    for content in damaged(100):
        code, said, was_read = dry_run_of(content)
        assert judge(code, said, was_read=was_read) is None, content
        refused += not was_read
    assert refused > 50


def test_all_problems_are_named_at_once(dry_run_of):
    code, said, _ = dry_run_of(
        TENANTS.replace("batch: 4", "batch: four")
        .replace("tokens: 32", "tokenz: 32")
        .replace("p99: 30ms", "p99: soon")
        .replace("gamma(2, 2)", "gamma(2)")
    )
    assert code == 1
    assert re.findall(r"tenants\.yaml:(\d+): ", said.err) == ["4", "4", "9", "11"]
