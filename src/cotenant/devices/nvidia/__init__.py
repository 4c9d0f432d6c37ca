"""NVIDIA GPUs: the driver's sensors and controls, and the ways in which a GPU can be shared."""
