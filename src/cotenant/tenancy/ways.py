"""The ways to share a device, by name: readable without the parser of files, which is slow to load."""

ALONE = "alone"
"""The sharing of solo trials: a tenant has the whole device."""
SPLITTING_MODES = ("mps", "mps-static", "green", "mig", "pinned")
SCHEDULED = "scheduled"
"""A server orders the requests of all tenants on the whole device."""
TURNS = (ALONE, SCHEDULED)
"""Ways to share in which a server gives out the whole device; under the others each tenant has a worker of its own."""
SERVED_SOFTWARE = ("eager", "graphs")
"""What the workers of a server run; an engine is a server of its own."""
PERCENTAGES = ("mps", "mps-static", "green")
"""Ways to share whose shares are percentages of the SMs."""
EQUAL = "equal"
"""In place of shares: the same share for each tenant of a mix, however many it has."""
MODES = ("processes", "threads", "streams", "exclusive", *SPLITTING_MODES, SCHEDULED)
