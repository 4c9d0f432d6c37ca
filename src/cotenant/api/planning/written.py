"""Plans that were written to a file: read them, to check, measure, compare or export them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant import opening
from cotenant.api.paths import AnyPath
from cotenant.errors import StudyError

if TYPE_CHECKING:
    from cotenant.api.planning.serving import Planned
    from cotenant.planning.tenants_file import PlannedEntry

_HINT = "write one with `cotenant plan tenants.yaml --devices ... --out plan.yaml`"


def read_plan(path: Path) -> Mapping[str, Any]:
    """Read a plan.yaml.

    Raises:
        StudyError: It can't be read or isn't a plan.
    """
    from cotenant.study.tree import NotYaml, read

    try:
        data = read(opening.read_text(path), str(path)).data
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise StudyError(f"{path} can't be read: {reason}", hint=_HINT) from None
    except NotYaml as error:
        raise StudyError(f"{path}:{error.line}: {error}", hint=_HINT) from None
    whole = isinstance(data, dict) and data.get("plan") == 1 and isinstance(data.get("devices"), list)
    needed = ("kind", "sharing", "tenants")
    if not whole or any(not isinstance(one, dict) or any(key not in one for key in needed) for one in data["devices"]):
        raise StudyError(f"{path} is not a plan", hint=_HINT)
    found: Mapping[str, Any] = data
    return found


def read_planned(path: AnyPath) -> "Planned":
    """A plan that was written before, to export it.

    Args:
        path: A plan.yaml.

    Raises:
        CotenantError: It can't be read or isn't a plan, or a device is unknown.
    """
    from cotenant.api.planning.devices import devices_of
    from cotenant.api.planning.serving import Planned, model_of
    from cotenant.planning.mixes.written import from_document

    path = Path(path)
    document = read_plan(path)
    names = dict.fromkeys(str(device["kind"]) for device in document["devices"])
    kinds = {kind.name: kind for name in names for kind in devices_of(name, {}, priced=False).kinds}
    seats = [(name, seat) for device in document["devices"] for name, seat in device["tenants"].items()]
    models = {str(seat.get("tenant")): model_of(entry_of(name, seat, str(path))) for name, seat in seats}
    return Planned(from_document(document, kinds, str(path)), str(path), ", ".join(names), models)


def entry_of(name: str, seat: Mapping[str, Any], source: str) -> "PlannedEntry":
    """What a tenant of a written plan runs, at its rate and batch.

    Args:
        name: The tenant's name on the device.
        seat: Its entry.
        source: Where it stands, for messages.

    Raises:
        StudyError: The entry doesn't say what runs, or says it wrongly.
    """
    from pydantic import ValidationError

    from cotenant.planning.tenants_file import PlannedEntry

    runs = seat.get("runs")
    if not isinstance(runs, dict):
        raise StudyError(f"{source} doesn't say what {name} runs", hint="plan from a tenants file that names it")
    software = {"software": seat["software"]} if seat.get("software", "eager") != "eager" else {}
    wanted = {"rate": f"{seat['rate_rps']:.9f}/s"} if seat.get("rate_rps") else {"job": {"time": "1h"}}
    try:
        return PlannedEntry.model_validate({**runs, **software, **wanted, "batch": seat["batch"]})
    except (ValidationError, KeyError, TypeError, ValueError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else f"{error} is wrong or missing"
        raise StudyError(f"{source}: {name}: {reason}", hint=_HINT) from None
