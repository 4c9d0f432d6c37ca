"""How many copies of a server should share a device: tuning, the options, and the answer. Pure."""
