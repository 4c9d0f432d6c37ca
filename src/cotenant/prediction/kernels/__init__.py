"""A request as kernels, and the cost of each alone on a GPU."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.prediction.kernels.columns import Bools, Floats, Ints, Kernels
    from cotenant.prediction.kernels.cost import solo_costs
    from cotenant.prediction.kernels.fusion import Fusion, Tf32, kernels_of
    from cotenant.prediction.kernels.request import RequestKernels, generation, inference, staged, training
    from cotenant.prediction.kernels.software import EXECUTIONS, Execution
    from cotenant.prediction.kernels.traces import KernelLine, KernelTrace, kernel_trace
else:
    __getattr__, __dir__ = front(__name__, __file__)
