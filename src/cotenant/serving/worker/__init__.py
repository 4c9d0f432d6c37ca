"""Where chunks run: a place on the device, and a thread that executes instructions in order."""
