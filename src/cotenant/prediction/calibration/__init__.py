"""Split measured request times into the host's part and the device's."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.prediction.calibration.engine_fit import LEAST_PROBES, EngineFit, fit_engine, limits_of
    from cotenant.prediction.calibration.engine_law import plain_law
    from cotenant.prediction.calibration.engine_loads import PredictedLoad, PredictedMs, predicted_load
    from cotenant.prediction.calibration.kernel_tables import COLUMNS, FittedKernels, Table, fit_kernels
    from cotenant.prediction.calibration.solo import PROBED, PROBED_TOO, SoloFit, SoloTime, calibrating
else:
    __getattr__, __dir__ = front(__name__, __file__)
