"""Servers as workloads: existing ones under our load, started by us where the study says how."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.workloads.servers.engine_probes import (
        PASSES,
        REPEATED,
        SPREAD,
        EngineLimits,
        EngineProbes,
        ProbedLoad,
        loads_around,
    )
    from cotenant.workloads.servers.openai import times_tokens
    from cotenant.workloads.servers.process import STARTED_BY_RUN, ServerProcess, differences, listening
    from cotenant.workloads.servers.spec import (
        OPENAI,
        PRESETS,
        SERVER_FORMS,
        SERVERS,
        V2,
        Preset,
        ServerSpec,
        is_server,
    )
    from cotenant.workloads.servers.v2 import body_of
    from cotenant.workloads.servers.v2_inputs import V2Options, inputs_of
else:
    __getattr__, __dir__ = front(__name__, __file__)
