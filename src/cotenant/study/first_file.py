"""A first tenants file, from a few words about each model: what `init` writes."""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cotenant.errors import BadInput
from cotenant.study.files import study_from_text
from cotenant.tenancy.device_names import DeviceName
from cotenant.workloads.catalogue import WorkloadEntry, catalogue, find
from cotenant.workloads.servers import OPENAI, is_server

DEVICE = "sim:a100-sxm4-40gb"
"""The device to begin with: everybody has it."""
SERVERS_DEVICE = "cpu"
"""That of servers which run: their requests are real."""

_RATE = re.compile(r"^\d+(\.\d+)?/(s|min|h)$")
_LENGTH = re.compile(r"^(seq|tokens|batch)[= ](\d+)$")
_LENGTHS = re.compile(r"^(\d+) to (\d+) tokens$")
_OBJECTIVE = re.compile(r"^(?:(ttft|tpot)\s+)?(?:(p\d+(?:\.\d+)?)\s+)?(\d+(?:\.\d+)?\s?(?:us|ms|s|min))$")

SOFTWARE = {
    "decoder": ("vllm", "batches requests continuously; `eager` takes one at a time"),
    "encoder": ("onnxruntime", "usually the fastest without compiling; also: eager, compile, tensorrt"),
}
"""What a family is usually served by, and why."""


@dataclass(frozen=True, slots=True)
class ModelWords:
    """A model in the words of a person: `bert-base, 100/s, p99 30ms`."""

    workload: str
    rate: str = "10/s"
    objectives: tuple[tuple[str, str], ...] = ()
    seq: int | None = None
    tokens: int | None = None
    batch: int | None = None


def read_words(text: str) -> ModelWords:
    """A model's name, then in any order its rate, objectives and lengths, separated by commas.

    Raises:
        BadInput: A part isn't any of these.
    """
    name, *parts = (part.strip() for part in text.split(","))
    if not name:
        raise BadInput(f"{text!r} names no model.", hint="e.g. 'bert-base, 100/s, p99 30ms'")
    words = ModelWords(name)
    for part in parts:
        if _RATE.match(part):
            words = replace(words, rate=part)
        elif length := _LENGTH.match(part):
            words = replace(words, **{length[1]: int(length[2])})  # type: ignore[arg-type]  # the pattern names fields
        elif lengths := _LENGTHS.match(part):
            words = replace(words, seq=int(lengths[1]), tokens=int(lengths[2]))
        elif objective := _OBJECTIVE.match(part):
            metric, quantile, limit = objective.groups()
            key = " ".join(word for word in (metric, quantile or "p99") if word)
            words = replace(words, objectives=(*words.objectives, (key, limit.replace(" ", ""))))
        else:
            raise BadInput(
                f"{part!r} of {name} is neither a rate, an objective nor a length.",
                hint="e.g. 20/s, p99 30ms, ttft p95 500ms, 512 to 128 tokens, batch 4",
            )
    return words


def first_device(models: Sequence[str]) -> str:
    """The device for those who name none."""
    return SERVERS_DEVICE if any(is_server(read_words(words).workload) for words in models) else DEVICE


def next_commands(models: Sequence[str], file: str, device: str) -> tuple[str, ...]:
    """What to do with the file, first things first; servers that run are neither planned for nor served."""
    quoted = shlex.quote(file)
    if any(is_server(read_words(words).workload) for words in models):
        return (f"cotenant run {quoted} --dry-run", f"cotenant run {quoted}")
    return (
        f"cotenant run {quoted}",
        f"cotenant plan {quoted} --devices {shlex.quote(device)}",
        f"cotenant serve {quoted} --dry-run",
    )


def _entry(workload: str) -> WorkloadEntry | None:
    """The catalogue's entry; None for a workload of the user's own. Raises WorkloadError."""
    find(workload)
    return next((entry for entry in catalogue() if entry.name == workload), None)


def first_file(models: Sequence[str], device: str, source: str) -> str:
    """The text of the file, with a comment on every choice that was made for its reader.

    Raises:
        BadInput: Words that can't be read.
        WorkloadError: There is no such model.
        StudyError: What was written isn't read by the reader of all verbs.
    """
    lines = [
        "# Tenants of one device. `cotenant run`, `predict`, `plan` and `serve` read the same file.",
        f"device: {_scalar(device)}",
        "mixes: [all]            # all tenants together, each compared with itself alone"
        if len(models) > 1
        else "mixes: [solo]           # alone; write [all] once it has a neighbour",
        *(_ways(device) if len(models) > 1 else []),
        "tenants:",
    ]
    taken: set[str] = set()
    for words in map(read_words, models):
        lines += _tenant(words, _entry(words.workload), _name(words.workload, taken))
    text = "\n".join(lines) + "\n"
    study_from_text(text, source)
    return text


def _ways(device: str) -> list[str]:
    """The ways to share that most people can use, and time to decide; a CPU has defaults of its own."""
    if DeviceName(device).on_cpu:
        return []
    ways = ["sharing: [processes, mps]  # time-slicing and MPS; `all`: every way this device has, MIG included"]
    simulated = ["budget: 10min           # of simulated time; more if the answer says that it needs more"]
    return [*ways, *(simulated if DeviceName(device).simulated else [])]


def _tenant(words: ModelWords, entry: WorkloadEntry | None, name: str) -> list[str]:
    asked = words.workload.startswith(OPENAI)
    generates = asked or (entry is not None and "generate" in entry.modes)
    lines = [f"  {_scalar(name)}:", f"    workload: {_scalar(words.workload)}"]
    if entry is not None and entry.family in SOFTWARE:
        software, why = SOFTWARE[entry.family]
        lines += _commented(f"software: {software}", why)
    if generates:
        lines += [*([] if asked else ["    mode: generate"]), f"    seq: {words.seq or 512}"]
        lines += _commented(f"tokens: {words.tokens or 128}", "prompt and answer of a request")
    elif words.seq is not None:
        lines.append(f"    seq: {words.seq}")
    if words.batch is not None:
        lines += _commented(f"batch: {words.batch}", "items in one request")
    lines += _commented(f"rate: {words.rate}", "requests, arriving at random")
    default = (("ttft p95", "500ms"), ("tpot p95", "60ms")) if generates else (("p99", "100ms"),)
    objectives = ", ".join(f"{key}: {limit}" for key, limit in words.objectives or default)
    lines += _commented(f"slo: {{{objectives}}}", "" if words.objectives else "a guess: set what your users need")
    return lines


def _commented(text: str, comment: str) -> list[str]:
    return [f"    {text:<23} # {comment}" if comment else f"    {text}"]


def _name(workload: str, taken: set[str]) -> str:
    """A name for the tenant: its workload's last part, numbered if it is taken; of a server, its port."""
    port = re.search(r"//[^/]*:(\d+)", workload)
    base = (
        f"server-{port[1]}"
        if port
        else re.sub(r"[^\w.-]+", "-", Path(workload).name or workload).strip("-") or "tenant"
    )
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    taken.add(name)
    return name


def _scalar(text: str) -> str:
    """As YAML that is read back as the same text."""
    return text if re.fullmatch(r"[A-Za-z][\w./-]*(:[\w./-]+)?", text) else json.dumps(text)
