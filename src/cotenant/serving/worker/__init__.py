"""Where chunks run: a place on the device, and a thread that carries instructions out one after the other."""
