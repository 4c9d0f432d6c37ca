"""What would settle an open question: the measurement with its command, or what to change first."""

import math
from collections.abc import Mapping, Sequence

from cotenant.analyse.decision.answer import MixChoice
from cotenant.analyse.decision.option import SharingOption, TenantInOption, mix_name
from cotenant.analyse.sharing.slo import LATE, queries_needed
from cotenant.tenancy.records import SERVED
from cotenant.tenancy.run_command import FEWEST_BLOCKS, REAL_DEVICE, RunLength, mixes_setting, run_command, ways_setting
from cotenant.text import duration, listed

DEFAULT = "eager"
MOST_NAMED = 3
"""More tenants than this are counted, not named."""
REMEDIES: Mapping[tuple[str, ...], str] = {
    ("quiet_machine", "no_steal", "device_free"): "free the device of other work",
    ("load_sustained", "on_schedule"): "lower the rates",
    ("enough_requests", "requests_served"): "give each trial a longer window",
    ("clock_stable", "steady", "start_temperature"): "let the device warm up, or fix its clock",
    ("requests_succeed", "tenants_alive"): "find out why requests or tenants fail (--all says what they reported)",
}
"""What to do, by the checks it concerns."""
_MANY_BLOCKS = 40


def what_would_tell(choice: MixChoice) -> str:
    """The measurement that would settle an open choice, with its command and what it takes."""
    match choice.because:
        case "too few requests":
            needed = [objective.more_s for objective in choice.best.objectives if objective.answer == "open"]
            known = [seconds for seconds in needed if seconds is not None]
            if not known and not choice.best.cell.simulated:
                return "change the objective, which lies inside the interval"
            by_error = choice.best.cell.simulated and len(known) < len(needed)  # more of the same won't tell
            return _measured_really(choice) if by_error else _measured_longer(choice, max(known))
        case "too few blocks" if choice.best.cell.simulated:
            return _measured_really(choice)
        case "too few blocks":
            return f"run more blocks, {_takes(choice.best, _MANY_BLOCKS)}: {_command(choice, _MANY_BLOCKS)}"
        case "no trial passed":
            return _remedy(choice.best)
    return "run again on a quiet machine; if it stays, cores sleep while a tenant is alone, and sharing pays"


def ended(remedy: str) -> str:
    """With a full stop, unless it ends with a command to copy."""
    return remedy if "cotenant run " in remedy else f"{remedy}."


def _measured_longer(choice: MixChoice, more_s: float) -> str:
    """More requests of the same decide it."""
    option = choice.best
    if option.cell.load == SERVED:  # no study is known
        return f"serve {mix_name(option.standings)} for {duration(more_s)} longer, under the same load"
    verb = "simulate" if option.cell.simulated else "measure"
    device = option.cell.device if option.cell.simulated else None
    blocks = math.ceil(more_s / _window_s(option)) + option.mix.blocks
    command = _command(choice, blocks, device)
    return f"{verb} {mix_name(option.standings)} for {duration(more_s)} longer: {command}"


def _measured_really(choice: MixChoice) -> str:
    """Nothing that is simulated tells how far off the simulation is."""
    option = choice.best
    needed_s = [
        queries_needed(tenant.shared.quantile, LATE) / tenant.served_rps
        for tenant in option.standings
        if tenant.shared is not None and tenant.served_rps
    ]
    blocks = max(FEWEST_BLOCKS, math.ceil(max(needed_s, default=0.0) / _window_s(option)))
    return f"measure it on the real device, {_takes(option, blocks)}: {_command(choice, blocks, REAL_DEVICE)}"


def _takes(option: SharingOption, blocks: int) -> str:
    return f"at most {duration(60 * _length(option, blocks).minutes)}"


def _length(option: SharingOption, blocks: int) -> RunLength:
    """A block has the mix, and its tenants alone."""
    return RunLength(1 + len({tenant.of for tenant in option.standings}), blocks, _window_s(option))


def _window_s(option: SharingOption) -> float:
    """Length of a trial."""
    return max(max(tenant.measured_s for tenant in option.standings) / max(option.mix.blocks, 1), 1.0)


def _command(choice: MixChoice, blocks: int, device: str | None = None) -> str:
    """`cotenant run FILE --set 'mixes=[{groups: {a-b: [a, b]}}]' --set 'sharing=[mps]' ...`."""
    option = choice.best
    members = [tenant.of for tenant in option.standings]
    settings = [mixes_setting([members]), ways_setting([option.cell.sharing]), *_length(option, blocks).settings]
    return run_command(choice.study, settings, device=device)


def _remedy(option: SharingOption) -> str:
    """What to change so that a trial can pass."""
    if remedy := relief([tenant for tenant in option.standings if tenant.overloaded], alone=False):
        return remedy
    failed = option.mix.failed_checks
    remedies = [remedy for checks, remedy in REMEDIES.items() if any(check in failed for check in checks)]
    return f"{listed(remedies)}, then run again" if remedies else "see what failed with --all, then run again"


def relief(overloaded: Sequence[TenantInOption], *, alone: bool) -> str:
    """`lower chat to 3/s, or use software: vllm`."""
    if not overloaded:
        return ""
    lower = [
        f"{tenant.tenant} to {_sustained((tenant.served_alone_rps if alone else tenant.served_rps) or 0.0)}/s"
        for tenant in overloaded[:MOST_NAMED]
    ]
    faster = any(tenant.generates and tenant.software == DEFAULT for tenant in overloaded)
    return f"lower {listed(lower)}{', or use software: vllm' if faster else ''}"


def _sustained(served_rps: float) -> str:
    """A round rate a little below what is served."""
    target = 0.95 * served_rps
    if target <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(target)) - (0 if target / 10 ** math.floor(math.log10(target)) >= 2 else 1))
    return f"{math.floor(target / unit + 1e-9) * unit:.10g}"
