# ruff: noqa: INP001 - a script, not part of a package
"""Run the commands that pages quote, and write their output anew, or compare it: `make outputs`, `make outputs-check`.

A page marks what it quotes::

    <!-- output, within 10 % -->
    ```console
    $ cotenant plan tenants.yaml --devices sim:l4
    1 x sim:l4, ...
    ```
    <!-- end of output -->

Commands begin with `$ ` and run in one folder per page, in which the page's files lie: YAML blocks that begin with
`# NAME.yaml`. `RUN` in a command is the latest run, and run folders in the output become `RUN`. What a command says on
stderr is left out unless it fails. When comparing, words have to be equal and numbers within the stated share.
Notebooks are carried out cell by cell.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
BLOCK = re.compile(r"(<!-- output(?:, within (?P<share>[\d.]+) %)? -->\n```\w*\n)(?P<body>.*?)(```\n<!-- end of output -->)", re.DOTALL)  # fmt: skip # noqa: E501
FILE = re.compile(r"```yaml\n# (?P<name>[\w-]+\.yaml)[^\n]*\n(?P<text>.*?)```", re.DOTALL)
RUN = re.compile(r"(?:\S*?runs/(?:\S+/)?)?\d{8}T\d{6}Z-[0-9a-f]{8}")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
SMALLEST = 0.05
"""Differences below this are those of the last digit."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command and what it printed."""

    command: str
    output: str
    errors: str
    code: int
    cpu_s: float


def commands(body: str) -> list[str]:
    """The commands of a block; a line that ends with a backslash continues on the next."""
    joined = re.sub(r"\\\n\s*", " ", body)
    return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def shown(body: str) -> list[tuple[str, str]]:
    """Each command as it is written, and the output below it."""
    parts: list[tuple[str, str]] = []
    for line in re.sub(r"\\\n", "\\\\\0", body).splitlines(keepends=True):
        if line.startswith("$ "):
            parts.append((line.replace("\\\0", "\\\n"), ""))
        elif parts:
            parts[-1] = (parts[-1][0], parts[-1][1] + line.replace("\\\0", "\\\n"))
    return parts


def carry_out(command: str, folder: Path) -> Ran:
    """Run one command in the page's folder."""
    latest = sorted(folder.glob("runs/**/manifest.json"), key=lambda path: path.parent.name)
    if latest:
        command = re.sub(r"\bRUN\b", str(latest[-1].parent.relative_to(folder)), command)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    around = {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}
    before = os.times()
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env=around, capture_output=True, text=True, check=False
    )
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return Ran(command, _neutral(done.stdout), _neutral(done.stderr), done.returncode, cpu_s)


def _neutral(text: str) -> str:
    return "\n".join(line.rstrip() for line in RUN.sub("RUN", text).splitlines()).strip("\n")


def follow(page: str, folder: Path) -> Iterator[tuple[str, list[Ran], float]]:
    """Each marked block of a page with what its commands print now, and the tolerance."""
    for found in FILE.finditer(page):
        (folder / found["name"]).write_text(found["text"], encoding="utf-8")
    for block in BLOCK.finditer(page):
        ran = [carry_out(command, folder) for command in commands(block["body"])]
        yield block["body"], ran, float(block["share"] or 0) / 100


def renewed(page: str, folder: Path) -> str:
    """The page with the output of its commands as it is now; a line `...` keeps what the page leaves out."""
    fresh = {body: _body(body, ran) for body, ran, _ in follow(page, folder)}
    return BLOCK.sub(lambda block: block[1] + fresh[block["body"]] + block[4], page)


def _body(body: str, ran: list[Ran]) -> str:
    lines = []
    for (command, before), now in zip(shown(body), ran, strict=True):
        failure = now.errors[max(0, now.errors.find("error:")) :] if now.code else ""  # without its progress
        text = "\n".join(part for part in (now.output, failure) if part)
        kept = before.rstrip("\n").splitlines()
        if "..." in kept:  # the page quotes the beginning only
            text = "\n".join([*text.splitlines()[: kept.index("...")], "..."])
        lines.append(command + (text + "\n" if text else ""))
    return "".join(lines)


