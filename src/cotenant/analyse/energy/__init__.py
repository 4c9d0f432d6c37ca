"""What power and energy readings are worth, and the energy of a stretch of time."""
