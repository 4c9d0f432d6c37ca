"""YAML as plain data: text, numbers, lists and mappings, of bounded depth and size.

Only the core schema of YAML 1.2 is read: `no` and `1:30` are text, and a key is always text. Anchors, aliases and tags
are refused: our files don't need them, and hostile files rely on them. Every YAML file is read here: studies (with the
line of each key, see `tenancy.document`), jobs, plans, GPUs, and the studies inside manifests.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

LARGEST = 1 << 20
"""Characters. A study or a list of jobs has thousands."""
DEEPEST = 20
_LONGEST_INTEGER = 19

TAG = "tag:yaml.org,2002:"
CORE: tuple[tuple[str, str, str], ...] = (
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
    (
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+0123456789.",
    ),
)
_PATTERNS = {kind: pattern for kind, pattern, _ in CORE}
_READERS: dict[str, Callable[[str], Any]] = {
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
}


class NotYaml(ValueError):
    """The text can't be read; the message is a sentence, ``line`` its line (from 1)."""

    def __init__(self, sentence: str, line: int) -> None:
        super().__init__(sentence)
        self.line = line


class _Loader(yaml.SafeLoader):
    """Composes nodes; never constructs objects."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML keeps its table in the class
    depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call] # so in PyYAML's stubs
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise NotYaml("anchors (&) and aliases (*) are not used here; write the value out", line)
        self.depth += 1
        if self.depth > DEEPEST:
            raise NotYaml(f"nested more than {DEEPEST} levels deep", line)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


for _kind, _pattern, _first in CORE:
    _Loader.add_implicit_resolver(
        TAG + _kind, re.compile(_pattern), ["" if character == "\0" else character for character in _first]
    )


def compose(text: str) -> Node | None:
    """The nodes of one YAML document, None if it is empty.

    Raises:
        NotYaml: It is not valid YAML, too large or too deep.
    """
    if len(text) > LARGEST:
        raise NotYaml(f"larger than {LARGEST >> 20} million characters", 1)
    try:
        loader = _Loader(text)
        try:
            node: Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise NotYaml("contains a control character; the file must be plain text", line) from None
    except yaml.MarkedYAMLError as error:
        raise NotYaml(_syntax(error), _line(error)) from None
    return node


def _line(error: yaml.MarkedYAMLError) -> int:
    mark = error.problem_mark or error.context_mark
    return mark.line + 1 if mark else 1


def _syntax(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or error.context or "it can't be read"
    if "'\\t'" in problem:
        return "a tab where YAML requires spaces; indent with spaces"
    if "but found another document" in problem:
        return "a second document (---) begins here; the file must be one document"
    if "mapping values are not allowed" in problem:
        return "not valid YAML: a second ': ' on this line, or wrong indentation; quote text that contains ': '"
    begun = f" (begun on line {error.context_mark.line + 1})" if error.context_mark and error.context else ""
    return f"not valid YAML: {problem}{begun}"


def load(text: str) -> Any:
    """The data of one YAML document.

    Raises:
        NotYaml: It is not valid YAML, or uses a refused feature.
    """
    node = compose(text)
    return None if node is None else _plain(node)


def scalar(node: ScalarNode) -> Any:
    """The value of a node that is neither a list nor a mapping. Raises NotYaml."""
    kind, text = node.tag.removeprefix(TAG), str(node.value)
    if kind == "str":
        return text
    read_as = _READERS.get(kind)
    if read_as is None or not re.match(_PATTERNS[kind], text):
        raise tagged(node)
    if kind == "int" and len(text) > _LONGEST_INTEGER:
        raise NotYaml(f"{json.dumps(text[:80])} is too long for a number", _row(node))
    return read_as(text)


def _plain(node: Node) -> Any:
    if isinstance(node, MappingNode) and node.tag == TAG + "map":
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                raise NotYaml("a list or mapping as a key; keys are text", _row(key))
            if key.value in mapping:
                raise NotYaml(f"{str(key.value)[:80]!r} occurs twice", _row(key))
            mapping[str(key.value)] = _plain(value)
        return mapping
    if isinstance(node, SequenceNode) and node.tag == TAG + "seq":
        return [_plain(item) for item in node.value]
    if isinstance(node, ScalarNode):
        return scalar(node)
    raise tagged(node)


def tagged(node: Node) -> NotYaml:
    """The error message for a node with a tag."""
    return NotYaml(f"tags such as {json.dumps(node.tag.replace(TAG, '!!')[:80])} are not used here", _row(node))


def _row(node: Node) -> int:
    return node.start_mark.line + 1
