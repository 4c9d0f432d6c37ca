"""A script that sets a machine up for a plan, prints each tenant's environment, and undoes the setup."""

from cotenant.planning.exports.model import Models, gpu_index, slug
from cotenant.planning.mixes.plan import PlannedDevice, SeatedTenant, ServingPlan

_HEAD = """#!/usr/bin/env bash
# Set this machine up for a cotenant plan:  plan.sh up | down | env TENANT
# Needs root for MIG. GPUs are numbered as nvidia-smi numbers them.
set -euo pipefail
state="${COTENANT_STATE:-/tmp/cotenant-plan-$(id -u)}"
mps_for() {  # one MPS server per GPU
    export CUDA_MPS_PIPE_DIRECTORY="$state/mps-$1/pipe" CUDA_MPS_LOG_DIRECTORY="$state/mps-$1/log"
}
"""
_TAIL = """
case "${1:-}" in
    up) up ;;
    down) down ;;
    env) environment "${2:?name a tenant}" ;;
    *) echo "usage: $0 up | down | env TENANT" >&2; exit 2 ;;
esac
"""


def export(plan: ServingPlan, models: Models) -> dict[str, str]:
    """`plan.sh`."""
    del models
    up, down, cases = [], [], []
    for device in plan.devices:
        index = gpu_index(plan, device)
        up += _up(device, index)
        down += _down(device, index)
        cases += [_environment(device, tenant, index, place) for place, tenant in enumerate(device.tenants)]
    names = " ".join(tenant.name for device in plan.devices for tenant in device.tenants)
    lines = [
        _HEAD,
        "up() {",
        '    mkdir -p "$state"',
        *(f"    {line}" for line in up),
        "}",
        "down() {",
        *(f"    {line}" for line in [*reversed(down), 'rm -rf "$state"']),
        "}",
        "environment() {",
        '    case "$1" in',
        *cases,
        f'        *) echo "unknown tenant $1; expected one of: {names}" >&2; exit 2 ;;',
        "    esac",
        "}",
    ]
    return {"plan.sh": "\n".join(lines) + _TAIL}


def _up(device: PlannedDevice, index: int) -> list[str]:
    lines = [f"# {device.name}: {', '.join(tenant.name for tenant in device.tenants)}"]
    if device.sharing == "mps":
        lines += [
            f"mps_for {index}",
            'mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"',
            f"CUDA_VISIBLE_DEVICES={index} nvidia-cuda-mps-control -d",
        ]
    if device.sharing == "mig":
        lines += [f"nvidia-smi -i {index} -mig 1"]
        # One at a time: the UUIDs below are listed in the order of tenants.
        lines += [f"nvidia-smi mig -i {index} -cgi {tenant.share} -C  # {tenant.name}" for tenant in _by_size(device)]
        lines += [
            f"nvidia-smi -i {index} -L | sed -n 's/.*UUID: \\(MIG-[^)]*\\)).*/\\1/p' > \"$state/mig-{index}\"",
        ]
    if device.clock_mhz:
        lines += [f"nvidia-smi -i {index} -lgc {device.clock_mhz:.0f},{device.clock_mhz:.0f}"]
    if device.power_limit_w:
        # Save the current limit, to restore it later.
        query = f"nvidia-smi -i {index} --query-gpu=power.limit --format=csv,noheader,nounits"
        lines += [f'{query} > "$state/power-{index}"', f"nvidia-smi -i {index} -pl {device.power_limit_w:.0f}"]
    return lines


def _down(device: PlannedDevice, index: int) -> list[str]:
    lines = []
    if device.clock_mhz:
        lines += [f"nvidia-smi -i {index} -rgc || true"]
    if device.power_limit_w:
        lines += [f'nvidia-smi -i {index} -pl "$(cat "$state/power-{index}")" || true']
    if device.sharing == "mps":
        lines += [f"(mps_for {index}; echo quit | nvidia-cuda-mps-control) || true"]
    if device.sharing == "mig":
        lines += [
            f"nvidia-smi -i {index} -mig 0 || true",
            f"nvidia-smi mig -i {index} -dgi || true",
            f"nvidia-smi mig -i {index} -dci || true",
        ]
    return lines


def _by_size(device: PlannedDevice) -> list[SeatedTenant]:
    """Largest instances first: small ones could take their positions."""
    return sorted(device.tenants, key=lambda tenant: (-int(str(tenant.share).partition("g")[0]), str(tenant.share)))


def _environment(device: PlannedDevice, tenant: SeatedTenant, index: int, place: int) -> str:
    visible = ",".join(str(index + number) for number in range(device.devices))
    settings = [f'echo "export CUDA_VISIBLE_DEVICES={visible}"']
    if device.sharing == "mig":
        line = _by_size(device).index(tenant) + 1
        settings = [f'echo "export CUDA_VISIBLE_DEVICES=$(sed -n {line}p "$state/mig-{index}")"']
    if device.sharing == "mps":
        settings += [f'mps_for {index}; echo "export CUDA_MPS_PIPE_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY"']
        if isinstance(tenant.share, float):
            settings += [f'echo "export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={tenant.share:.0f}"']
    del place
    return f"        {slug(tenant.name)}) {'; '.join(settings)} ;;"
