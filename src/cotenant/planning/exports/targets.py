"""Export targets by name."""

from collections.abc import Mapping

from cotenant.planning.exports import cotenant, device_plugin, hami, kai, kubernetes, ray, shell, triton, vllm
from cotenant.planning.exports.model import Export

TARGETS: Mapping[str, Export] = {
    "cotenant": cotenant.export,
    "triton": triton.export,
    "vllm": vllm.export,
    "kubernetes": kubernetes.export,
    device_plugin.TARGET: device_plugin.export,
    hami.TARGET: hami.export,
    kai.TARGET: kai.export,
    "ray": ray.export,
    "shell": shell.export,
}
