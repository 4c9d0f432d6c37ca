"""Identities of the tenants of runs, from the columns of the records and the study that each run carries."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cotenant.errors import CotenantError
from cotenant.store.reading import OpenRuns
from cotenant.study.prediction_inputs import IN_TORCH, major_minor
from cotenant.tenancy.identity import TenantIdentity
from cotenant.tenancy.load import Load
from cotenant.workloads.spec_options import UNKNOWN_DTYPE

if TYPE_CHECKING:
    from cotenant.tenancy.tenant_entry import TenantEntry

_NAMES = ("workload", "batch", "seq", "dtype", "threads", "software")
_TENANTS = """
SELECT DISTINCT run, "of", workload, batch, seq, dtype, threads, software
FROM tenants JOIN trials USING (run, trial) WHERE trials.block >= 0
"""


class Identities:
    """Identities of the tenants of open runs."""

    def __init__(self, runs: OpenRuns) -> None:
        self._manifests = {run: folder.manifest for run, folder in runs.folders.items()}
        self._entries = {run: _entries(manifest) for run, manifest in self._manifests.items()}
        self._made: dict[tuple[Any, ...], TenantIdentity] = {}

    def of(
        self,
        run: str,
        name: str,
        *,
        load: str,
        settings: str | None,
        workload: str,
        batch: int | None,
        seq: int | None,
        dtype: str | None,
        threads: int | None,
        software: str | None = None,
    ) -> TenantIdentity:
        """The identity of a tenant.

        Args:
            run: The run.
            name: The study's tenant.
            load: Its load in the trial.
            settings: Of the device's controls in the trial, as JSON.
            workload: As recorded, like the rest.
            batch: Items per request.
            seq: Tokens per item.
            dtype: Number format.
            threads: CPU threads per operator.
            software: What executed it.
        """
        key = run, name, load, settings, workload, batch, seq, dtype, threads, software
        if key not in self._made:
            known = None if dtype == UNKNOWN_DTYPE else dtype  # of one's own function, the device's is no default
            columns = {"batch": batch, "seq": seq, "dtype": known, "software": software}
            entry = self._entries[run].get(name)
            if entry is None or entry.workload != workload:
                found = TenantIdentity(workload, threads=threads, settings=_settings_text(settings))
            else:
                found = TenantIdentity.of(entry, load=_load(load), settings=_settings(settings))
            found = found.with_records(**columns)
            self._made[key] = found.with_records(version=self._version(run, found.software))
        return self._made[key]

    def _version(self, run: str, software: str | None) -> str | None:
        """Major and minor version of torch, where it executed the tenant on a real device."""
        manifest = self._manifests[run]
        if software not in IN_TORCH or manifest.get("simulated"):
            return None
        sessions = manifest.get("sessions")
        packages = sessions[-1].get("packages") if isinstance(sessions, list) and sessions else None
        version = packages.get("torch") if isinstance(packages, Mapping) else None
        return major_minor(version) if isinstance(version, str) else None


def by_tenant(runs: OpenRuns) -> dict[str, TenantIdentity]:
    """Identities of the tenants of a run by their names in its study, whatever the load and the settings."""
    identities = Identities(runs)
    found = {}
    for run, name, *row in runs.con.execute(_TENANTS).fetchall():
        named = dict(zip(_NAMES, row, strict=True))
        found[str(name)] = replace(identities.of(run, name, load="", settings=None, **named), in_flight=None)
    return found


def _entries(manifest: Mapping[str, Any]) -> "Mapping[str, TenantEntry]":
    """The tenants of the run's study; none if it has no study, or a study of another version."""
    from cotenant.study.files import study_from_text

    try:
        return study_from_text(str(manifest.get("study")), source="a run").tenants
    except CotenantError:
        return {}


def _load(text: str) -> Load | None:
    try:
        return Load.model_validate(text)
    except ValueError:
        return None


def _settings(text: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _settings_text(text: str | None) -> str:
    return json.dumps(dict(_settings(text)), sort_keys=True) if _settings(text) else ""
