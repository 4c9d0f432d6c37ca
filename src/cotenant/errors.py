"""Every error a user can meet. Each is one sentence (what, where) and, where there is one, a next step.

CotenantError
├── StudyError          a study file is wrong: all its problems at once
├── WorkloadError       a workload can't be found, described or built
│   └── RequestFailed   a server did not answer a request as it should
├── DeviceError         a device is not there or can't do what is asked
│   ├── SharingUnavailable
│   └── DeviceBusy      another run holds the device
├── DoesNotFit          a mix needs more memory than the device has
├── RunFolderError      a run folder is foreign, corrupt, newer, or can't be written
├── PredictionError     something has to be measured before it can be predicted
├── QueryError          a question to the records is wrong
├── DataError           measured data to validate against is absent, unknown or damaged
├── FleetError          a cluster can't be reached or used, or its nodes don't fit together
├── DatabaseError       the database of all machines' runs is foreign, damaged or can't answer
├── SchedulingError     a contract, a cost or an event that the scheduler was given is wrong
├── ServingError        a tenant can't be served as asked
│   ├── BadInput        a request holds what the model can't take
│   └── Refused         a request was turned away: why, and when to come back
└── TenantFailed        a tenant process crashed, hung or ran out of memory

Warnings are sentences too; the command line prints them as such:

IntegrityWarning        a run has no seals, so damage to it could not be noticed
└── DamagedTrials       trials don't match their seals, or are gone, and were left out
"""


class CotenantError(Exception):
    """Something the user can act on; printed as one sentence and a hint, never as a traceback."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class StudyError(CotenantError):
    """A study can't be used; ``problems`` holds one line each: file, line, key, what was expected."""

    def __init__(self, message: str, *, problems: tuple[str, ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems


class WorkloadError(CotenantError):
    """A workload can't be found, described or built."""


HUNG_UP = "hung up"
"""The kind of a request that its load gave up half way."""


class RequestFailed(WorkloadError):
    """A server did not answer a request as it should; ``kind`` groups such failures: `http 503`, `timeout`."""

    def __init__(self, kind: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


class HungUp(RequestFailed):
    """A request that the load itself gave up half way, as users do: neither an error nor a latency."""

    def __init__(self, message: str) -> None:
        super().__init__(HUNG_UP, message)


class DeviceError(CotenantError):
    """A device is not there, or can't do what is asked of it."""


class SharingUnavailable(DeviceError):
    """The device can't be shared that way here; the hint names what is missing and the next best way."""


class DeviceBusy(DeviceError):
    """Another run holds the device."""


class DoesNotFit(CotenantError):
    """A mix needs more memory than the device has."""


class RunFolderError(CotenantError):
    """A run folder is foreign, corrupt, of a newer schema, or can't be written."""


class PredictionError(CotenantError):
    """Something has to be measured before it can be predicted; the hint is the command that measures it."""


class QueryError(CotenantError):
    """A question to the records is wrong."""


class DataError(CotenantError):
    """Measured data to validate against is absent, unknown or damaged."""


class FleetError(CotenantError):
    """A cluster can't be reached or used as it is, or its nodes don't fit together."""


class DatabaseError(CotenantError):
    """The database of all machines' runs is foreign, damaged, can't be written, or has no answer."""


class SchedulingError(CotenantError):
    """A contract, a cost or an event that the scheduler was given is wrong."""


class ServingError(CotenantError):
    """A tenant can't be served as asked."""


class BadInput(ServingError):
    """A request holds what its model can't take."""


class Refused(ServingError):
    """A request was turned away; ``retry_after_s`` is when it's worth another try, None if it never is."""

    def __init__(self, tenant: str, why: str, *, retry_after_s: float | None, predicted_wait_s: float) -> None:
        again = "it can't be served" if retry_after_s is None else f"try again in {retry_after_s:.3g} s"
        super().__init__(
            f"A request of {tenant} was refused ({why}).",
            hint=f"The predicted wait is {predicted_wait_s:.3g} s; {again}.",
        )
        self.tenant = tenant
        self.why = why
        self.retry_after_s = retry_after_s
        self.predicted_wait_s = predicted_wait_s


class TenantFailed(CotenantError):
    """A tenant's process crashed, hung or ran out of memory."""


class IntegrityWarning(UserWarning):
    """A run was read, but damage to its files could not be noticed: it has no seals."""


class DamagedTrials(IntegrityWarning):
    """A run was read without those of its trials that are damaged or gone."""
