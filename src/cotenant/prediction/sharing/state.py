"""State of the event engine: columns of its tables.

All floats of a tenant are in one table, because compiled code counts references to every array that it passes on.
"""

IDLE, LAUNCHING, RESIDENT, CLOSING = 0, 1, 2, 3
"""State of a tenant: waiting for a request, for a launch by the host, on the device, for the host to finish."""

# Columns of the table of integers, one row per tenant
STATE, KERNEL, NUMBER, FINISHED, DRAINED = range(5)
# Columns of the table of floats, one row per tenant: its request, ...
NEXT_NS, LEFT_NS, INTENDED_NS, STARTED_NS, HOST_NS, DEVICE_NS, FIRST_NS, STRETCH, WORK_NS, TOTAL_NS = range(10)
# ... its kernel on the device, which has had this speed since then, and the speed that it is to have from now on, ...
SINCE_NS, SPEED, FRESH, OCCUPANCY, DRAM, TENSOR, BLOCK, HOLDS, WEIGHT = range(10, 19)
# ... where it runs, and what is left of the SM domain of this number
SM_DOMAIN, DRAM_DOMAIN, PRIORITY, SM_PART, DRAM_PART, FREE = range(19, 25)
COLUMNS = 25
# Columns of the device's state
NOW_NS, SLICE_END_NS, SWITCH_END_NS, COMPLETIONS, ACTIVE = range(5)
