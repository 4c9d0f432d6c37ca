"""Names and units of quantities that several sources give: the driver, a tool's log, a simulation.

The same quantity has the same name whatever reads it, so that runs and imported logs can be compared. The name ends in
its unit.
"""

from typing import NamedTuple


class Quantity(NamedTuple):
    """A sensor's name and the unit of its values."""

    name: str
    unit: str


POWER = Quantity("power_w", "W")
POWER_INSTANT = Quantity("power_instant_w", "W")
POWER_AVERAGE = Quantity("power_average_w", "W")
POWER_LIMIT = Quantity("power_limit_w", "W")
ENERGY = Quantity("energy_j", "J")
TEMPERATURE = Quantity("temperature_c", "°C")
MEMORY_TEMPERATURE = Quantity("memory_temperature_c", "°C")

FREQUENCY = Quantity("frequency_mhz", "MHz")
"""Clock of CPU cores."""
SM_CLOCK = Quantity("sm_clock_mhz", "MHz")
GRAPHICS_CLOCK = Quantity("graphics_clock_mhz", "MHz")
MEMORY_CLOCK = Quantity("memory_clock_mhz", "MHz")

ANY_KERNEL = Quantity("any_kernel_share", "share")
"""Share of time with any kernel, however small: what drivers call utilisation."""
SM_ACTIVE = Quantity("sm_active", "share")
SM_OCCUPANCY = Quantity("sm_occupancy", "share")
TENSOR_ACTIVE = Quantity("tensor_active", "share")
DRAM_ACTIVE = Quantity("dram_active", "share")
FP32_ACTIVE = Quantity("fp32_active", "share")
FP64_ACTIVE = Quantity("fp64_active", "share")

MEMORY_USED = Quantity("memory_used_bytes", "B")
PCIE_SENT = Quantity("pcie_tx_bytes_per_s", "B/s")
PCIE_RECEIVED = Quantity("pcie_rx_bytes_per_s", "B/s")
