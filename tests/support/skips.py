"""`--allowed-skips FILE`: fail the session if a skipped test is not listed in the file.

A line of the file is part of the reason, then ` # ` and why that is acceptable. Without this gate, a missing browser or
package makes entire folders of tests disappear while the run stays green.
"""

from pathlib import Path

import pytest


def read(file: Path) -> tuple[str, ...]:
    """The allowed reasons."""
    lines = (line.partition(" # ")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


class SkipGate:
    """Collects skips on the controller only: workers report to it."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed
        self.unlisted: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._judge(report.nodeid, report.longrepr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._judge(report.nodeid, report.longrepr)

    def _judge(self, nodeid: str, longrepr: object) -> None:
        reason = str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)
        if not any(part in reason for part in self.allowed):
            self.unlisted.append(f"{nodeid}: {reason}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unlisted and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for one in self.unlisted:
            terminalreporter.write_line(f"skipped, and not listed as allowed: {one}", red=True)
