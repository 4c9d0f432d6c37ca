"""A separate pass that records kernels. Profiling slows tenants down, so none of it counts as a measurement."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.measure.profile.kernels import Profile, profile_of_file, profile_of_run
    from cotenant.measure.profile.profile_pass import carry_out
    from cotenant.measure.profile.tools import choose
else:
    __getattr__, __dir__ = front(__name__, __file__)
