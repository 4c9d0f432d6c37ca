"""NVIDIA GPUs: the driver's sensors and controls, and the sharing modes of a GPU."""