def differences(body: str, ran: list[Ran], share: float) -> list[str]:
    """Lines of a block that aren't what the commands print now."""
    problems = []
    for (command, before), (_, now) in zip(shown(body), shown(_body(body, ran)), strict=True):
        was, have = before.rstrip("\n").splitlines(), now.rstrip("\n").splitlines()
        if len(was) != len(have):
            problems.append(f"{command.strip()}: {len(have)} lines instead of {len(was)}")
        problems += [
            f"{old!r} is now {new!r}" for old, new in zip(was, have, strict=False) if not alike(old, new, share)
        ]
    return problems


def alike(old: str, new: str, share: float) -> bool:
    """The same words, and numbers that differ by at most a share."""
    if re.sub(r"\s+", " ", NUMBER.sub("#", old)) != re.sub(r"\s+", " ", NUMBER.sub("#", new)):
        return False
    pairs = zip(NUMBER.findall(old), NUMBER.findall(new), strict=True)
    values = [tuple(float(text.replace(",", "")) for text in pair) for pair in pairs]
    return all(abs(one - other) <= max(share * max(one, other), SMALLEST if share else 0) for one, other in values)


CELLS = """
import ast, contextlib, io, json, sys
names, outputs = {"__name__": "__main__"}, []
for source in json.load(sys.stdin):
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) and source[-1] != ";" else None
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    text = said.getvalue()
    found = [{"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}] if text else []
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        found.append({"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": data})
    outputs.append(found)
json.dump(outputs, sys.stdout)
"""
"""Carries out the cells of a notebook, without Jupyter."""
WITHIN = 0.25
"""How far numbers of a notebook may differ."""


def cells_of(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Those with code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def carry_out_cells(notebook: dict[str, Any], folder: Path) -> list[list[dict[str, Any]]]:
    """What each cell shows now."""
    sources = ["".join(cell["source"]) for cell in cells_of(notebook)]
    done = subprocess.run(
        [sys.executable, "-c", CELLS],
        cwd=folder,
        input=json.dumps(sources),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"a cell fails:\n{done.stderr}")
    outputs: list[list[dict[str, Any]]] = json.loads(_neutral(done.stdout))
    return outputs


def said_by(outputs: list[dict[str, Any]]) -> list[str]:
    """The lines that a cell shows as text."""
    lines = [line for shown in outputs for line in shown.get("text") or shown["data"]["text/plain"]]
    return [line.rstrip() for line in lines]


def cell_differences(notebook: dict[str, Any], folder: Path) -> list[str]:
    """Lines of a notebook that aren't what its cells show now."""
    problems = []
    for cell, now in zip(cells_of(notebook), carry_out_cells(notebook, folder), strict=True):
        was, have = said_by(cell["outputs"]), said_by(now)
        if len(was) != len(have):
            problems.append(f"{cell['source'][0].strip()}: {len(have)} lines instead of {len(was)}")
        problems += [
            f"{old!r} is now {new!r}" for old, new in zip(was, have, strict=False) if not alike(old, new, WITHIN)
        ]
    return problems


def notebooks() -> list[Path]:
    """All of them."""
    return sorted(DOCS.rglob("*.ipynb"))


def pages() -> list[Path]:
    """Those that quote output."""
    return [path for path in sorted(DOCS.rglob("*.md")) if BLOCK.search(path.read_text(encoding="utf-8"))]


def main() -> int:
    """Write or compare the pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, help="By default all that quote output.")
    parser.add_argument("--check", action="store_true", help="Compare instead of writing.")
    options = parser.parse_args()
    wrong = 0
    for path in options.pages or [*pages(), *notebooks()]:
        began = time.monotonic()
        text = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as name:
            if path.suffix == ".ipynb":
                notebook = json.loads(text)
                if options.check:
                    problems = cell_differences(notebook, Path(name))
                    wrong += len(problems)
                    print(*problems, sep="\n")  # noqa: T201 - the answer
                else:
                    for cell, outputs in zip(cells_of(notebook), carry_out_cells(notebook, Path(name)), strict=True):
                        cell["outputs"] = outputs
                    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            elif options.check:
                problems = [
                    line for body, ran, share in follow(text, Path(name)) for line in differences(body, ran, share)
                ]
                wrong += len(problems)
                for problem in problems:
                    print(f"{path}: {problem}")  # noqa: T201 - the answer
            else:
                path.write_text(renewed(text, Path(name)), encoding="utf-8")
        print(f"{path}: {time.monotonic() - began:.0f} s", file=sys.stderr)  # noqa: T201 - a script that says what it did
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
