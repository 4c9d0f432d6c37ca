# ruff: noqa: INP001 - a script, not part of a package
"""Write the reference pages from the code, and results of experiments into the concepts, so that they stay true.

`make reference` writes them; a test fails if what is on disk differs.
"""

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import click

REFERENCE = Path(__file__).parent / "reference"
EXPERIMENTS = Path(__file__).parent / "experiments"
RULES = Path(__file__).parent / "concepts" / "measuring.md"
SLOT = re.compile(r"(<!-- experiment: (\w+) -->\n).*?(<!-- end of experiment -->)", flags=re.DOTALL)
NOTE = "<!-- Written by docs/generate.py from the code. Change the code, then `make reference`. -->\n\n"


def cli_page() -> str:
    """Every verb's help, as the terminal shows it."""
    from cotenant.cli.main import VERBS, cli

    top = click.Context(cli, info_name="cotenant", terminal_width=100, **cli.context_settings)
    parts = ["# The command line\n", _help(cli, top)]
    for verb in VERBS:
        command = cli.get_command(top, verb)
        assert command is not None
        inner = click.Context(command, info_name=verb, parent=top, terminal_width=100)
        parts += [f"## cotenant {verb}\n", _help(command, inner)]
        for name, part in getattr(command, "commands", {}).items():
            below = click.Context(part, info_name=name, parent=inner, terminal_width=100)
            parts += [f"### cotenant {verb} {name}\n", _help(part, below)]
    return "\n".join(parts)


def _help(command: click.Command, context: click.Context) -> str:
    return f"```text\n{command.get_help(context).rstrip()}\n```\n"


def records_page() -> str:
    """Every table and column."""
    from cotenant.tenancy.records import MANIFEST, SCHEMA_VERSION, TABLES

    parts = [
        "# The records of a run\n",
        f"Schema version {SCHEMA_VERSION}. Times ending in `_ns` are nanoseconds of one monotonic clock per machine.\n",
        'Ask them anything: `cotenant sql "select ..." RUN...`\n',
    ]
    for table, columns in TABLES.items():
        rows = [(f"`{column.name}`", column.type, column.meaning) for column in columns]
        parts += [f"## {table}\n", _table(("column", "type", "meaning"), rows)]
    entries = [(f"`{name}`", meaning) for name, meaning in MANIFEST.items()]
    parts += ["## manifest.json\n", "Facts of the run as a whole.\n", _table(("entry", "meaning"), entries)]
    return "\n".join(parts)


def study_page() -> str:
    """Every key of a study file, from its JSON Schema."""
    from cotenant.api.lists import schema

    whole = schema()
    parts = [
        "# Study files\n",
        "What a study may contain. `cotenant schema` prints the same as JSON Schema, for completion in an editor.\n",
        *_described(whole),
        *_keys(whole),
    ]
    for name, part in sorted(whole.get("$defs", {}).items()):
        parts += [f"## {name}\n", *_described(part), *_keys(part)]
    return "\n".join(parts)


def _described(part: Mapping[str, Any]) -> list[str]:
    return [inspect.cleandoc(part["description"]) + "\n"] if "description" in part else []


def _keys(part: Mapping[str, Any]) -> list[str]:
    if "anyOf" in part:  # a short form and a long one
        return [f"{_kind(part)}\n", *(line for form in part["anyOf"] if "properties" in form for line in _keys(form))]
    properties: Mapping[str, Any] = part.get("properties", {})
    if not properties:
        return [f"{_kind(part)}\n"]
    required = set(part.get("required", ()))
    rows = [
        (
            f"`{key}`" + (" (required)" if key in required else ""),
            _kind(value),
            f"`{json.dumps(value['default'], ensure_ascii=False)}`" if "default" in value else "",
            " ".join(value.get("description", "").split()),
        )
        for key, value in properties.items()
    ]
    return [_table(("key", "what", "default", "meaning"), rows)]


