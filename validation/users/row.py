"""A measured value beside the result of a study on a simulated device, its class, and the data set it belongs to."""

from dataclasses import dataclass, field

from cotenant.prediction.trust import Class, Quantity

_SOURCES = {"timm inference": "timm", "timm training": "timm"}


@dataclass(frozen=True, slots=True)
class UserRow:
    """A measured value and its simulation."""

    data_set: str
    """The file, and the software's version where it has several: `NVIDIA's tables, TensorFlow 2`."""
    case: str
    group: str
    """The model; errors repeat over its batches, copies and lengths."""
    kind: Class
    quantity: Quantity
    measured: float
    simulated: float
    fitted: bool = False
    """A constant of the simulation was fitted with it."""
    features: tuple[float, ...] = field(default=())
    """Inputs of the simple laws: for times, the number of launches and the roofline's time."""
    gpu: str = ""

    @property
    def source(self) -> str:
        """Who measured it: of NVIDIA's tables, those of each software were made by others."""
        name = self.data_set.removesuffix(" AMP").replace("NVIDIA's tables, Triton, ", "NVIDIA's Triton with ")
        return _SOURCES.get(name, name.replace("NVIDIA's tables, ", "NVIDIA's "))

    @property
    def unit(self) -> tuple[str, str, str]:
        """What is left out together: a model on a GPU, as a version of a source measured it."""
        return self.group, self.gpu, self.data_set.removesuffix(" AMP")
