"""GPUs that can be simulated, a YAML file each."""

from cotenant.devices.simulated.catalogue.find import find_gpu, gpu_names

__all__ = ["find_gpu", "gpu_names"]
