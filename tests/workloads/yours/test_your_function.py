"""`package.module:function`: its arguments, its return values, and how its mistakes are reported."""

import sys
from pathlib import Path

import pytest

from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.yours import recognise
from cotenant.workloads.yours.function import Function


class Here:
    torch_device = "cpu"
    default_dtype = "float32"


@pytest.fixture
def module(tmp_path: Path, monkeypatch):
    """Write a user's module into the current directory and return its name."""
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    count = 0

    def write(source: str) -> str:
        nonlocal count
        count += 1
        name = f"users_module_{tmp_path.name.replace('-', '_')}_{count}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("users_module_"):
            del sys.modules[name]


def serve(built):
    value = None
    for stage in built.stages:
        for _ in range(stage.repeat):
            value = stage.run(value)
    return value


def build(name: str, **fields):
    spec = WorkloadSpec(name=name, **fields)
    workload = recognise(name)
    assert isinstance(workload, Function)
    return workload.build(spec, Here())


def refusal(name: str, **fields) -> WorkloadError:
    with pytest.raises(WorkloadError) as refused:
        build(name, **fields)
    return refused.value


def refusal_before(name: str, **fields) -> WorkloadError:
    with pytest.raises(WorkloadError) as refused:
        recognise(name).check(WorkloadSpec(name=name, **fields))
    return refused.value


def test_it_gets_the_arguments_it_names(module):
    source = "def make(batch, *, seq=None, device, dtype, seed, params):\n"
    source += "    said = (batch, seq, device, dtype, seed, dict(params))\n    return lambda: said\n"
    name = module(source)
    built = build(f"{name}:make", batch=4, seq=16, dtype="bfloat16", seed=7, params={"width": 3})
    assert serve(built) == (4, 16, "cpu", "bfloat16", 7, {"width": 3})
    assert built.dtype == "bfloat16"


def test_it_need_not_take_any(module):
    name = module("def make():\n    return lambda: 'served'\n")
    built = build(f"{name}:make")
    assert [stage.name for stage in built.stages] == ["compute"]
    assert serve(built) == "served"
    assert built.dtype == "unknown"


def test_keyword_catch_alls_get_everything(module):
    name = module("def make(**told):\n    return lambda: sorted(told)\n")
    assert serve(build(f"{name}:make")) == ["batch", "device", "dtype", "params", "seed", "seq"]


def test_pairs_are_stages_that_pass_on_their_results(module):
    name = module(
        "def make():\n    return [('load_data', lambda: 20), ('compute', lambda x: x + 1), ('log', lambda: 'logged')]\n"
    )
    built = build(f"{name}:make")
    assert [stage.name for stage in built.stages] == ["load_data", "compute", "log"]
    assert [stage.run(20) for stage in built.stages] == [20, 21, "logged"]


def test_an_object_with_stages_keeps_them_and_is_closed(module):
    name = module(
        "from cotenant.workloads.protocol import Stage\n"
        "class Server:\n"
        "    closed = False\n"
        "    def __init__(self):\n"
        "        self.stages = [Stage('decode', lambda x: (x or 0) + 1, repeat=3, first_output=True)]\n"
        "    def close(self):\n"
        "        Server.closed = True\n"
    )
    built = build(f"{name}:Server")
    assert serve(built) == 3
    assert built.stages[0].first_output
    built.close()
    assert sys.modules[name].Server.closed


def test_the_current_directory_is_importable_for_this_only(module, tmp_path):
    name = module("def make():\n    return lambda: None\n")
    before = list(sys.path)
    build(f"{name}:make")
    assert sys.path == before


def test_only_stated_costs_are_known(module):
    name = module("def make():\n    return lambda: None\n")
    workload = recognise(f"{name}:make")
    nothing = workload.properties(WorkloadSpec(name=workload.name))
    assert (nothing.params, nothing.flops, nothing.bytes_moved, nothing.peak_memory_bytes) == (None,) * 4
    spec = WorkloadSpec(name=workload.name, params={"stated": {"flops": 2e9, "memory": "2MiB"}})
    stated = workload.properties(spec)
    assert (stated.flops, stated.peak_memory_bytes) == (2e9, 2 * 2**20)
    assert build(workload.name, params=spec.params).facts["stated"] == {"flops": 2e9, "memory": 2 * 2**20}


def test_checking_never_imports_the_module_into_this_process(module, capfd):
    name = module("print('hello from import')\ndef make():\n    return lambda: None\n")
    recognise(f"{name}:make").check(WorkloadSpec(name=f"{name}:make"))
    assert name not in sys.modules
    assert capfd.readouterr().out == ""


