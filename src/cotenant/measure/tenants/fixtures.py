"""Sets up what a sharing needs besides its tenants (daemons, partitions), and removes it after the last tenant."""

import logging
from collections.abc import Callable

from cotenant.devices.protocol import Fixture

log = logging.getLogger(__name__)


class Fixtures:
    """The fixtures that are set up now. None is set up or removed while a tenant process runs."""

    def __init__(self, *, end_tenants: Callable[[], None]) -> None:
        self._end_tenants = end_tenants
        self._standing: list[Fixture] = []

    def set_up(self, fixture: Fixture | None) -> None:
        """Set this fixture up, removing conflicting ones first; None only removes. Raises SharingUnavailable."""
        fallen = [one for one in self._standing if not one.stands()]
        fresh = fixture is not None and fixture not in self._standing
        in_the_way = [one for one in self._standing if one is not fixture and one.alone]
        if fallen or in_the_way or (fresh and fixture is not None and fixture.alone):
            self.close()
        if fixture is not None and fixture not in self._standing:
            log.info("setting up %s", fixture.name)
            fixture.__enter__()
            self._standing.append(fixture)

    def close(self) -> None:
        """End all tenants, then restore everything."""
        self._end_tenants()
        while self._standing:
            fixture = self._standing.pop()
            log.info("removing %s", fixture.name)
            fixture.__exit__(None, None, None)
