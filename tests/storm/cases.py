# ruff: noqa: E501 - tables of cases
"""Targets of the storm: files that cotenant reads, with the command lines that read them; arguments; requests."""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.storm import asking, exporting
from tests.storm.mutating import HOSTILE, mutated

STUDY = """name: storm
device: cpu
tenants:
  a: {workload: sleep}
  b: {workload: sgemm, batch: 2, slo: {p99: 30ms}}
mixes: [solo, pairs]
loads: [closed(1), poisson(50%)]
window: 1s
blocks: {min: 3, max: 5}
"""
JOBS = (
    "jobs:\n- {name: t, class: bert, gpus: 1, time: 2h}\n- {name: u, class: sgemm, gpus: 2, time: 30min, share: true}\n"
)
GPU = "like: a100-sxm4-40gb\nsms: 100\nmemory_gb: 32\n"
SMI = "timestamp, name, uuid, temperature.gpu, power.draw [W], clocks.current.sm [MHz]\n" + "".join(
    f"2024/01/01 10:00:{second:02d}.000, NVIDIA A100, GPU-1, {40 + second}, {100 + second}.0 W, 1410 MHz\n"
    for second in range(20)
)
TRACE = "arrival_s\n" + "".join(f"{0.1 * step:.1f}\n" for step in range(1, 60))
TABLE = "text,label\n" + "".join(f"some words {row},{row % 2}\n" for row in range(20))


@dataclass(frozen=True, slots=True)
class Case:
    """One attempt."""

    kind: str
    arguments: list[str]
    sealed: bool = False
    """Damage must not change the answer: exit 0 means the same output as without it."""
    requests: list[asking.Asked] = field(default_factory=list)
    """Requests to a server, instead of a command line."""
    wire: int = 0
    """A seed of bytes to a server, instead of a command line."""
    exports: Path | None = None
    """Where scripts are written, none of which may execute a name."""


@dataclass(frozen=True, slots=True)
class Target:
    """A file, and a command line that reads it. `FOLDER` is the folder of the attacked copy, `WHOLE` the original."""

    kind: str
    files: tuple[str, ...]
    lines: tuple[str, ...]
    sealed: bool = False
    weight: int = 4


TARGETS = (
    Target("study", ("study.yaml",), ("run FOLDER/study.yaml --dry-run", "run FOLDER/study.yaml --dry-run --json")),
    Target("jobs", ("jobs.yaml",), ("plan FOLDER/jobs.yaml --db FOLDER/db",)),
    Target("plan", ("plan.yaml",),
           (*(f"plan FOLDER/plan.yaml --export FOLDER/out --for {tool}" for tool in exporting.TOOLS),
            "compare FOLDER/plan.yaml FOLDER/run", "plan FOLDER/plan.yaml --export FOLDER/out --json")),
    Target("gpu", ("gpu.yaml",), ("run FOLDER/study.yaml --dry-run --device sim:FOLDER/gpu.yaml",)),
    Target("trace", ("trace.csv",), ("run FOLDER/traced.yaml --dry-run",)),
    Target("csv", ("smi.csv",), ("db add FOLDER/smi.csv --db FOLDER/new", "db add FOLDER/smi.csv --db FOLDER/new --skip-bad")),
    Target(
        "run folder",
        ("run/manifest.json", "run/trials/*/*"),
        ("show FOLDER/run", "show FOLDER/run --json", "verify FOLDER/run", "explain FOLDER/run",
         "export requests FOLDER/run", "compare FOLDER/run FOLDER/other",
         "sql select\u00a0sum(done_ns),count(*)\u00a0from\u00a0requests FOLDER/run"),
        sealed=True,
    ),
    Target("database", ("db/index.json", "db/measurements/*", "db/readings/*"),
           ("db gpus --db FOLDER/db", "db anomalies --db FOLDER/db", "db --db FOLDER/db", "db sensors --db FOLDER/db"),
           sealed=True),
    Target("result file", ("search.json",), ("show FOLDER/search.json",)),
    Target("images", ("photos/*/*",),
           ("search --data FOLDER/photos WHOLE/siblings --exact --out FOLDER/out -q",
            "search --data FOLDER/photos WHOLE/siblings --exact --out FOLDER/out -q --skip-bad"), weight=1),
    Target("texts", ("table.csv",), ("search --data FOLDER/table.csv?text=text&label=label WHOLE/siblings --out FOLDER/out -q",),
           weight=1),
)  # fmt: skip

WORDS = (
    "show", "report", "compare", "explain", "db", "plan", "studies", "devices", "workloads", "sql", "export", "schema",
    "verify", "--json", "--help", "-h", "--db", "FOLDER/db", "FOLDER/run", "FOLDER/other", "FOLDER/none", "trials",
    "requests", "select 1", "select * from trials", "gpus", "anomalies", "add", "trend", "contents", "--to", "-", "--format",
    "csv", "--margin", "3%", "--explain", "--markdown", "--work", "bert-mini", "--kernels", "--device", "sim:a100-sxm4-40gb",
    "run", "--dry-run", "quick", "--set", "window=1s", "blocks=1", "--devices", "cpu:each", "--version", "--debug", "",
    "\x1b[31m", "--", "=", "9" * 50, "-1", "\udcff", "/dev/null", "/dev/full", "metric", "--all",
)  # fmt: skip
READERS = frozenset({
    "show", "compare", "explain", "db", "plan", "studies", "devices", "workloads", "sql", "export", "schema", "verify",
})  # fmt: skip


