"""CPU time and memory that a container or batch system grants a process (control groups v1 and v2)."""

from collections.abc import Iterator

from cotenant.devices.tree import FileTree

OURS = "self"
"""This process, in place of a number."""
_NO_LIMIT_BYTES = 1 << 60
"""Version 1 writes "no limit" as a number of this order."""


def quota_cores(tree: FileTree, process: str = OURS) -> float | None:
    """CPU seconds per second that may be used; None if only the core count limits it."""
    quotas = [quota for folder in _folders(tree, "cpu", process) if (quota := _quota(tree, folder)) is not None]
    return min(quotas, default=None)


def quota_statistics(tree: FileTree) -> str | None:
    """The file that counts time throttled by the innermost quota; None without a quota."""
    for folder in _folders(tree, "cpu"):
        if _quota(tree, folder) is not None:
            return f"{folder}/cpu.stat"
    return None


def memory_limit_bytes(tree: FileTree, process: str = OURS) -> int | None:
    """The tightest limit; None if there is none."""
    limits = (
        _first_number(tree, folder, "memory.max", "memory.limit_in_bytes")
        for folder in _folders(tree, "memory", process)
    )
    return min((int(limit) for limit in limits if limit is not None and limit < _NO_LIMIT_BYTES), default=None)


def group_of(tree: FileTree, process: str = OURS) -> str:
    """The path of a process's control group; empty if unknown."""
    lines = (tree.text(f"/proc/{process}/cgroup") or "").splitlines()
    paths = [line.split(":", 2)[2] for line in lines if line.count(":") >= 2]
    return max(paths, key=len, default="")


def free_memory_bytes(tree: FileTree) -> int | None:
    """Memory still available under the tightest limit; None without a limit."""
    left = []
    for folder in _folders(tree, "memory"):
        limit = _first_number(tree, folder, "memory.max", "memory.limit_in_bytes")
        used = _first_number(tree, folder, "memory.current", "memory.usage_in_bytes")
        if limit is None or used is None or limit >= _NO_LIMIT_BYTES:
            continue
        left.append(max(0, int(limit - used + _reclaimable(tree, folder))))
    return min(left, default=None)


def _folders(tree: FileTree, controller: str, process: str = OURS) -> Iterator[str]:
    """Folders whose limits apply, innermost first. In a container the path may be the host's: only `/` exists."""
    for line in (tree.text(f"/proc/{process}/cgroup") or "").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        mounts = (
            (f"/sys/fs/cgroup/{controllers}", f"/sys/fs/cgroup/{controller}") if controllers else ("/sys/fs/cgroup",)
        )
        mount = next((mount for mount in mounts if tree.path(mount).is_dir()), None)
        if mount is None:
            continue
        parts = [part for part in path.split("/") if part and part != ".."]
        for depth in range(len(parts), -1, -1):
            yield "/".join([mount, *parts[:depth]])


def _quota(tree: FileTree, folder: str) -> float | None:
    if text := tree.text(f"{folder}/cpu.max"):
        quota, _, period = text.partition(" ")
        return None if quota == "max" or not period else float(quota) / float(period)
    quota_us = tree.number(f"{folder}/cpu.cfs_quota_us")
    period_us = tree.number(f"{folder}/cpu.cfs_period_us")
    return quota_us / period_us if quota_us and period_us and quota_us > 0 else None


def _first_number(tree: FileTree, folder: str, *names: str) -> float | None:
    return next((value for name in names if (value := tree.number(f"{folder}/{name}")) is not None), None)


def _reclaimable(tree: FileTree, folder: str) -> float:
    """Cached file pages count as used, but the kernel frees them on demand."""
    for line in (tree.text(f"{folder}/memory.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name in {"inactive_file", "total_inactive_file"}:
            return float(value)
    return 0.0
