"""Where each key of a study was written: a line of its file, or an override on the command line."""

from cotenant.study.words import key_shown

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
        """One problem on one line: location, key, sentence."""
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
