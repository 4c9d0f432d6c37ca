"""Names of devices: `cpu`, `cuda:0`, `sim:a100-sxm4-40gb`. Imports nothing: reading a run needs it."""

SIMULATED = "sim"


class DeviceName(str):
    """A device's name, with what it says about the device."""

    __slots__ = ()

    @property
    def family(self) -> str:
        """What comes before the colon: `cpu`, `cuda`, `sim`."""
        return self.strip().partition(":")[0]

    @property
    def part(self) -> str:
        """What comes after the colon: the number, the cores, or the simulated GPU."""
        return self.strip().partition(":")[2]

    @property
    def simulated(self) -> bool:
        """A simulated GPU."""
        return self.family == SIMULATED and ":" in self

    @property
    def on_cpu(self) -> bool:
        """The processor, or some of its cores."""
        return self.family == "cpu"

    @property
    def model(self) -> str:
        """The name without `sim:`, as the catalogue and the price table have it."""
        return self.part if self.simulated else str(self)


def counted(devices: str) -> str:
    """A list without repetitions: several simulated GPUs of a kind are a number of them, `sim:t4,sim:t4` `sim:t4*2`."""
    counts: dict[str, int] = {}
    for name in (part.strip() for part in devices.split(",")):
        kind, star, number = name.partition("*")
        if not DeviceName(name).simulated or "#" in name or (star and not number.isdigit()):
            counts[name] = 1
        else:
            counts[kind] = counts.get(kind, 0) + int(number or 1)
    return ",".join(f"{name}*{count}" if count > 1 else name for name, count in counts.items())
