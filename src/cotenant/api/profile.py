"""`profile`: tenants' kernels and how much they overlap; not how fast they are, since profiling slows them down."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.api.progress_output import with_progress
from cotenant.measure.events import Listener, silent
from cotenant.paths import AnyPath
from cotenant.study.model import Study

if TYPE_CHECKING:
    from cotenant.measure.profile import Profile


@with_progress
def profile(
    subject: str | Path | Study,
    *,
    device: str | None = None,
    overrides: Sequence[str] = (),
    tool: str | None = None,
    out: AnyPath = Path("runs"),
    top: int = 5,
    skip_bad: bool = False,
    html: AnyPath | None = None,
    listener: Listener | None = None,
    quiet: bool = False,  # noqa: ARG001 - `with_progress` reads it
) -> "Profile":
    """Profile every mix of a study once, or show an existing profile.

    Args:
        subject: A study (name, YAML file or object) to profile; the run folder of a profile pass; or a file: an SQLite
            export of Nsight Systems, or a CSV of nvprof.
        device: Overrides the study's device.
        overrides: `key=value` each, as `--set`.
        tool: `nsys` or `torch`; None: nsys if installed and the device is a GPU.
        out: Parent folder of the run folder.
        top: Kernels listed per tenant.
        skip_bad: For a file: skip and count unusable lines.
        html: Also write a page with timelines of kernels to this file.
        listener: Receives progress events; default: a display on stderr, or a bar in a notebook.
        quiet: No progress.

    Raises:
        CotenantError: It can't be read or profiled.
    """
    out = Path(out)
    html = None if html is None else Path(html)
    listener = listener or silent
    found = _found(subject, device, overrides, tool=tool, out=out, top=top, skip_bad=skip_bad, listener=listener)
    if html is not None:
        from cotenant.measure.events import Preparing
        from cotenant.reporting.results import profile_page
        from cotenant.store.folder import write_whole

        listener(Preparing(f"drawing the timelines of {len(found.profiles)} mixes into {html}"))
        write_whole(html, profile_page(found.profiles, subject=found.subject, tool=found.tool, notes=found.notes))
    return found


def _found(
    subject: str | Path | Study,
    device: str | None,
    overrides: Sequence[str],
    *,
    tool: str | None,
    out: Path,
    top: int,
    skip_bad: bool,
    listener: Listener,
) -> "Profile":
    from cotenant.measure.profile import profile_of_file, profile_of_run

    path = None if isinstance(subject, Study) else Path(subject)
    if path is not None and path.is_dir():
        return profile_of_run(path, top)
    if path is not None and path.is_file() and path.suffix.lower() not in {".yaml", ".yml"}:
        return profile_of_file(path, top, skip_bad=skip_bad)
    from cotenant.api.run import resolved
    from cotenant.measure.profile import carry_out, choose

    plan, place = resolved(subject, device, None, overrides)
    folder = carry_out(plan, place, choose(place, tool), out=out, listener=listener)
    return profile_of_run(folder, top)
