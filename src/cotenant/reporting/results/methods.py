"""How a run was measured, as a paragraph for a paper, and how to cite it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cotenant import __version__
from cotenant.analyse.result import Result
from cotenant.analyse.sharing import CHECK_WORDS
from cotenant.reporting.elements import Element, Sentence
from cotenant.text import amount, duration, listed

LOAD = "Latency counts from the time at which a request was due."
RATIOS = (
    "Slowdowns are ratios of mean latencies within a block, so that drift between blocks cancels, with 95 % intervals "
    "over blocks."
)
MOST_NAMED = 6
ENDS = {
    "all blocks done": "when all blocks were done",
    "precise enough": "when every slowdown was precise enough",
    "time budget used": "when its time budget was used",
}


def methods_elements(result: Result) -> list[Element]:
    """A paragraph for each run, then the citation."""
    paragraphs: list[Element] = [Sentence(_methods(manifest, result)) for manifest in result.manifests]
    return [*paragraphs, Sentence(citation(result.manifests), command=True)]


def _methods(manifest: Mapping[str, Any], result: Result) -> str:
    mixes = [mix for mix in result.mixes if mix.cell.run == str(manifest.get("run"))]
    verdicts: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for mix in mixes:
        verdicts.update(mix.trials_by_verdict)
        failed.update(mix.failed_checks)
    shared = [mix.cell for mix in mixes if not mix.cell.solo]
    ways = list(dict.fromkeys(cell.sharing.partition("[")[0] for cell in shared))
    under = f" under {listed(ways[:MOST_NAMED])}" if ways else ""
    study = f"study {manifest.get('study_name')}, seed {manifest.get('seed')}"
    often = failed.most_common(1)[0][0] if failed else ""
    worst = (
        f"; {verdicts.total() - verdicts['valid']:,} did not, mostly because {CHECK_WORDS.get(often, often)}"
        if often
        else ""
    )
    mixed = amount(len({cell.mix for cell in shared}), "mix", "mixes")
    sentences = [
        f"{_did(manifest)} {mixed}{under}, and every tenant alone,",
        f"on {_device(manifest)} with cotenant {_version(manifest)} ({study}).",
        _blocks(manifest),
        f"{LOAD} {RATIOS}" if shared else LOAD,
        f"Of {amount(verdicts.total(), 'trial')} {verdicts['valid']:,} passed every check{worst}.",
        "A model computed all of it; nothing was measured." if manifest.get("simulated") else "",
        f"The run is {manifest.get('run')}, SHA-256 {manifest['sha256']}." if manifest.get("sha256") else "",
    ]
    return " ".join(filter(None, sentences))


def _did(manifest: Mapping[str, Any]) -> str:
    return "We simulated" if manifest.get("simulated") else "We measured"


def _device(manifest: Mapping[str, Any]) -> str:
    described = manifest.get("device_description")
    known = described if isinstance(described, Mapping) else {}
    title = next((str(known[key]) for key in ("title", "model", "name") if known.get(key)), "")
    return f"{title} ({manifest.get('device')})" if title else str(manifest.get("device"))


def _version(manifest: Mapping[str, Any]) -> str:
    """What measured it, which may be older than what writes this."""
    sessions = manifest.get("sessions")
    last = sessions[-1] if isinstance(sessions, list) and sessions else {}
    packages = last.get("packages") if isinstance(last, Mapping) else None
    return str(packages.get("cotenant", __version__)) if isinstance(packages, Mapping) else __version__


def _blocks(manifest: Mapping[str, Any]) -> str:
    reached, windows = (manifest.get(name) for name in ("reached", "windows"))
    blocks = reached.get("blocks") if isinstance(reached, Mapping) else None
    window_s = windows.get("window_s") if isinstance(windows, Mapping) else None
    if not blocks:
        return ""
    window = f", in windows of {duration(window_s)} in which every tenant of the mix was active" if window_s else ""
    end = str(manifest.get("why") or "")
    why = f" It ended {ENDS.get(end, f'early: {end}')}." if end else ""
    each = f"Each of {amount(blocks, 'block')} contained every mix and every tenant alone, in random order"
    return f"{each}{window}.{why}"


def citation(manifests: Sequence[Mapping[str, Any]]) -> str:
    """BibTeX of the program in the version that measured."""
    version = _version(manifests[0]) if manifests else __version__
    return (
        "@software{cotenant, author = {{The cotenant authors}}, "
        "title = {cotenant: should these workloads share an accelerator, how, and at what cost?}, "
        f"version = {{{version}}}}}"
    )
