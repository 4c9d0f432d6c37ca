"""What makes two tenants the same for evidence: everything that changes the time of a request.

A measured solo or mix says something about a tenant only if their identities match. Records have some of it in columns,
resolved by the run (tokens per item, number format); the rest is in the study that the run carries.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cotenant.tenancy.load import Load
    from cotenant.tenancy.tenant_entry import TenantEntry
    from cotenant.workloads.protocol import WorkloadSpec

FIRST_MODES = ("forward", "embed")
"""The modes that decoders and encoders have by default."""
SHOWN_AS = {
    "batch": "batch {}",
    "seq": "{} tokens per item",
    "threads": "{} threads",
    "mode": "mode {}",
    "tokens": "{} tokens to generate",
    "software": "software {}",
    "version": "version {}",
    "quantised": "{} weights",
    "parallel": "{} GPUs",
    "prefix_hits": "{:.0%} of prompts cached",
    "layers": "layers {}",
    "weights": "weights {}",
    "params": "params {}",
    "flags": "server {}",
    "at_once": "{} at once",
    "in_flight": "{} in flight",
    "settings": "settings {}",
}
ABSENT = {"mode": "the usual mode", "settings": "the usual settings", "params": "no params", "flags": "no server"}
LONGEST = 60


@dataclass(frozen=True, slots=True)
class TenantIdentity:
    """What runs, at which size, by which software, on which setting of the device. None: unknown."""

    workload: str
    batch: int | None = None
    seq: int | None = None
    """Tokens per item."""
    dtype: str | None = None
    threads: int | None = None
    """CPU threads per operator as the file states them; 0: set by the sharing."""
    mode: str | None = None
    """Empty for the workload's default."""
    tokens: int | None = None
    """Tokens to generate; 0 where none are."""
    software: str | None = None
    version: str | None = None
    """Of the software, major and minor."""
    tf32: bool | None = None
    attention: str | None = None
    channels_last: bool | None = None
    loading_s: float | None = None
    quantised: str | None = None
    """Empty: as the number format says."""
    parallel: int | None = None
    prefix_hits: float | None = None
    train: bool | None = None
    layers: str | None = None
    weights: str | None = None
    """Empty for random ones."""
    params: str | None = None
    """As JSON."""
    flags: str | None = None
    """How its server is started, as JSON; empty without a server."""
    at_once: str | None = None
    """Of an engine: how many requests it may execute together; empty: as many as it likes."""
    in_flight: int | None = None
    """Of an engine or a server under a closed load: requests in flight."""
    settings: str | None = None
    """Clocks, power limit and other controls, as JSON; empty for the usual ones."""

    @classmethod
    def of(
        cls,
        entry: "TenantEntry",
        *,
        spec: "WorkloadSpec | None" = None,
        load: "Load | None" = None,
        settings: Mapping[str, Any] | None = None,
        version: str | None = None,
    ) -> "TenantIdentity":
        """The identity of a tenant of a file.

        Args:
            entry: The tenant.
            spec: Its workload with the device's number format and its usual length, where they are known.
            load: Its load, where the entry leaves that to the file.
            settings: Of the device's controls.
            version: Of the software that executes it.
        """
        from cotenant.workloads.protocol import DEFAULT_TOKENS, in_steps

        spec = spec or entry.spec()
        load = entry.arrivals or load
        served = in_steps(spec) or spec.server is not None or spec.name.startswith(("http:", "https:", "grpc:"))
        closed = load is not None and not load.open
        return cls(
            workload=spec.name,
            batch=spec.batch,
            seq=spec.seq,
            dtype=spec.dtype,
            threads=entry.threads or 0,
            mode="" if spec.mode is None or spec.mode in FIRST_MODES else spec.mode,
            tokens=spec.tokens or (DEFAULT_TOKENS if spec.mode == "generate" else 0),
            software=spec.software or "eager",
            version=version,
            tf32=spec.tf32,
            attention=spec.attention,
            channels_last=spec.channels_last,
            loading_s=spec.loading_s,
            quantised=spec.quantised or "",
            parallel=spec.parallel,
            prefix_hits=spec.prefix_hits,
            train=spec.train,
            layers=spec.layers,
            weights=spec.weights or "",
            params=_json(spec.params),
            flags="" if spec.server is None else _json(spec.server.model_dump(mode="json", exclude_defaults=True)),
            at_once="" if not in_steps(spec) else ", ".join(map(str, entry.at_once or ())),
            in_flight=load.outstanding if served and closed and load is not None else None,
            settings=_json(settings or {}),
        )

    def with_records(self, **columns: Any) -> "TenantIdentity":
        """With what the columns of a run say, where they say something."""
        return replace(self, **{name: value for name, value in columns.items() if value is not None})

    def differences(self, measured: "TenantIdentity") -> tuple[str, ...]:
        """Fields in which a measured tenant differs; what is unknown of either doesn't count."""
        return tuple(
            field.name
            for field in fields(self)
            if None not in (pair := (getattr(self, field.name), getattr(measured, field.name))) and pair[0] != pair[1]
        )

    def says(self, name: str) -> str:
        """A field in words: `batch 4`."""
        value = getattr(self, name)
        if value in {"", 0, None} and name in {*ABSENT, "threads", "tokens", "quantised", "weights", "at_once"}:
            return ABSENT.get(name, f"the usual {name.replace('_', ' ')}")
        if isinstance(value, bool):
            return name if value else f"no {name}"
        text = SHOWN_AS.get(name, "{}").format(value)
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."

    def spec(self) -> "WorkloadSpec":
        """The workload and the size of a request."""
        from cotenant.workloads.protocol import WorkloadSpec

        return WorkloadSpec.model_validate(
            {
                "name": self.workload,
                "batch": self.batch or 1,
                "seq": self.seq,
                "dtype": self.dtype,
                "mode": self.mode or None,
                "tokens": self.tokens or None,
                "software": None if self.software == "eager" else self.software,
                "tf32": bool(self.tf32),
                "attention": self.attention or "fused",
                "channels_last": bool(self.channels_last),
                "loading_s": self.loading_s or 0.0,
                "quantised": self.quantised or None,
                "parallel": self.parallel or 1,
                "prefix_hits": self.prefix_hits or 0.0,
                "train": bool(self.train),
                "layers": self.layers or "full",
                "params": json.loads(self.params or "{}"),
            }
        )

    def __str__(self) -> str:
        """`bert-base, batch 4`."""
        known = [name for name in ("batch", "mode") if getattr(self, name)]
        return ", ".join([self.workload, *map(self.says, known)])


def nearest(asked: TenantIdentity, measured: Iterable[TenantIdentity]) -> tuple[TenantIdentity, tuple[str, ...]] | None:
    """The measured tenant of the same workload that differs least, and in what."""
    same = [(identity, asked.differences(identity)) for identity in measured if identity.workload == asked.workload]
    return min(same, key=lambda pair: len(pair[1]), default=None)


def not_used(name: str, asked: TenantIdentity, measured: Iterable[TenantIdentity]) -> str:
    """Why the nearest measured tenant is no evidence: `a: measured at batch 4; you asked for batch 8: not used`."""
    near = nearest(asked, measured)
    if near is None or not near[1]:
        return ""
    closest, different = near
    there, here = (" and ".join(who.says(field) for field in different) for who in (closest, asked))
    return f"{name}: measured at {there}; you asked for {here}: not used"


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), sort_keys=True, default=str) if value else ""
