"""Every error a user can meet. Each is one sentence (what, where) and, where there is one, a next step.

CotenantError
├── StudyError          a study file is wrong: all its problems at once
├── WorkloadError       a workload can't be found, described or built
│   └── RequestFailed   a server did not answer a request correctly
│       └── BackendTimeout  a backend did not answer in time, with when to retry
├── DeviceError         a device is absent or lacks the capability
│   ├── SharingUnavailable
│   └── DeviceBusy      another run or a server holds the device
├── DoesNotFit          a mix needs more memory than the device has
├── RunFolderError      a run folder is foreign, corrupt, newer, or can't be written
│   └── WatchedRuns     runs of `watch` have totals of servers, not requests
├── PredictionError     something must be measured before it can be predicted
├── QueryError          a query over the records is wrong
├── DataError           validation data is absent, unknown or damaged
├── FleetError          a cluster can't be reached or used, or its nodes are incompatible
├── DatabaseError       the database of all machines' runs is foreign, damaged or has no answer
├── SchedulingError     a contract, cost or event passed to the scheduler is invalid
├── ServingError        a tenant can't be served as configured
│   ├── BadInput        a request has inputs that the model does not accept
│   └── Refused         a request was refused, with the reason and when to retry
├── WatchError          nothing can be watched there, or a name on the command line isn't known
└── TenantFailed        a tenant process crashed, hung or ran out of memory

Warnings are sentences too, and the command line prints them as such:

IntegrityWarning        a run has no seals, so damage would go unnoticed
└── DamagedTrials       trials that don't match their seals, or are gone, were left out
"""


class CotenantError(Exception):
    """An error the user can act on. As text: what is wrong, then the hint."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return "\n".join((self.message, *self._details(), *([f"hint: {self.hint}"] if self.hint else [])))

    def _details(self) -> tuple[str, ...]:
        return ()


class StudyError(CotenantError):
    """A study can't be used; ``problems`` has one line each: file, line, key, what was expected."""

    def __init__(self, message: str, *, problems: tuple[str, ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems

    def _details(self) -> tuple[str, ...]:
        return self.problems


class ImpossibleObjectives(CotenantError):
    """No available device can keep a tenant's objectives: an answer of `plan`, not a mistake in its input."""


class WorkloadError(CotenantError):
    """A workload can't be found, described or built."""


HUNG_UP = "hung up"
"""The kind of a request that its client cancelled."""


class RequestFailed(WorkloadError):
    """A server did not answer a request correctly; ``kind`` groups such failures: `http 503`, `timeout`.

    ``waited_s``: the timeout that was exceeded.
    """

    def __init__(self, kind: str, message: str, *, hint: str | None = None, waited_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.waited_s = waited_s


class BackendTimeout(RequestFailed):
    """A backend did not answer in time; ``retry_after_s`` is when to retry."""

    def __init__(self, message: str, *, retry_after_s: float, hint: str | None = None) -> None:
        super().__init__("timeout", message, hint=hint)
        self.retry_after_s = retry_after_s


class HungUp(RequestFailed):
    """A request cancelled by the load itself, as users do: neither an error nor a latency."""

    def __init__(self, message: str) -> None:
        super().__init__(HUNG_UP, message)


class DeviceError(CotenantError):
    """A device is absent, or lacks the capability."""


class SharingUnavailable(DeviceError):
    """The device can't be shared that way here; the hint names what is missing and the best alternative."""


class DeviceBusy(DeviceError):
    """Another run or a server holds the device."""


class DoesNotFit(CotenantError):
    """A mix needs more memory than the device has."""


class MissingExtra(CotenantError):
    """A package that an extra installs is missing; the hint is the command."""


class RunFolderError(CotenantError):
    """A run folder is foreign, corrupt, of a newer schema, or can't be written.

    ``reason``: the system's own words, where a write failed: `no space left on device`.
    """

    def __init__(self, message: str, *, hint: str | None = None, reason: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class WatchedRuns(RunFolderError):
    """Runs of `watch` have totals of their servers and no requests, which what was asked needs."""


class PredictionError(CotenantError):
    """Something must be measured before it can be predicted; the hint is the command that measures it."""


class QueryError(CotenantError):
    """A query over the records is wrong."""


class DataError(CotenantError):
    """Validation data is absent, unknown or damaged."""


class FleetError(CotenantError):
    """A cluster can't be reached or used, or its nodes are incompatible."""


class DatabaseError(CotenantError):
    """The database of all machines' runs is foreign, damaged, can't be written, or has no answer."""


class SchedulingError(CotenantError):
    """A contract, cost or event passed to the scheduler is invalid."""


class ServingError(CotenantError):
    """A tenant can't be served as configured."""


class BadInput(ServingError):
    """A request has inputs that its model does not accept; ``param`` and ``code`` as in OpenAI's errors."""

    def __init__(
        self, message: str, *, hint: str | None = None, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.param = param
        self.code = code


class Refused(ServingError):
    """A request was refused; ``retry_after_s`` is when to retry, None if never."""

    def __init__(self, tenant: str, why: str, *, retry_after_s: float | None, predicted_wait_s: float) -> None:
        hint = "It can't be served."
        if retry_after_s is not None:
            hint = f"The predicted wait is {predicted_wait_s:.3g} s; try again in {retry_after_s:.3g} s."
        elif why == "too large":
            hint = "Even alone it would end after its deadline or exceed its memory: ask for less, or allow more time."
        super().__init__(f"A request of {tenant} was refused ({why}).", hint=hint)
        self.tenant = tenant
        self.why = why
        self.retry_after_s = retry_after_s
        self.predicted_wait_s = predicted_wait_s


class WatchError(CotenantError):
    """Nothing can be watched there."""


class TenantFailed(CotenantError):
    """A tenant's process crashed, hung or ran out of memory."""


class IntegrityWarning(UserWarning):
    """A run without seals was read: damage to its files would go unnoticed."""


class DamagedTrials(IntegrityWarning):
    """A run was read without those of its trials that are damaged or gone."""
