"""Models: the catalogue, building a model in place, serving and training."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.workloads.models.building import stand
    from cotenant.workloads.models.directory import directory_entry
    from cotenant.workloads.models.entry import ModelEntry, block_count, kept, mode_of
    from cotenant.workloads.models.exporting import export_model
    from cotenant.workloads.models.inputs import make_inputs
    from cotenant.workloads.models.skeleton import build_skeleton, materialise
    from cotenant.workloads.models.watching import Watch
    from cotenant.workloads.models.weights import load, load_and_tell
    from cotenant.workloads.models.weights_folder import check_weights
    from cotenant.workloads.models.workload import ModelWorkload
else:
    __getattr__, __dir__ = front(__name__, __file__)
