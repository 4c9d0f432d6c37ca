"""The four first hours, followed command by command: few of them, the answer in the first line, and soon."""

import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support import pace
from tests.support.exported_plans import free_ports
from tests.support.scripts import loaded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
HOURS = ROOT / "docs/first-hours"
REGENERATE = loaded(ROOT / "docs/regenerate.py")
MOST_COMMANDS = {"models": 6, "fleet": 4, "paper": 5, "servers": 4}
ANSWER = re.compile(r"(Share|Don't|Can't tell|Simulated:|Of \d+ mixes|No |Every)")
CPU_S = 20.0
"""Twice what an hour may take until its answer (models 6.4, paper 9.4, fleet 9.6 CPU s alone): beside other tests a
core runs at half its speed."""


@pytest.mark.parametrize("name", ["models", "fleet", "paper"])
def test_an_hour_can_be_followed(name, tmp_path):
    page = (HOURS / f"{name}.md").read_text(encoding="utf-8")
    ran = [one for _, block, _ in REGENERATE.follow(page, tmp_path) for one in block]
    assert 2 <= len(ran) <= MOST_COMMANDS[name]
    assert {one.code for one in ran} <= {0, 2}, [one.errors for one in ran]
    answered = next(one for one in ran if one.command.startswith("cotenant run"))
    assert ANSWER.match(answered.output), answered.output[:200]
    until = ran[: ran.index(answered) + 1]
    assert sum(one.cpu_s for one in until) <= CPU_S


def test_the_hour_with_servers_can_be_followed(tmp_path):
    page = (HOURS / "servers.md").read_text(encoding="utf-8")
    first = free_ports(2)
    ports = {"8000": str(first), "8001": str(first + 1)}
    started = re.findall(r"^python (-m cotenant\S+ --port (\d+).*) &$", page, flags=re.MULTILINE)
    assert len(started) == 2
    servers = [
        subprocess.Popen([sys.executable, *words.replace(port, ports[port]).split()], stdout=subprocess.DEVNULL)
        for words, port in started
    ]
    try:
        for port in ports.values():
            address = f"http://127.0.0.1:{port}/health"
            pace.until(lambda address=address: _answers(address))
        for old, new in ports.items():
            page = page.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
        (named,) = REGENERATE.FILE.finditer(page)
        (tmp_path / named["name"]).write_text(named["text"], encoding="utf-8")
        block = page.partition("<!-- served -->")[2].partition("<!-- end of served -->")[0]
        run, report = [REGENERATE.carry_out(command, tmp_path) for command in REGENERATE.commands(block)]
        assert run.code in {0, 2}, run.errors
        assert ANSWER.match(run.output), run.output[:200]
        assert report.output.endswith("report.html")
    finally:
        for server in servers:
            server.terminate()
            server.wait(pace.seconds(10))


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=pace.seconds(1)).close()
    except OSError:
        return False
    return True
