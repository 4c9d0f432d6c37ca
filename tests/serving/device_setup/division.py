"""Files whose tenants have parts of a device, and services over them."""

import asyncio

import torch

from cotenant.serving.reloader import opened
from cotenant.serving.service import Wishes
from cotenant.serving.tenants_file import TenantsFile
from cotenant.serving.workers.servable import parcel_of
from cotenant.serving.workers.supervisor import Patience
from tests.support import pace

INPUT = torch.arange(8, 16).reshape(1, 8)


def file(sharing, *names, device="cuda:1", settings=None, **more):
    """Tenants with the smallest encoder, on an A100 unless stated."""
    tenants = {name: {"workload": "bert-base-mini", "seq": 8, "slo": "60s"} for name in names or ("a", "b")}
    for name, entry in tenants.items():
        entry.update(more.get(name, {}))
    held = {} if settings is None else {"settings": settings}
    return TenantsFile.model_validate({"device": device, "sharing": sharing, "threads": 1, "tenants": tenants, **held})


def served(wanted, scenario=None, again=None, **patience):
    """Run a scenario with the service of a file."""

    async def main():
        async with opened(wanted, patience=Patience(**patience), again=again) as service:
            return None if scenario is None else await asyncio.wait_for(scenario(service), pace.seconds(120))

    return asyncio.run(main())


async def ask(service, *names):
    """An answer of each tenant, at the same time."""
    inputs = parcel_of({"input_ids": INPUT})
    return await asyncio.gather(*(service.infer(name, inputs, Wishes()) for name in names))
