"""Finds GPUs by name or in the user's own YAML file."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cotenant import opening, plain_yaml
from cotenant.errors import DeviceError
from cotenant.prediction.gpu import GpuSpec
from cotenant.tenancy.device_names import DeviceName
from cotenant.text import did_you_mean

_FOLDER = Path(__file__).parent / "gpus"
SUFFIXES = (".yaml", ".yml")


def gpu_names() -> tuple[str, ...]:
    """Names of all GPUs in the catalogue."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def find_gpu(name: str) -> GpuSpec:
    """Return the GPU with this name, or described by the YAML file at this path.

    Args:
        name: A name in the catalogue such as `a100-sxm4-40gb`, or a path ending in `.yaml`. A leading `sim:` is
            ignored.

    Raises:
        DeviceError: No such GPU, or the file doesn't describe a GPU.
    """
    wanted = DeviceName(name.strip()).model
    if wanted.lower().endswith(SUFFIXES):
        return _from_file(Path(wanted).expanduser())
    if wanted.lower() in gpu_names():
        return _from_catalogue(wanted.lower())
    versions = [name for name in gpu_names() if wanted and name.startswith(f"{wanted.lower()}-")]
    close = None if versions else did_you_mean(wanted, gpu_names(), most=3, cutoff=0.4)
    meant = close or f"choose from {', '.join(versions or gpu_names())}."
    raise DeviceError(f"there is no simulated GPU {wanted!r}", hint=f"{meant} Your own: sim:/path/to/gpu.yaml")


@cache
def _from_catalogue(name: str) -> GpuSpec:
    return GpuSpec.model_validate(_merged(read_description(_FOLDER / f"{name}.yaml"), _FOLDER / f"{name}.yaml"))


def _from_file(path: Path) -> GpuSpec:
    data = _merged({"name": _name_of(path), **read_description(path)}, path)
    try:
        return GpuSpec.model_validate(data)
    except ValidationError as error:
        problems = [_sentence(problem) for problem in error.errors()]
        raise DeviceError(
            f"{path} does not describe a GPU: {'; '.join(problems)}",
            hint="start from a known one with `like: a100-sxm4-40gb` and state only the differences",
        ) from None


def _name_of(path: Path) -> str:
    return "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in path.stem.lower()).strip("-")


def read_description(path: Path) -> dict[str, Any]:
    """The keys and values of a GPU's file, unchecked. Raises DeviceError."""
    try:
        data = plain_yaml.load(opening.read_text(path))
    except OSError as error:
        raise DeviceError(f"can't read {path}: {opening.why(error)}", hint="check the path after sim:") from None
    except UnicodeDecodeError:
        raise DeviceError(f"{path} is not a text file", hint="check the path after sim:") from None
    except plain_yaml.NotYaml as problem:
        raise DeviceError(f"{path}, line {problem.line}, is not YAML: {problem}") from None
    if not isinstance(data, dict):
        raise DeviceError(f"{path} does not describe a GPU: expected keys and values such as `sms: 108`")
    return data


def _merged(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """The file's values on top of the GPU it names with `like`."""
    like = data.pop("like", None)
    if like is None:
        return data
    if not isinstance(like, str) or like not in gpu_names():
        meant = did_you_mean(str(like), gpu_names(), most=3, cutoff=0.4) or f"choose from {', '.join(gpu_names())}"
        raise DeviceError(f"{path}: `like: {like}` is not in the catalogue", hint=meant)
    base = _from_catalogue(like).model_dump()
    merged = _on_top(base, data)
    if base["mig"] and "mig" not in data and isinstance(data.get("sms"), int):
        merged["mig"] = _cut_alike(base["mig"], data["sms"] / base["sms"])
    return merged


def _cut_alike(mig: Mapping[str, Any], size: float) -> dict[str, Any]:
    """The instances of a GPU of another size, each with the same fraction of its SMs."""
    profiles = {
        name: {**profile, "sms": max(1, int(profile["sms"] * size))} for name, profile in mig["profiles"].items()
    }
    return {**mig, "profiles": profiles}


def _on_top(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        under = merged.get(key)
        nested = isinstance(under, Mapping) and isinstance(value, Mapping) and key != "profiles"
        merged[key] = _on_top(under, value) if nested and isinstance(under, Mapping) else value
    return merged


def _sentence(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "missing":
        return f"`{place}` is missing"
    if error["type"] == "extra_forbidden":
        return f"`{place}` is not a known key"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"`{place}`: {message[0].lower()}{message[1:]}" if place else message
