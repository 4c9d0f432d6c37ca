"""Prometheus' text format."""

from collections.abc import Iterable, Mapping

from cotenant.serving.histograms import Histogram

Labels = Mapping[str, str]


class MetricsPage:
    """Collects metrics, in order."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def put(self, name: str, kind: str, about: str, values: Iterable[tuple[Labels, float]]) -> None:
        """A counter or gauge."""
        self._head(name, kind, about)
        self._lines.extend(f"{name}{_labels(labels)} {value:.17g}" for labels, value in values)

    def histogram(
        self, name: str, about: str, values: Iterable[tuple[Labels, Histogram]], *, most: float | None = None
    ) -> None:
        """A histogram; buckets above ``most`` are left out."""
        self._head(name, "histogram", about)
        for labels, one in values:
            for edge, below in one.buckets(most):
                text = "+Inf" if edge == float("inf") else repr(float(edge))  # as Prometheus' own client for Python
                self._lines.append(f"{name}_bucket{_labels({**labels, 'le': text})} {below}")
            self._lines.append(f"{name}_sum{_labels(labels)} {one.total:.17g}")
            self._lines.append(f"{name}_count{_labels(labels)} {one.count}")

    def text(self) -> str:
        """The page."""
        return "\n".join(self._lines) + "\n"

    def _head(self, name: str, kind: str, about: str) -> None:
        self._lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
