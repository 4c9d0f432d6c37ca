"""GPUs that can be simulated: one YAML file each."""

from cotenant.devices.simulated.catalogue.find import find_gpu, gpu_names
from cotenant.devices.simulated.catalogue.spec import DTYPES, GpuSpec

__all__ = ["DTYPES", "GpuSpec", "find_gpu", "gpu_names"]