def _kind(value: Mapping[str, Any]) -> str:  # noqa: PLR0911 - one return per case
    """The type of a key in a few words; other definitions are linked."""
    match value:
        case {"$ref": ref}:
            name = str(ref).rsplit("/", 1)[-1]
            return f"[{name}](#{name.lower()})"
        case {"anyOf": options} | {"oneOf": options}:
            return " or ".join(dict.fromkeys(_kind(option) for option in options))
        case {"enum": choices}:
            return ", ".join(f"`{choice}`" for choice in choices)
        case {"const": choice}:
            return f"`{choice}`"
        case {"type": "array", "items": dict(items)}:
            return f"list of {_kind(items)}"
        case {"type": "object", "patternProperties": dict(patterns)}:
            return f"map of names to {' or '.join(_kind(values) for values in patterns.values())}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"map of names to {_kind(values)}"
        case {"type": str(kind)}:
            return {"object": "map", "array": "list", "null": "nothing", "string": "text"}.get(kind, kind) + _limits(
                value
            )
    return "anything"


def _limits(value: Mapping[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    found = [f"{sign} {value[key]}" for key, sign in signs.items() if key in value]
    return f" ({', '.join(found)})" if found else ""


def checks_page() -> str:
    """Every check of a trial."""
    from cotenant.measure.checks import CHECKS

    rows = [(f"`{check.name}`", check.when_failed, check.meaning, check.hint) for check in CHECKS.values()]
    return "\n".join(
        [
            "# Checks\n",
            "A trial is `valid` if no check fails. `failed_checks` names those that do, `reasons` says why.\n",
            _table(("check", "a trial that fails it is", "what has to hold", "what helps"), rows),
        ]
    )


def metrics_page() -> str:
    """Every metric, as `cotenant explain METRIC` tells it."""
    from cotenant.analyse.sharing.metrics import METRICS

    parts = [
        "# Metrics\n",
        "`cotenant explain METRIC` says the same on the terminal.\n",
    ]
    for metric in METRICS.values():
        rows = [("formula", metric.formula), ("unit", metric.unit), ("better", metric.better)]
        rows += [("also called", ", ".join(metric.also))] if metric.also else []
        caveats = "".join(f"- {caveat}\n" for caveat in metric.caveats)
        parts.append(f"## {metric.name}\n\n{metric.title}. {metric.definition}\n")
        parts += [_table(("of", f"a {metric.of}" if metric.of != "explanation" else "an explanation"), rows), caveats]
    return "\n".join(parts)


INTRODUCTION = """\
Every verb of the command line is a function; the command line only parses, calls and prints. What they return can be
asked further:

```python
import cotenant

run = cotenant.run("quick", device="sim:a100-sxm4-40gb")
print(run.opening[0])  # the recommendation; run.answer holds it as values
run.report()

plan = cotenant.plan("tenants.yaml", "sim:l4*2")
print(plan.cost_per_h, plan.check().keeps_all)
plan.export("compose,vllm", "out")

for work in cotenant.db.gpus():
    print(work)
```

Progress goes to stderr, in a notebook to a bar; `quiet=True` silences it. Errors are `CotenantError`s: as text they
contain every problem and a hint.
"""


def api_page() -> str:
    """Handles and verbs as they are written, the database, and the types of everything they take and return."""
    import cotenant

    parts = ["# The Python API\n", INTRODUCTION]
    homes = cotenant.__dict__["_HOME"]
    errors = [name for name, home in homes.items() if home == "errors"]
    parts += [_documented(f"cotenant.{name}", homes[name]) for name in homes if name not in errors]
    parts += ["## cotenant.db\n", "The measurements of all machines in one place.\n"]
    functions = [name for name, value in vars(cotenant.db).items() if inspect.isfunction(value) and name[0] != "_"]
    parts += [
        _documented(f"cotenant.db.{name}", "api.db", "###")
        for name in functions
        if getattr(cotenant.db, name).__module__ == "cotenant.api.db"
    ]
    rows = [(f"`{name}`", _first_line(getattr(cotenant, name))) for name in errors]
    parts += ["## Errors\n", _table(("error", "meaning"), rows)]
    rows = [(f"`{name}`", _first_line(getattr(cotenant.types, name))) for name in sorted(cotenant.types.__all__)]
    parts += ["## cotenant.types\n", "What verbs take and return besides the handles.\n"]
    parts.append(_table(("type", "meaning"), rows))
    return "\n".join(parts)


def _first_line(value: Any) -> str:
    """Of its docstring; an alias is spelled out."""
    if inspect.isclass(value):
        return (inspect.getdoc(value) or "").partition("\n")[0]
    return f"`{re.sub(r'[a-z_]+[.]', '', str(value))}`"


def _documented(name: str, home: str, level: str = "##") -> str:
    """A function's signature and docstring; a class with its public methods."""
    leaf = name.rpartition(".")[2]
    inner = getattr(import_module(f"cotenant.{home}"), leaf).__module__  # of a handle it is `cotenant`
    module = ast.parse(inspect.getsource(import_module(f"cotenant.{home}" if inner == "cotenant" else inner)))
    *_, node = [one for one in module.body if isinstance(one, ast.ClassDef | ast.FunctionDef) and one.name == leaf]
    parts = [f"{level} {name}\n", f"```text\n{ast.get_docstring(node) or ''}\n```\n"]
    if isinstance(node, ast.FunctionDef):
        return "\n".join([parts[0], _signature(node), parts[1]])
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name[0] != "_" and one.name != "of"]
    return "\n".join([*parts, "\n".join(map(_method, methods)), ""])


def _method(method: ast.FunctionDef) -> str:
    said = (ast.get_docstring(method) or "").partition("\n")[0]
    if any(getattr(mark, "id", "") in {"property", "cached_property"} for mark in method.decorator_list):
        return f"- `.{method.name}`: {said}"
    method.args.args = method.args.args[1:]
    gives = ast.unparse(_unquoted(method.returns)) if method.returns else "None"
    return f"- `.{method.name}({ast.unparse(_plain(method.args))}) -> {gives}`: {said}"


def _plain(arguments: ast.arguments) -> ast.arguments:
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = argument.annotation and _unquoted(argument.annotation)
    return arguments


def _signature(function: ast.FunctionDef) -> str:
    arguments = _plain(function.args)
    gives = ast.unparse(_unquoted(function.returns)) if function.returns else "None"
    return f"```python\n{function.name}({ast.unparse(arguments)}) -> {gives}\n```\n"


def _unquoted(annotation: ast.expr) -> ast.expr:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "study.md": study_page,
    "records.md": records_page,
    "checks.md": checks_page,
    "metrics.md": metrics_page,
    "api.md": api_page,
}


def experiment(name: str) -> str:
    """What an experiment is about, its table, and where it is. It is a simulation from a seed: the same every time."""
    spec = spec_from_file_location(name, EXPERIMENTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    title, _, words = inspect.cleandoc(module.__doc__ or "").partition("\n\n")
    table = _table(module.HEAD, module.rows())
    lead = textwrap.fill(f"**{title}** {' '.join(words.split())}", 120)
    return f"{lead}\n\n{table}\n([the script](../experiments/{name}.py))\n"


def with_experiments(page: str) -> str:
    """A page with the results of its experiments filled in anew."""
    return SLOT.sub(lambda slot: slot[1] + experiment(slot[2]) + slot[3], page)


def main() -> None:
    """Write every page."""
    REFERENCE.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(NOTE + page(), encoding="utf-8")
        print(f"docs/reference/{name}", file=sys.stderr)  # noqa: T201 - a script that says what it wrote
    RULES.write_text(with_experiments(RULES.read_text(encoding="utf-8")), encoding="utf-8")
    print("docs/concepts/measuring.md", file=sys.stderr)  # noqa: T201 - the same


if __name__ == "__main__":
    main()
