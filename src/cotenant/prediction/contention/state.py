"""State of the event engine: columns of its tables.

All floats of a tenant are in one table, because compiled code counts references to every array that it passes on. That
code is kept on disk until the file it is in changes: whoever moves a column has to change the files that use it too.
"""

IDLE, LAUNCHING, RESIDENT, CLOSING = 0, 1, 2, 3
"""State of a tenant: waiting for a request, for a launch by the host, on the device, for the host to finish."""

# Columns of the table of integers, one row per tenant
STATE, KERNEL, NUMBER, FINISHED, DRAINED = range(5)
# Columns of the table of floats, one row per tenant: its request, ...
NEXT_NS, LEFT_NS, INTENDED_NS, STARTED_NS, HOST_NS, DEVICE_NS, FIRST_NS, STRETCH, WORK_NS, TOTAL_NS = range(10)
# ... its kernel on the device: what was left when activity was last recorded, the speed it has had since then, the one
# that it is to have from now on, ...
KNOWN_NS, SINCE_NS, SPEED, FRESH, OCCUPANCY, DRAM, TENSOR, BLOCK, HOLDS, WEIGHT = range(10, 20)
# ... where it runs, and what is left of the SM domain of this number
SM_DOMAIN, DRAM_DOMAIN, PRIORITY, SM_PART, DRAM_PART, FREE = range(20, 26)
COLUMNS = 26
# Columns of the device's state
NOW_NS, SLICE_END_NS, SWITCH_END_NS, COMPLETIONS, ACTIVE = range(5)
