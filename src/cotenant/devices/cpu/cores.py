"""Sets of cores: their notation, the ones this process may use, and the ones that share hardware."""

import os
import re

from cotenant.devices.cpu.cgroup import quota_cores
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError

Cores = tuple[int, ...]

_SPAN = re.compile(r"^(\d{1,6})(?:-(\d{1,6}))?$", re.ASCII)
_MOST = 1 << 16


def parse_cores(text: str) -> Cores:
    """Parse cores in the kernel's notation: `0`, `0-3`, `0,2-3`. Raises ValueError."""
    cores: set[int] = set()
    for part in text.split(","):
        match = _SPAN.match(part.strip())
        if match is None:
            raise ValueError(f"{part.strip()!r} is neither a core nor a range of cores")
        first = int(match.group(1))
        last = int(match.group(2) or first)
        if last < first:
            raise ValueError(f"the range {part.strip()!r} runs backwards")
        if last >= _MOST:
            raise ValueError(f"no machine has a core {last}")
        cores.update(range(first, last + 1))
    return tuple(sorted(cores))


def format_cores(cores: Cores) -> str:
    """Format cores as briefly as possible: `0-2,5`."""
    spans: list[list[int]] = []
    for core in sorted(cores):
        if spans and spans[-1][1] == core - 1:
            spans[-1][1] = core
        else:
            spans.append([core, core])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


def allowed_cores() -> Cores:
    """Cores the scheduler may put this process on."""
    if not hasattr(os, "sched_getaffinity"):
        raise DeviceError("the cpu device needs Linux: this system can't tell which cores a process may use")
    return tuple(sorted(os.sched_getaffinity(0)))


def usable_cores(tree: FileTree) -> Cores:
    """Cores this process can keep busy all the time.

    A container's quota limits time, not cores: with a quota of 2.5 cores, threads on 8 cores would be throttled
    for part of every period. Two cores can be used without that, so the device has the first two.
    """
    cores = allowed_cores()
    quota = quota_cores(tree)
    return cores if quota is None else cores[: max(1, int(quota))]


def package_cores(tree: FileTree, cores: Cores) -> Cores:
    """Cores that share a socket (cache, memory channels, power) with these, these included."""
    online = tree.text("/sys/devices/system/cpu/online")
    try:
        every = parse_cores(online) if online else cores
    except ValueError:
        every = cores

    def package(core: int) -> str:
        return tree.text(f"/sys/devices/system/cpu/cpu{core}/topology/physical_package_id") or "0"

    mine = {package(core) for core in cores}
    return tuple(sorted({core for core in every if package(core) in mine} | set(cores)))


def physical_cores(tree: FileTree, cores: Cores) -> tuple[Cores, ...]:
    """The same cores, grouped by physical core."""
    groups: dict[Cores, list[int]] = {}
    for core in sorted(cores):
        listed = tree.text(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        try:
            siblings = parse_cores(listed) if listed else (core,)
        except ValueError:
            siblings = (core,)
        groups.setdefault(siblings, []).append(core)
    return tuple(tuple(group) for group in groups.values())


def by_node(tree: FileTree, physical: tuple[Cores, ...]) -> tuple[Cores, ...]:
    """Physical cores in the order of their memory nodes, so that neighbours in the order share a node."""
    nodes = {core: node for node, cores in _cores_of_nodes(tree).items() for core in cores}
    return tuple(sorted(physical, key=lambda group: (nodes.get(group[0], 0), group[0])))


def equal_blocks(physical: tuple[Cores, ...], count: int) -> tuple[Cores, ...]:
    """Disjoint blocks with the same number of cores each; what can't be divided is left out.

    Hyper-threads of a physical core stay together while there are enough physical cores; else the blocks share them.
    Empty if there are fewer cores than blocks.
    """
    units = physical if len(physical) >= count else tuple((core,) for group in physical for core in group)
    each = len(units) // count
    parts = [units[each * number : each * (number + 1)] for number in range(count)] if each else []
    fewest = min((sum(map(len, part)) for part in parts), default=0)
    return tuple(tuple(sorted([core for unit in part for core in unit][:fewest])) for part in parts)


def _cores_of_nodes(tree: FileTree) -> dict[int, Cores]:
    found = {}
    for path in tree.glob("/sys/devices/system/node/node[0-9]*"):
        listed = tree.text(f"{path}/cpulist")
        if listed:
            found[int(path.rsplit("node", 1)[1])] = parse_cores(listed)
    return found


def numa_nodes(tree: FileTree, cores: Cores) -> tuple[int, ...]:
    """Memory nodes the cores belong to; empty if the system doesn't say."""
    return tuple(sorted(node for node, listed in _cores_of_nodes(tree).items() if set(listed) & set(cores)))
