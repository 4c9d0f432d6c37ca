"""YAML in and out: plain data (text, numbers, lists, mappings) with the line of every key, and nothing clever.

Only what YAML 1.2 calls the core schema is read: `no` and `1:30` are text, and a key is always text. Anchors, aliases
and tags are refused, since a study needs none and hostile files live on them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from cotenant.study.places import Path, Places
from cotenant.study.words import shown

DEEPEST = 20
_LONGEST_INTEGER = 19

_TAG = "tag:yaml.org,2002:"
_CORE: tuple[tuple[str, str, str], ...] = (
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
    (
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+0123456789.",
    ),
)
_PATTERNS = {kind: pattern for kind, pattern, _ in _CORE}
_READERS: dict[str, Callable[[str], Any]] = {
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
}


class NotYaml(ValueError):
    """The text can't be read; the message is a sentence, ``line`` is where (from 1)."""

    def __init__(self, sentence: str, line: int) -> None:
        super().__init__(sentence)
        self.line = line


@dataclass(frozen=True, slots=True)
class Tree:
    """Plain data, where it was written, and what was wrong with the way it was written."""

    data: Any
    places: Places
    problems: list[tuple[Path, str]] = field(default_factory=list)


class _Loader(yaml.SafeLoader):
    """Composes nodes; never constructs objects."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML keeps its table in the class
    depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call] # so in PyYAML's stubs
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise NotYaml("anchors (&) and aliases (*) are not used in studies; write the value out", line)
        self.depth += 1
        if self.depth > DEEPEST:
            raise NotYaml(f"nested more than {DEEPEST} levels deep", line)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """Quotes whatever an older or newer reader of YAML could take for something other than text."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML asks about each value; the answer is one
        return True


for _kind, _pattern, _first in _CORE:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            _TAG + _kind, re.compile(_pattern), ["" if character == "\0" else character for character in _first]
        )


def read(text: str, source: str = "") -> Tree:
    """The data of one YAML document.

    Raises:
        NotYaml: if it isn't one.
    """
    tree = Tree(data={}, places=Places(source))
    node = _compose(text)
    if node is None:
        return Tree(data=None, places=tree.places)
    tree.places.note((), node.start_mark.line + 1)
    return Tree(data=_plain(node, (), tree), places=tree.places, problems=tree.problems)


def write(data: Any) -> str:
    """Plain data as YAML, in its own order."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def _compose(text: str) -> Node | None:
    try:
        loader = _Loader(text)
        try:
            node: Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise NotYaml("holds a control character; a study is plain text", line) from None
    except yaml.MarkedYAMLError as error:
        raise NotYaml(_syntax(error), _line(error)) from None
    return node


def _line(error: yaml.MarkedYAMLError) -> int:
    mark = error.problem_mark or error.context_mark
    return mark.line + 1 if mark else 1


def _syntax(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or error.context or "it can't be read"
    if "'\\t'" in problem:
        return "a tab stands where YAML wants spaces; indent with spaces"
    if "but found another document" in problem:
        return "a second document (---) begins here; a study is one document"
    if "mapping values are not allowed" in problem:
        return (
            "not valid YAML: a second ': ' on this line, or wrong indentation; put quotes around text that holds ': '"
        )
    begun = f" (begun on line {error.context_mark.line + 1})" if error.context_mark and error.context else ""
    return f"not valid YAML: {problem}{begun}"


def _plain(node: Node, path: Path, tree: Tree) -> Any:
    if isinstance(node, MappingNode) and node.tag == _TAG + "map":
        return _mapping(node, path, tree)
    if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
        items = []
        for index, item in enumerate(node.value):
            tree.places.note((*path, index), item.start_mark.line + 1)
            items.append(_plain(item, (*path, index), tree))
        return items
    if isinstance(node, ScalarNode):
        return _scalar(node, path, tree)
    tree.problems.append((path, f"tags such as {shown(node.tag.replace(_TAG, '!!'))} are not used in studies"))
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
            tree.problems.append((inner, f"is written twice, here and on line {line}; keep one"))
            continue
        tree.places.note(inner, line)
        mapping[key] = _plain(value_node, inner, tree)
    return mapping


def _scalar(node: ScalarNode, path: Path, tree: Tree) -> Any:
    kind, text = node.tag.removeprefix(_TAG), str(node.value)
    if kind == "str":
        return text
    read_as = _READERS.get(kind)
    if read_as is None or not re.match(_PATTERNS[kind], text):
        tree.problems.append((path, f"tags such as {shown(node.tag.replace(_TAG, '!!'))} are not used in studies"))
        return None
    if kind == "int" and len(text) > _LONGEST_INTEGER:
        tree.problems.append((path, f"{shown(text)} is too long for a number"))
        return None
    return read_as(text)
