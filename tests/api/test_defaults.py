"""The command line and the functions have the same defaults, and every public signature names public types."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import click
import pytest

import cotenant
from cotenant.cli.main import VERBS

CALLS = {
    "doctor": "doctor", "init": "init", "run": "run", "report": "report", "compare": "compare", "predict": "predict",
    "profile": "profile", "view": "view", "plan": "plan", "serve": "serve", "top": "top", "copies": "copies",
    "watch": "watch", "fleet": "fleet_job", "search": "search", "batch": "batch", "selftest": "selftest", "sql": "sql",
}  # fmt: skip
NAMED = {
    "run": {"tenants_of": "tenants"}, "sql": {}, "watch": {}, "plan": {"seconds": "seconds"},
    "search": {"names": "models"},
}  # fmt: skip
MORE = {"run": ("run_active", "dry_run"), "serve": ("promise",)}
"""Verbs of several functions: an option belongs to the first that has a parameter of its name."""
DIFFER = {
    ("copies", "blocks"): "the command line names the most, the function the least and the most",
    ("init", "device"): "the command line asks, if it can",
    ("compare", "runs"): "arguments",
    ("serve", "seconds"): "of `promise`: the simulated time",
}


def plain(value):
    if isinstance(value, Path):
        return str(value)
    if value is inspect.Parameter.empty or value in ((), None, "", False) or getattr(value, "name", "") == "UNSET":
        return None
    return value


def defaults():
    for verb, name in CALLS.items():
        command = import_module(f"cotenant.cli.{verb}").command
        functions = [getattr(cotenant, function) for function in (name, *MORE.get(verb, ()))]
        for option in command.params:
            if not isinstance(option, click.Option) or option.name in {"as_json", "quiet", "everything"}:
                continue
            key = NAMED.get(verb, {}).get(option.name, option.name)
            known = [inspect.signature(function).parameters for function in functions]
            theirs = next((parameters[key] for parameters in known if key in parameters), None)
            if theirs is not None and (verb, option.name) not in DIFFER:
                yield verb, option.name, _default(command, option), theirs.default


def _default(command, option):
    """As the command gets it: converted, and passed through the option's callback."""
    context = click.Context(command)
    given = option.get_default(context)
    if plain(given) is None:
        return None
    value = option.type_cast_value(context, given)
    return option.callback(context, option, value) if option.callback else value


def test_options_and_parameters_have_the_same_defaults():
    compared = list(defaults())
    assert len(compared) > 60
    different = [row for row in compared if plain(row[2]) != plain(row[3])]
    assert different == []


METHODS_OF_PLANS = {
    "file": "tenants", "checking": "check", "was": "moves_from", "out": "write", "html": "page", "folder": "export",
    "target": "export", "study": None, "everything": None,
}  # fmt: skip
"""Options of `plan` about what becomes of the plan; without a method: what to print or write instead of it."""


def test_plan_takes_what_the_command_takes():
    options = {option.name for option in import_module("cotenant.cli.plan").command.params} - {"as_json"}
    parameters = set(inspect.signature(cotenant.plan).parameters)
    assert options - parameters == set(METHODS_OF_PLANS)
    assert parameters - options == {"tenants", "prices", "say", "quiet"}
    named = {name for name in METHODS_OF_PLANS.values() if name not in {None, "tenants"}}
    assert all(callable(getattr(cotenant.Plan, name)) for name in named)


def test_at_most_seventy_names_are_at_the_top():
    assert len(cotenant._HOME) <= 70


def test_every_verb_has_a_name_at_the_top():
    assert {verb for verb in VERBS if verb not in cotenant.__all__} == {"fleet", "studies", "devices", "workloads"}


PLAIN = {
    "str", "int", "float", "bool", "None", "NoneType", "Path", "PathLike", "tuple", "list", "dict", "Mapping",
    "Sequence", "Callable", "AsyncIterator", "Any", "Literal", "Self", "object",
}  # fmt: skip
"""Of Python's own library."""


@pytest.mark.parametrize("name", [name for name in cotenant._HOME if not name.endswith("Error") and name != "Study"])
def test_types_of_a_public_signature_are_public(name):
    value = getattr(cotenant, name)
    public = PLAIN | set(cotenant._HOME) | set(cotenant.types.__all__)
    functions = [value] if inspect.isfunction(value) else list(vars(value).values())
    for function in functions:
        if inspect.isfunction(function) and not function.__name__.startswith("_"):
            for annotation in inspect.get_annotations(function).values():
                words = annotation.__name__ if inspect.isclass(annotation) else str(annotation)
                words = re.sub(r"Literal\[.*?\]|\b[a-z_]\w*\.", "", words)
                assert set(re.findall(r"[A-Za-z_]\w*", words)) <= public, (function.__qualname__, annotation)
