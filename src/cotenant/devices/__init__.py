"""Where it runs: sensors, controls and sharing modes of each kind of device."""

import logging

from cotenant.devices.catalogue import DeviceInfo, find_device, list_devices

__all__ = ["DeviceInfo", "find_device", "list_devices"]

logging.getLogger("cotenant").addHandler(logging.NullHandler())  # silent unless the user sets a level
