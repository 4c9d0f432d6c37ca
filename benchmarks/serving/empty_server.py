"""`cotenant serve` with workers whose models compute nothing: empty_server.py TENANTS PORT DEVICE."""

import sys
from dataclasses import dataclass
from pathlib import Path

from cotenant.cli.main import main
from cotenant.serving.workers import remote, supervisor


@dataclass(frozen=True, slots=True)
class NoSpare(supervisor.Patience):
    """No spare process starts beside a measurement."""

    spare_s: float = 1e6


if __name__ == "__main__":
    remote.CHILD = (sys.executable, str(Path(__file__).with_name("empty_child.py")))
    supervisor.Patience = NoSpare  # type: ignore[misc]
    tenants, port, device = sys.argv[1:]
    sys.argv = ["cotenant", "serve", tenants, "--port", port, "--device", device]
    main()
