"""From a file (or a built-in name) to the tenants and what a verb needs: all problems at once, with their lines."""

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

from pydantic import ValidationError

from cotenant import opening
from cotenant.errors import CotenantError, SchedulingError, StudyError
from cotenant.study.consistency import EVERY_TENANT, contradictions, disagreeing_shares
from cotenant.study.model import Study
from cotenant.study.overrides import apply_overrides
from cotenant.study.schema import builtin_file, builtin_names
from cotenant.study.workload_check import unknown_workloads
from cotenant.tenancy import document as where
from cotenant.tenancy.document import NotYaml, Tree, read
from cotenant.tenancy.load import Load
from cotenant.tenancy.objective import contract_of
from cotenant.tenancy.plan_document import is_plan
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.validation_errors import problems_of
from cotenant.tenancy.ways import SCHEDULED, SERVED_SOFTWARE
from cotenant.tenancy.words import did_you_mean, shown
from cotenant.text import amount

LARGEST_FILE = 256 * 1024

_STAND_IN = {"workload": "null"}
"""Stands in for a tenant whose entry is wrong, so that the rest of the file can still be checked."""


Problem = tuple[where.Path, str]
Needs = Callable[[Study], Iterable[Problem]]
"""What a verb needs and a file lacks."""


def load_study(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Study:
    """Read and validate a file to measure or predict.

    Args:
        name_or_path: A built-in study's name or the path of a YAML file.
        overrides: `key=value` each, with a dotted key and a YAML value: `tenants.bert.batch=8`.

    Raises:
        StudyError: with every problem of the file and the overrides.
    """
    return read_tenants_file(name_or_path, to_measure, overrides)


def read_tenants_file(name_or_path: str | Path, needs: Needs, overrides: Sequence[str] = ()) -> Study:
    """Read and validate a tenants file for a verb; keys of other verbs are checked and otherwise ignored.

    Args:
        name_or_path: A built-in study's name or the path of a YAML file.
        needs: What the verb needs and the file lacks. Not asked about tenants that are wrong in themselves.
        overrides: As for `load_study`.

    Raises:
        StudyError: with every problem of the file and the overrides.
    """
    path = _find(name_or_path)
    source = path.name if name_or_path in builtin_names() else str(name_or_path)
    source = source if source.isprintable() else shown(source)
    tree = _read(_text_of(path, source), source)
    if is_plan(tree.data):
        raise StudyError(
            f"{source} is a plan, not a file of tenants",
            hint=f"simulate it: cotenant plan --check {source}; measure it: cotenant run {source}; serve it: cotenant "
            f"serve {source}; configure servers: cotenant plan {source} --export DIR",
        )
    tree.data.setdefault("name", _name_from(path))
    return _checked(tree, folder=path.resolve().parent, overrides=overrides, needs=needs)


def holds_plan(path: Path) -> bool:
    """Whether a file is a plan, as far as it can be read; reading it reports the errors."""
    try:
        return is_plan(read(opening.read_text(path, encoding="utf-8-sig"), str(path)).data)
    except (OSError, UnicodeDecodeError, NotYaml):
        return False


def to_measure(study: Study) -> Iterator[Problem]:
    """What `run` and `predict` need: workloads, and ways to share that trials can have."""
    for name, entry in study.tenants.items():
        if entry.workload is None:
            why = "what only has a backend can be served" if entry.job is None else "without one a job can be placed"
            yield ("tenants", name), f"needs a workload: {why}, not measured"
    for index, sharing in enumerate(study.sharing if study.sharing != "all" else ()):
        if isinstance(sharing, Sharing) and sharing.mode == SCHEDULED:
            for name in study.measured():
                for sentence in _unordered(study, name):
                    yield ("sharing", index), f"scheduled needs {sentence}: {name}"


def _unordered(study: Study, name: str) -> Iterator[str]:
    """What keeps a server from ordering the requests of a tenant."""
    entry = study.tenants[name]
    if entry.train or (entry.software or ("eager",))[0] not in SERVED_SOFTWARE:
        yield "models that the server runs itself"
    if not all(load.open for load in ([entry.arrivals] if entry.arrivals else study.loads)):
        yield "requests that arrive at a rate, such as rate: 20/s"
    try:
        contract_of(name, entry.slo, share=entry.share, hard=entry.hard, best_effort=entry.best_effort)
    except ValueError as error:
        yield "an objective, such as slo: 50ms" if not entry.slo else f"a deadline; {error}"
    except SchedulingError as error:
        yield f"a contract; {error.message}"


def load_with_tenants(name_or_path: str | Path, tenants_of: str | Path, overrides: Sequence[str] = ()) -> Study:
    """A study with the tenants, mixes, sharing and device of another file.

    The tenants' own loads are dropped, so that those of the study apply.

    Raises:
        StudyError: with every problem of either.
    """
    study, given = load_study(name_or_path), load_study(tenants_of)
    whole = study.model_dump(mode="json", by_alias=True)
    theirs = given.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    whole |= {key: theirs[key] for key in ("mixes", "sharing", "device") if key in theirs}
    whole["tenants"] = {
        name: {key: value for key, value in entry.items() if key != "load"} for name, entry in theirs["tenants"].items()
    }
    return study_from({**whole, "name": f"{study.name}-{given.name}"}, overrides)


def study_from_text(text: str, source: str) -> Study:
    """Validate a study that is already in memory, such as a run's.

    Args:
        text: Output of `Study.to_yaml`.
        source: Its origin, for messages.

    Raises:
        StudyError: with every problem.
    """
    return _checked(_read(text, source), folder=Path.cwd(), overrides=(), needs=to_measure)


def study_from(data: Mapping[str, Any], overrides: Sequence[str] = ()) -> Study:
    """Validate a study given as data, in the file's form; traces are relative to the working directory.

    Raises:
        StudyError: with every problem.
    """
    return _checked(
        Tree(data=_copied(data), places=where.Places()), folder=Path.cwd(), overrides=overrides, needs=to_measure
    )


def _read(text: str, source: str) -> Tree:
    try:
        tree = read(text, source)
    except NotYaml as error:
        raise _refusal(source, [f"{source}:{error.line}: {error}"]) from None
    if not isinstance(tree.data, dict):
        content = "is empty" if tree.data is None else f"holds {shown(tree.data)}"
        sentence = f"{content}; expected a mapping with the key tenants"
        if isinstance(tree.data, list) and any(isinstance(entry, dict) for entry in tree.data):
            sentence += " (jobs of a list become tenants: {NAME: {job: {like: bert, gpus: 4, time: 2h}}})"
        raise _refusal(source, [f"{source}:{tree.places.line(())}: {sentence}"])
    return tree


def _copied(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _copied(value) for key, value in data.items()}
    return [_copied(item) for item in data] if isinstance(data, list | tuple) else data


def _find(name_or_path: str | Path) -> Path:
    name = str(name_or_path)
    if isinstance(name_or_path, str) and name in builtin_names():
        return builtin_file(name)
    path = Path(name_or_path).expanduser()
    try:
        if path.is_file():
            return path
        exists, is_folder = path.exists(), path.is_dir()
    except (OSError, ValueError):  # the name is too long, contains a NUL, or lies in a forbidden folder
        exists = is_folder = False
    built_in = "built-in studies: " + ", ".join(builtin_names())
    if is_folder:
        raise StudyError(f"{shown(name)} is a directory, not a study file", hint=f"name a YAML file; {built_in}")
    if exists:
        raise StudyError(f"{shown(name)} is not a regular file", hint=f"name a YAML file; {built_in}")
    if isinstance(name_or_path, Path):
        hint = "name a tenants file: YAML with the key tenants"
        raise StudyError(f"{shown(name)[1:-1]} can't be read: there is no such file", hint=hint)
    near = did_you_mean(path.stem, builtin_names())
    hint = f"write it: cotenant init --out {quote(name)}" if path.suffix in {".yaml", ".yml"} and not near else built_in
    raise StudyError(f"there is no study {shown(name)}, neither a file nor a built-in one{near}", hint=hint)


def _text_of(path: Path, source: str) -> str:
    try:
        content = opening.read_bytes(path, most=LARGEST_FILE)
    except OSError as error:
        if error.errno == errno.EFBIG:
            hint = "name the YAML file of a study"
            raise StudyError(
                f"{source} is larger than {LARGEST_FILE // 1024} KiB, too large for a study", hint=hint
            ) from None
        raise StudyError(f"{source} can't be read: {opening.why(error)}", hint="check the file's permissions") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise StudyError(f"{source} is not a text file", hint="a study is YAML text in UTF-8")
    return text


def _name_from(path: Path) -> str:
    return re.sub(r"[^\w.-]+", "-", path.stem).strip("-._")[:80] or "study"


def _checked(tree: Tree, *, folder: Path, overrides: Sequence[str], needs: Needs) -> Study:
    sayings = apply_overrides(tree, overrides)
    problems = list(tree.problems)
    already = {path for path, _ in problems}
    broken: set[str] = set()
    wrong: set[where.Path] = set()
    try:
        study = Study.model_validate(tree.data)
    except ValidationError as error:
        invalid = problems_of(error, Study)
        problems += [(path, sentence) for path, sentence in invalid if path not in already]
        study, broken = _sketch(tree.data, [path for path, _ in invalid])
        wrong = {path[:2] for path, _ in invalid} | {path[:3] for path, _ in invalid}
    if needs is to_measure:
        problems += [(it.path, it.sentence) for it in contradictions(study) if not it.rests_on & broken]
    problems += [(it.path, it.sentence) for it in disagreeing_shares(study) if not it.rests_on & broken]
    # What a tenant lacks may be what is wrong with it; what is wrong with its other keys still holds.
    problems += [
        (path, sentence)
        for path, sentence in ([] if "tenants" in broken else needs(study))  # stand-ins lack what no tenant of it does
        if path[:2] not in wrong or (len(path) > 2 and path[:3] not in wrong)
    ]
    study, missing = _with_traces(study, folder)
    problems += missing
    if problems or sayings:
        reported = {path for path, _ in problems}
        problems += [problem for problem in unknown_workloads(tree.data.get("tenants")) if problem[0] not in reported]
        problems.sort(key=lambda problem: tree.places.line(problem[0]))
        lines = [tree.places.describe(path, sentence) for path, sentence in problems]
        raise _refusal(tree.places.source or "the study", list(dict.fromkeys([*lines, *sayings])))
    return study.placed(tree.places)


def _sketch(data: dict[str, Any], wrong: list[where.Path]) -> tuple[Study, set[str]]:
    """A study with the invalid parts removed, so that contradictions in the rest still show.

    Also returns the top-level keys that are incomplete as a result.
    """
    sound = _copied(data)
    broken: set[str] = set()
    for path in wrong:
        key = str(path[0]) if path else "tenants"
        match path:
            case ("tenants", name, *rest) if name in sound.get("tenants", ()):
                entry = sound["tenants"][name]
                if rest and rest[0] != "workload" and isinstance(entry, dict):
                    entry.pop(rest[0], None)
                else:
                    sound["tenants"][name] = _STAND_IN
                broken.add(EVERY_TENANT)
                continue
            case ("mixes", int(index), "copies", tenant, *_) if isinstance(sound["mixes"][index], dict):
                sound["mixes"][index]["copies"][tenant] = [2]
            case ("mixes", int(index), *_):
                sound["mixes"][index] = "solo"
            case ("loads", int(index)):
                sound["loads"][index] = "closed(1)"
            case _:
                sound.pop(key, None)
        broken.add(key)
    sound.setdefault("tenants", {})
    for attempt in range(2):
        try:
            return Study.model_validate(sound), broken
        except ValidationError as error:
            names = {path[1] for path, _ in problems_of(error, Study) if path[:1] == ("tenants",) and len(path) > 1}
            if attempt or not names <= set(sound["tenants"]):
                break
            sound["tenants"] |= dict.fromkeys(names, _STAND_IN)
    # An invalid name: nothing that names tenants can be checked.
    nameless = {key: value for key, value in sound.items() if key != "mixes"}
    with suppress(ValidationError):
        return Study.model_validate(nameless), broken | {"mixes"}
    return Study.model_validate(nameless | {"tenants": {"null": _STAND_IN}}), broken | {"tenants", "mixes"}


def _with_traces(study: Study, folder: Path) -> tuple[Study, list[tuple[where.Path, str]]]:
    """Traces by absolute path, so that the study means the same from any working directory."""
    problems: list[tuple[where.Path, str]] = []

    def found(load: Load, path: where.Path) -> Load:
        if load.path is None:
            return load
        file = (folder / Path(load.path).expanduser()).resolve()
        if not file.is_file():
            problems.append((path, f"there is no trace file {shown(load.path)} beside the study (in {folder})"))
        elif "," in str(file):
            problems.append((path, f"the path of the trace, {shown(str(file))}, contains a comma; rename it"))
        else:
            problems.extend((path, sentence) for sentence in _doubts(file))
        return load.model_copy(update={"path": str(file)})

    loads = tuple(found(load, ("loads", index)) for index, load in enumerate(study.loads))
    tenants = {
        name: entry.model_copy(update={"load": found(entry.load, ("tenants", name, "load"))}) if entry.load else entry
        for name, entry in study.tenants.items()
    }
    return study.model_copy(update={"loads": loads, "tenants": tenants}), problems


def _doubts(trace: Path) -> list[str]:
    """Problems with a trace, found before anything is measured."""
    from cotenant.workloads.recorded_arrivals import read_trace

    try:
        read_trace(trace)
    except CotenantError as error:
        return [f"{error.message}; {error.hint}" if error.hint else error.message]
    return []


def _refusal(source: str, problems: list[str]) -> StudyError:
    message = f"{source} has {amount(len(problems), 'problem')}"
    return StudyError(message, problems=tuple(problems), hint="fix these lines and run it again")


def study_given(study: str | Path | Study, overrides: Sequence[str]) -> Study:
    """A built-in study's name, a file, or a study, with its overrides. Raises StudyError."""
    if not isinstance(study, Study):
        return load_study(study, overrides)
    return study_from(study.model_dump(mode="json", by_alias=True), overrides) if overrides else study
