"""Writes locked/*.txt: the exact versions of constraints.txt with the SHA-256 of every file that an index has of them.

    .venv/bin/python tools/lock.py

One file for each group of packages that `make` installs, by what is installed in this environment and its metadata.
torch is not among them: its builds differ by platform and index (CPU, CUDA 12, CUDA 13), so no list of hashes holds
everywhere. It is pinned by version only, and so is what only one of its builds needs. `make bench` and `make docs`
add packages that are pinned by version as well.
"""

import html
import os
import re
import subprocess
import sys
import tomllib
import urllib.request
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
GROUPS = {"core": "", "dev": "dev"}
"""File -> the extra of pyproject.toml; what is in core is not repeated in the other."""
CORE = ("models", "sim")
"""Extras that `make demo` installs as well."""
APART = "torch"
HEAD = "# Written by `make lock` from constraints.txt. Do not edit.\n"


def pins() -> dict[str, str]:
    """Name -> version, as constraints.txt says."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name): version.split(";")[0].strip() for name, version in found}


def needed(requirements: list[str], extra: str = "") -> set[str]:
    """Everything that these requirements need, apart from torch; by the metadata of what is installed."""
    found: set[str] = set()
    waiting = [(Requirement(one), extra) for one in requirements]
    while waiting:
        requirement, wanted = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": wanted}):
            continue
        name = canonicalize_name(requirement.name)
        again = name in found and not requirement.extras
        if again or name in {APART, "cotenant"}:
            continue
        found.add(name)
        for inner in metadata.requires(name) or ():
            waiting += [(Requirement(inner), one) for one in ("", *requirement.extras)]
    return found


def of_group(extra: str) -> set[str]:
    """The packages of an extra of ours, without those of the core."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    core = needed(project["dependencies"] + [line for name in CORE for line in extras[name]])
    core |= {name for name in needed(metadata.requires(APART) or []) if name in pins()}
    if not extra:
        return core
    wanted, names = [extra], set()
    while wanted:
        for line in extras[wanted.pop()]:
            inner = Requirement(line)
            if canonicalize_name(inner.name) == "cotenant":
                wanted += inner.extras
            else:
                names |= needed([line])
    return names - core


def hashes(index: str, name: str, version: str) -> list[str]:
    """The SHA-256 of every file of a version, as the index says."""
    with urllib.request.urlopen(f"{index.rstrip('/')}/{name}/", timeout=60) as page:  # noqa: S310 - the index of pip
        links = re.findall(r'href="([^"]+)"', page.read().decode())
    found = set()
    for link in map(html.unescape, links):
        address = urlsplit(link)
        file, digest = unquote(address.path.rpartition("/")[2]), address.fragment
        if digest.startswith("sha256=") and _version(file, name) == version:
            found.add(digest.removeprefix("sha256="))
    return sorted(found)


def _version(file: str, name: str) -> str | None:
    if file.endswith(".whl"):
        return file.split("-")[1]
    stem = file.removesuffix(".tar.gz").removesuffix(".zip")
    prefix, _, version = stem.rpartition("-")
    return version if canonicalize_name(prefix) == name else None


def main() -> None:
    """Write all groups."""
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    configured = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    index = os.environ.get("PIP_INDEX_URL") or configured or "https://pypi.org/simple"
    versions = pins()
    for group, extra in GROUPS.items():
        lines = [HEAD]
        for name in sorted(of_group(extra)):
            if not (found := hashes(index, name, versions[name])):
                sys.exit(f"the index has no file of {name} {versions[name]}")
            lines.append(f"{name}=={versions[name]}" + "".join(f" \\\n    --hash=sha256:{one}" for one in found) + "\n")
        (ROOT / "locked" / f"{group}.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