def test_a_missing_module_is_reported_with_the_nearest(module):
    name = module("def make():\n    return lambda: None\n")
    error = refusal_before(f"{name}x:make")
    assert error.message.startswith(f"there is no module `{name}x` for `{name}x:make`")
    assert error.hint == f"did you mean {name}?"


def test_a_missing_function_is_reported_with_the_nearest(module):
    name = module("def make_model():\n    return lambda: None\n")
    error = refusal_before(f"{name}:make_modle")
    assert error.message == f"`{name}` has no `make_modle`"
    assert error.hint == f"did you mean {name}:make_model?"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "import numpy\nimport not_there_at_all\n",
            "ModuleNotFoundError: No module named 'not_there_at_all' ({file}:2)",
        ),
        ("x = 1\nraise RuntimeError('no licence')\n", "RuntimeError: no licence ({file}:2)"),
        ("def make(:\n    pass\n", "SyntaxError: invalid syntax"),
        ("raise SystemExit(3)\n", "SystemExit: 3 ({file}:1)"),
    ],
)
def test_an_import_that_raises_is_reported_with_its_line(module, source, message):
    name = module(source)
    error = refusal_before(f"{name}:make")
    assert error.message.startswith(f"importing `{name}` raised {message.format(file=f'{name}.py')}")


def test_an_import_that_ends_the_process_is_reported(module):
    name = module("import os, sys\nprint('its last words', file=sys.stderr, flush=True)\nos._exit(9)\n")
    assert refusal_before(f"{name}:make").message.endswith("ended its process (exit code 9): its last words")


def test_an_error_while_building_is_reported_with_the_users_line(module):
    name = module("import json\n\ndef make():\n    text = '{'\n    return json.loads(text)\n")
    error = refusal(f"{name}:make")
    assert error.message.startswith(f"`{name}:make` raised while it was building: JSONDecodeError: Expecting property")
    assert error.message.endswith(f"({name}.py:5)")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", "returned None, which can't serve a request"),
        ("return 3", "returned an int, which can't serve a request"),
        ("return 'compute'", "returned a str, which can't serve a request"),
        ("return []", "returned no stages"),
        ("return [1]", "returned an int where a (stage name, callable) pair was expected"),
        ("return [('a', 1)]", "returned a tuple where a (stage name, callable) pair was expected"),
        ("return [('a', print), ('a', print)]", "returned two stages of one name (a, a)"),
        ("return lambda x, y: None", "returned a function that needs arguments (x, y), but a request brings none"),
        ("return [('a', lambda x, y: 0)]", "returned the stage `a` that needs 2 arguments (x, y)"),
        ("import torch; return torch.nn.Linear(2, 2)", "returned a Linear that needs arguments (input), but a request"),
        ("yield 1", "is an async or generator function, so calling it gave a generator and ran nothing"),
        ("def run():\n        yield 1\n    return run", "returned an async or generator function: calling it would"),
    ],
)
def test_invalid_return_values_are_refused_in_one_sentence(module, body, message):
    name = module(f"def make():\n    {body}\n")
    error = refusal(f"{name}:make")
    assert error.message.startswith(f"`{name}:make` {message}")
    assert error.hint.startswith("return a callable without arguments")


def test_async_functions_are_refused(module):
    name = module("async def make():\n    return lambda: None\n")
    assert "is an async or generator function" in refusal(f"{name}:make").message


@pytest.mark.parametrize(
    ("signature", "fields", "message"),
    [
        ("", {"batch": 2}, "does not take `batch`, but the tenant sets `batch: 2`"),
        ("batch", {"seq": 8}, "does not take `seq`, but the tenant sets `seq: 8`"),
        ("", {"params": {"a": 1}}, "does not take `params`, but the tenant sets `params: {'a': 1}`"),
        ("width", {}, "needs the argument `width`, which is not available"),
        ("batch, /", {}, "needs the argument `batch`, which is not available"),
        ("params", {"train": True}, "has no train, but the tenant sets `train: true`"),
        ("", {"params": {"stated": {"flop": 1}}}, "has no param `stated.flop`"),
    ],
)
def test_fields_it_would_never_see_are_refused(module, signature, fields, message):
    name = module(f"def make({signature}):\n    return lambda: None\n")
    assert refusal_before(f"{name}:make", **fields).message == f"`{name}:make` {message}"


def test_anything_but_a_function_is_refused(module):
    name = module("make = 3\n")
    assert refusal(f"{name}:make").message == f"`{name}:make` is an int, not a function"
