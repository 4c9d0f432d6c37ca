"""Split measured request times into the host's part and the device's."""
