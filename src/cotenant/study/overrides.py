"""`--set key=value`: changes to a study from the command line, before validation."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from cotenant.tenancy.document import NotYaml, Path, Tree, dotted, read
from cotenant.tenancy.words import did_you_mean, key_shown, shown


class _Unset(ValueError):
    """An invalid override; the message is the sentence."""


def apply_overrides(tree: Tree, overrides: Sequence[str]) -> list[str]:
    """Change the tree's data in place; return a sentence for each invalid override."""
    problems: list[str] = []
    changed: set[Path] = set()
    for text in overrides:
        try:
            changed.add(_apply(tree, text))
        except _Unset as error:
            problems.append(f"--set {_one_line(text)}: {error}")
    blocks = tree.data.get("blocks")
    if isinstance(blocks, dict):
        _keep_in_order(blocks, changed)
        blocks = blocks.get("max") if blocks.get("min") == blocks.get("max") else None
    # A fixed number of blocks leaves no room to stop early, so it cancels the file's `until`.
    fixed = isinstance(blocks, int) and any(path[0] == "blocks" for path in changed)
    if fixed and not any(path[0] == "until" for path in changed):
        tree.data["until"] = None
    return problems


def _keep_in_order(blocks: dict[str, Any], changed: AbstractSet[Path]) -> None:
    """Set both ends of the number of blocks if an end exceeds the file's other end."""
    low, high = blocks.get("min"), blocks.get("max")
    if not isinstance(low, int) or not isinstance(high, int) or low <= high:
        return
    set_low, set_high = ("blocks", "min") in changed, ("blocks", "max") in changed
    if set_high and not set_low:
        blocks["min"] = high
    elif set_low and not set_high:
        blocks["max"] = low


def _apply(tree: Tree, text: str) -> Path:
    key, equals, written = text.partition("=")
    if not equals or not key.strip():
        raise _Unset("expected key=value, such as window=2s or tenants.bert.batch=8")
    try:
        value = read(written)
    except NotYaml as error:
        raise _Unset(str(error)) from None
    if value.problems:
        raise _Unset(value.problems[0][1])
    path = _put(tree.data, (), key.strip().split("."), value.data)
    tree.places.override(path, _one_line(text))
    return path


def _put(container: Any, path: Path, parts: list[str], value: Any) -> Path:
    """Walk to the key and set it. Keys may contain dots (`llama-3.2-3b`): the longest existing key wins."""
    if isinstance(container, list):
        return _put_in_list(container, path, parts, value)
    if not isinstance(container, dict):
        raise _Unset(f"{dotted(path)} is {shown(container)} here, not a mapping; replace it entirely")
    for length in range(len(parts), 0, -1):
        key = ".".join(parts[:length])
        if key in container:
            inner, rest = (*path, key), parts[length:]
            if rest:
                return _put(container[key], inner, rest, value)
            container[key] = value
            return inner
    return _put_new(container, path, parts, value)


def _put_new(container: dict[str, Any], path: Path, parts: list[str], value: Any) -> Path:
    if path == ("tenants",):
        name = ".".join(parts)
        if not isinstance(value, dict):
            near = did_you_mean(parts[0], container) or did_you_mean(name.rpartition(".")[0], container)
            raise _Unset(f"there is no tenant {shown(name.rpartition('.')[0] or name)} in this study{near}")
        container[name] = value
        return (*path, name)
    key, rest = parts[0], parts[1:]
    if not rest:
        container[key] = value
        return (*path, key)
    container[key] = {}
    return _put(container[key], (*path, key), rest, value)


def _put_in_list(items: list[Any], path: Path, parts: list[str], value: Any) -> Path:
    if not parts[0].isdecimal() or int(parts[0]) >= len(items):
        form = f"a position from 0 to {len(items) - 1}" if items else "the complete list: it is empty"
        raise _Unset(f"{dotted(path)} is a list; expected {form}, not {shown(parts[0])}")
    index = int(parts[0])
    if parts[1:]:
        return _put(items[index], (*path, index), parts[1:], value)
    items[index] = value
    return (*path, index)


def _one_line(text: str) -> str:
    return key_shown(" ".join(text.split()))
