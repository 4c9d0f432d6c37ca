"""Counts tokens with the model's own tokenizer, for servers that send no `usage`."""

from collections.abc import Callable
from pathlib import Path

from cotenant.errors import WorkloadError


def counter(name: str) -> Callable[[str], int]:
    """The number of tokens of a text, by a tokenizer.json or its folder.

    Raises:
        WorkloadError: It is missing, or not a tokenizer.
    """
    path = Path(name).expanduser()
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise WorkloadError(
            f"there is no tokenizer at {path}", hint="`tokenizer` names a tokenizer.json, or a folder with one"
        )
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the library raises nothing more specific
        raise WorkloadError(f"{path} is not a tokenizer: {' '.join(str(error).split())[:120]}") from None

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return count
