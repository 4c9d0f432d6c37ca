"""Power, clocks and heat of a GPU."""
