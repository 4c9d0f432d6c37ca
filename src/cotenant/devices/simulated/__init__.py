"""Simulated GPUs: real models as kernels, GPUs as data, time as arithmetic. All results are labelled simulated."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.devices.simulated.catalogue.find import gpu_names
    from cotenant.devices.simulated.gpu_file import calibration_text, kernel_tables
    from cotenant.devices.simulated.simulated_gpu import (
        ACTIVITIES,
        ACTIVITY_PERIOD_S,
        SimulatedArrangement,
        SimulatedGpuDevice,
        open_simulated,
    )
    from cotenant.devices.simulated.solo_times import (
        CalibratedTenant,
        Calibration,
        EngineCalibration,
        KernelCalibration,
        parse_solo_times,
    )
else:
    __getattr__, __dir__ = front(__name__, __file__)
