"""A YAML document with the line of every key, and YAML output; `plain_yaml` defines what is allowed."""

import re
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from cotenant.plain_yaml import CORE, TAG, NotYaml, compose, scalar, tagged
from cotenant.tenancy.words import key_shown

__all__ = ["NotYaml", "Path", "Places", "Tree", "dotted", "read", "write"]

Path = tuple[str | int, ...]


def dotted(path: Path) -> str:
    """`tenants.bert.batch`, as in messages and `--set`."""
    return ".".join(key_shown(str(part)) for part in path)


class Places:
    """The line of every key. Locations don't affect a study's meaning, so all instances compare equal."""

    def __init__(self, source: str = "") -> None:
        self.source = source
        self._lines: dict[Path, int] = {}
        self._overrides: dict[Path, str] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places)

    def __hash__(self) -> int:
        return hash(Places)

    def note(self, path: Path, line: int) -> None:
        """Record the line of a key (or a list's item)."""
        self._lines.setdefault(path, line)

    def override(self, path: Path, text: str) -> None:
        """Record that a key's value, with everything below it, comes from the command line."""
        for table in (self._lines, self._overrides):
            for known in [known for known in table if known[: len(path)] == path]:
                del table[known]
        self._overrides[path] = text

    def line(self, path: Path) -> int:
        """The line of the key or of its nearest ancestor; after all lines if it was overridden."""
        for length in range(len(path), -1, -1):
            if path[:length] in self._overrides:
                return 1_000_000_000
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return 1

    def describe(self, path: Path, sentence: str) -> str:
        """A problem on a single line: location, key, sentence."""
        key = f"{dotted(path)}: " if path else ""
        return f"{self._where(path)}{key}{sentence}"

    def _where(self, path: Path) -> str:
        for length in range(len(path), -1, -1):
            if path[:length] in self._overrides:
                return f"--set {self._overrides[path[:length]]}: "
        below = [text for known, text in self._overrides.items() if known[: len(path)] == path]
        if path and path not in self._lines and below:
            return f"--set {below[0]}: "
        return f"{self.source}:{self.line(path)}: " if self.source else ""


@dataclass(frozen=True, slots=True)
class Tree:
    """Plain data, the location of its keys, and problems with its syntax."""

    data: Any
    places: Places
    problems: list[tuple[Path, str]] = field(default_factory=list)


class _Dumper(yaml.SafeDumper):
    """Quotes text that other YAML versions could read as something else."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML asks about each value; the answer is constant
        return True


for _kind, _pattern, _first in CORE:
    _Dumper.add_implicit_resolver(
        TAG + _kind, re.compile(_pattern), ["" if character == "\0" else character for character in _first]
    )


def read(text: str, source: str = "") -> Tree:
    """The data of a YAML document.

    Raises:
        NotYaml: if it isn't YAML.
    """
    tree = Tree(data={}, places=Places(source))
    node = compose(text)
    if node is None:
        return Tree(data=None, places=tree.places)
    tree.places.note((), node.start_mark.line + 1)
    return Tree(data=_plain(node, (), tree), places=tree.places, problems=tree.problems)


def write(data: Any) -> str:
    """Plain data as YAML, in the given order."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def _plain(node: Node, path: Path, tree: Tree) -> Any:
    if isinstance(node, MappingNode) and node.tag == TAG + "map":
        return _mapping(node, path, tree)
    if isinstance(node, SequenceNode) and node.tag == TAG + "seq":
        items = []
        for index, item in enumerate(node.value):
            tree.places.note((*path, index), item.start_mark.line + 1)
            items.append(_plain(item, (*path, index), tree))
        return items
    if isinstance(node, ScalarNode):
        return _scalar(node, path, tree)
    tree.problems.append((path, str(tagged(node))))
    return None


def _mapping(node: MappingNode, path: Path, tree: Tree) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, ScalarNode):
            tree.problems.append((path, f"line {line} has a list or mapping as a key; keys are text"))
            continue
        key = str(key_node.value)
        inner = (*path, key)
        if key in mapping:
            tree.problems.append((inner, f"occurs twice, here and on line {line}; keep one"))
            continue
        tree.places.note(inner, line)
        mapping[key] = _plain(value_node, inner, tree)
    return mapping


def _scalar(node: ScalarNode, path: Path, tree: Tree) -> Any:
    try:
        return scalar(node)
    except NotYaml as problem:
        tree.problems.append((path, str(problem)))
        return None