def corpus(folder: Path) -> None:
    """Everything that is attacked, undamaged, apart from `pictures`."""
    from cotenant.cli.main import main
    from cotenant.store.folder import RunFolder
    from cotenant.tenancy.records import TrialRecords

    for name, text in {"study.yaml": STUDY, "jobs.yaml": JOBS, "gpu.yaml": GPU, "smi.csv": SMI, "trace.csv": TRACE,
                       "table.csv": TABLE, "plan.yaml": exporting.PLAN}.items():  # fmt: skip
        (folder / name).write_text(text)
    (folder / "search.json").write_text('{"measurements": {"resnet18": {"8": {"inference": [0.1, 0.2]}}}}')
    traced = STUDY.replace("loads: [closed(1), poisson(50%)]", f"loads: ['trace({folder}/trace.csv)']")
    (folder / "traced.yaml").write_text(traced)
    for name in ("run", "other"):
        run = RunFolder.create(folder / name, {"run": name, "study": STUDY, "study_name": "storm", "device": "cpu"})
        for number in range(6):
            run.commit(_trial(TrialRecords, number))
    main(["db", "add", str(folder / "run"), str(folder / "smi.csv"), "--db", str(folder / "db")])


def pictures(folder: Path) -> None:
    """Two classes of small pictures in four formats, and two models to rank on them."""
    from PIL import Image

    from benchmarks.siblings import write_siblings
    from cotenant.workloads import find

    write_siblings(folder / "siblings", find("resnet18-mini").entry, 2, changed=1, seed=0)
    rng = np.random.default_rng(1)
    for label in ("cat", "dog"):
        (folder / "photos" / label).mkdir(parents=True)
        for number, form in enumerate(("png", "jpg", "bmp", "gif")):
            pixels = rng.integers(0, 255, (24, 24, 3), np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / label / f"{number}.{form}")


def _trial(records: Callable[..., object], number: int) -> object:
    solo = number % 2 == 0
    names = ("a",) if solo else ("a", "b")
    begin = np.tile(np.arange(40, dtype=np.int64) * 1_000_000, len(names))
    return records(
        trial={"trial": number, "block": number // 2, "order": 0, "mix": "+".join(names), "solo": solo, "device": "cpu",
               "simulated": False, "sharing": "alone" if solo else "processes", "settings": "{}", "load": "closed(1)",
               "window_start_ns": 0, "window_s": 1.0, "verdict": "valid", "failed_checks": [], "reasons": []},
        tenants=tuple({"tenant": name, "of": name, "load": "closed(1)", "workload": name, "batch": 1} for name in names),
        requests={"tenant": np.repeat(np.arange(len(names)), 40), "seq": np.tile(np.arange(40), len(names)),
                  "intended_ns": begin, "started_ns": begin, "done_ns": begin + 900_000 + 1000 * number,
                  "in_window": np.ones(begin.size, bool), "ok": np.ones(begin.size, bool)},
    )  # fmt: skip


def draw(whole: Path, folder: Path, rng: random.Random) -> Case:
    """Attack a fresh copy of the corpus in one place; returns what to run."""
    kind = rng.random()
    if kind < 0.05:
        return Case("wire", [], wire=rng.randrange(1, 1 << 30))
    if kind < 0.12:
        return Case("requests", [], requests=asking.attack(rng))
    shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("siblings"))
    if kind < 0.19:
        plan, mark = folder / "plan.yaml", folder / exporting.MARK
        plan.write_text(exporting.hostile(rng, mark))
        words = ["plan", str(plan), "--export", str(folder / "out"), "--for", rng.choice(exporting.TOOLS)]
        return Case("exports", words, exports=folder / "out")
    if kind < 0.28:
        words = [rng.choice(sorted(READERS)), *rng.choices(WORDS, k=rng.randrange(6))]
        return Case("words", [word.replace("FOLDER", str(folder)) for word in words])
    target = rng.choices(TARGETS, [one.weight for one in TARGETS])[0]
    files = sorted(file for pattern in target.files for file in folder.glob(pattern))
    file = rng.choice(files)
    if target.sealed and rng.random() < 0.15:
        file.write_bytes(rng.choice(files).read_bytes())
    elif target.sealed and rng.random() < 0.1:
        file.unlink()
    else:
        file.write_bytes(mutated(file.read_bytes(), rng))
    places = {"FOLDER": str(folder), "WHOLE": str(whole), "\u00a0": " "}
    return Case(target.kind, [_placed(word, places) for word in rng.choice(target.lines).split(" ")], target.sealed)


def _placed(word: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        word = word.replace(name, place)
    return word


__all__ = ["HOSTILE", "Case", "corpus", "draw", "pictures"]
