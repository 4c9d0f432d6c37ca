"""`cotenant serve` with workers whose models compute nothing: empty_server.py TENANTS PORT DEVICE."""

import sys
from functools import partial
from pathlib import Path

from cotenant.cli.main import main
from cotenant.serving.processes import remote, supervisor

if __name__ == "__main__":
    remote.CHILD = (sys.executable, str(Path(__file__).with_name("empty_child.py")))
    supervisor.Patience = partial(supervisor.Patience, spare_s=1e6)  # type: ignore[misc,assignment] # nothing beside
    tenants, port, device = sys.argv[1:]
    sys.argv = ["cotenant", "serve", tenants, "--port", port, "--device", device]
    main()
