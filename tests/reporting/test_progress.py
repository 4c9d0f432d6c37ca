"""Progress: what is displayed, and that it costs nothing during a window."""

import io
import threading
from pathlib import Path

import pytest
from rich.console import Console

from cotenant.measure.events import (
    BlockDone,
    CurrentEstimate,
    DeviceAt,
    Preparing,
    RunEnded,
    RunStarted,
    TrialDone,
    TrialStarted,
)
from cotenant.reporting.terminal.progress import ProgressState, after, fraction, picture, watch
from cotenant.tenancy.interval import Estimate

SLOWDOWN = CurrentEstimate("a + b", "pinned", "closed(1)", "a", Estimate(1.62, 1.58, 1.67, 4, "bootstrap"))
STORY = (
    RunStarted(Path("runs/quick/1"), "quick", "cpu", False, 6, 2, 8, 60.0, 0.03, False, 0),
    Preparing("building a"),
    TrialStarted(0, 0, "a", "alone", "closed(1)"),
    TrialDone(0, 0, "a", "alone", "closed(1)", "valid", (), 1.0),
    TrialStarted(1, 0, "a + b", "pinned", "closed(1)"),
    TrialDone(1, 0, "a + b", "pinned", "closed(1)", "unstable", ("the latency of a was not steady: slowdown",), 1.0),
    BlockDone(0, (SLOWDOWN,), 0.041, 8.0, 32.0),
    RunEnded(Path("runs/quick/1"), "precise enough"),
)


def output(*, terminal: bool, story=STORY, width=80, clock=None) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=width, color_system=None, markup=False, highlight=False)
    with watch(console, **({"clock": clock} if clock else {})) as listener:
        for event in story:
            listener(event)
    return file.getvalue()


def test_without_a_terminal_there_is_a_plain_line_per_block():
    trouble = "1 trial not valid; the latest: a + b, pinned: unstable: the latency of a was not steady: slowdown"
    assert output(terminal=False).splitlines() == [
        "quick on cpu, trial 1 of at least 12: started, records in runs/quick/1",
        f"block 1 done; widest interval ±4.1 % (target ±3 %), about 32 s left; {trouble}",
        "2 trials in 8 s; stopped: precise enough",
    ]


def test_a_single_trial_is_singular():
    assert output(terminal=False, story=(*STORY[:4], STORY[-1])).splitlines()[-1] == "1 trial; stopped: precise enough"


def test_the_live_display_has_a_row_for_each_device_of_a_cluster():
    standing = ProgressState()
    for event in (STORY[0], DeviceAt("a/cuda:0", "block 3: a + b", 7), DeviceAt("b/cuda:0", "lost", 4, lost=True)):
        standing = after(standing, event)
    file = io.StringIO()
    Console(file=file, width=80, color_system=None).print(picture(standing))
    rows = [line.split() for line in file.getvalue().splitlines()]
    assert ["a/cuda:0", "7", "block", "3:", "a", "+", "b"] in rows
    assert ["b/cuda:0", "4", "lost"] in rows
    assert standing.done_trials == 11


def test_the_live_display_shows_progress_trial_and_precision():
    standing = ProgressState()
    for event in STORY[:-1]:
        standing = after(standing, event)
    file = io.StringIO()
    Console(file=file, width=80, color_system=None).print(picture(standing))
    shown = file.getvalue()
    assert "quick on cpu, trial 3 of at least 12" in shown
    assert "widest interval ±4.1 % (target ±3 %), about 32 s left" in shown
    assert "a 1.62 [1.58, 1.67] in a + b, pinned" in shown
    assert "1 trial not valid" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_a_simulated_run_says_so():
    standing = after(ProgressState(), RunStarted(Path("r"), "s", "sim:a", True, 1, 1, 1, None, None, False, 0))
    file = io.StringIO()
    Console(file=file, width=80, color_system=None).print(picture(standing))
    assert "SIMULATED" in file.getvalue()


def test_the_time_of_a_simulated_run_is_the_time_that_it_simulates():
    start = RunStarted(Path("r"), "s", "sim:a", True, 6, 2, 8, 60.0, 0.03, False, 0)
    lines = output(terminal=False, story=(start, *STORY[1:])).splitlines()
    assert "about 32 s of simulated time left" in lines[1]
    assert lines[2] == "2 trials in 8 s of simulated time; stopped: precise enough"


def test_nothing_runs_beside_the_measurement():
    """No refresh thread: the display is drawn on events and sleeps otherwise."""
    before = threading.active_count()
    with watch(Console(file=io.StringIO(), force_terminal=True, width=80)) as listener:
        listener(STORY[0])
        listener(STORY[2])
        assert threading.active_count() == before


def test_at_most_four_drawings_a_second():
    now = [0.0]
    storm = [STORY[0]]
    for trial in range(1000):
        storm += [TrialStarted(trial, 0, f"mix{trial}", "alone", "closed(1)")]

    def clock() -> float:
        now[0] += 0.001  # about one second in total
        return now[0]

    shown = output(terminal=True, story=storm, clock=clock)
    assert shown.count("trial 1 of") <= 6


def test_names_come_out_literally():
    shown = output(
        terminal=False, story=[STORY[0], TrialDone(7, 0, "[red]\x1b[31m", "x", "y", "invalid", ("<b>",), 1.0), STORY[6]]
    )
    assert "[red]\\x1b[31m" in shown
    assert "<b>" in shown
    live = output(
        terminal=True, story=[STORY[0], TrialStarted(7, 0, "[red]\x1b[31m", "x", "y")], clock=iter(range(99)).__next__
    )
    assert "\x1b[31m" not in live


def test_the_trial_that_is_being_measured_is_the_one_on_the_screen():
    """It begins right after its predecessor; the drawing limit must not leave the old one on screen."""
    shown = output(terminal=True, story=STORY[:5], clock=iter([0, 0.1, 1.0, 2.0, 2.01]).__next__)
    assert "a + b, pinned, closed(1)" in shown


@pytest.mark.parametrize(("left_s", "share"), [(32.0, 0.2), (None, 2 / 12)])
def test_progress_is_based_on_time_else_on_trials(left_s, share):
    standing = ProgressState()
    for event in (*STORY[:6], BlockDone(0, (), None, 8.0, left_s)):
        standing = after(standing, event)
    assert fraction(standing) == pytest.approx(share)
