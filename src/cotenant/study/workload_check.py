"""Whether every tenant's workload exists and can be run as the study says."""

from cotenant.errors import StudyError, WorkloadError
from cotenant.study.model import Study
from cotenant.study.words import amount


def check_workloads(study: Study) -> None:
    """Find and check the workload of every tenant.

    Raises:
        StudyError: with one problem for each tenant that can't be run.
    """
    from cotenant import workloads

    problems: list[str] = []
    for name, entry in study.tenants.items():
        spec = entry.spec()
        try:
            workload = workloads.find(spec.name)
        except WorkloadError as error:
            problems.append(study.places.describe(("tenants", name, "workload"), _sentence(error)))
            continue
        try:
            workload.check(spec)
        except WorkloadError as error:
            problems.append(study.places.describe(("tenants", name), _sentence(error)))
    if problems:
        source = study.places.source or f"study {study.name}"
        raise StudyError(
            f"{source} has {amount(len(problems), 'problem')} with its workloads",
            problems=tuple(problems),
            hint="`cotenant workloads` lists what there is",
        )


def _sentence(error: WorkloadError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
