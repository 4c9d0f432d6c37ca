"""What plans are made from: devices, runs, served traffic, tenants files. Here planning opens devices and files."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.planning.inputs.devices import devices_of
    from cotenant.planning.inputs.planner import MadePlan, made_plan, measured_fleet
    from cotenant.planning.inputs.predictions import NextFor, predicted_mixes
    from cotenant.planning.inputs.predictors import PlanEvidence, predictors_for
    from cotenant.planning.inputs.studies import planned_study, write_study
    from cotenant.planning.inputs.tenants import as_served, devices_in, is_served, model_of, tenants_to_plan
else:
    __getattr__, __dir__ = front(__name__, __file__)
