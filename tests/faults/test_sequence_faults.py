"""A tenant that dies in a sequence costs the window it dies in; everything else is kept or repeated."""

import os
import signal
import threading

import pytest
from scenes import bad, calm, of, tenant

from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE


def trials(*mixes, window_s=0.1):
    return [
        Trial(
            number=number,
            block=0,
            order=number,
            mix="+".join(tenant.name for tenant in tenants),
            tenants=tenants,
            sharing=Sharing(mode=ALONE if len(tenants) == 1 else "processes"),
            load="closed(1)",
            window_s=window_s,
            lead_s=0.02,
            seed=1,
        )
        for number, tenants in enumerate(mixes)
    ]


@pytest.fixture
def carry_out(bench):
    """Carry out all trials, stretch by stretch; return the records of each stretch."""

    def carry_out_all(wanted):
        missing, stretches = list(wanted), []
        while missing:
            found = bench.carry_out_some(missing, session=0, rates={})
            assert found, "something is always carried out"
            stretches.append(found)
            done = {records.trial["trial"] for records in found}
            missing = [trial for trial in missing if trial.number not in done]
        return stretches

    return carry_out_all


def verdicts(stretches):
    return {records.trial["trial"]: records.trial["verdict"] for found in stretches for records in found}


def test_a_faultless_sequence_is_carried_out_at_once_by_the_same_processes(carry_out):
    [found] = carry_out(trials((calm(),), (calm(), calm("other")), (calm("other"),), (calm(),)))
    assert [records.trial["trial"] for records in found] == [0, 1, 2, 3]
    assert "invalid" not in verdicts([found]).values()
    assert len({row["pid"] for records in found for row in records.tenants}) == 2


def test_only_the_window_in_which_a_tenant_dies_is_lost(carry_out):
    dies = bad("leaves", by="os._exit")
    found = carry_out(trials((calm(),), (calm(), dies), (calm("other"),), (calm(), calm("other"))))
    assert verdicts(found)[1] == "invalid"
    assert {number for number, verdict in verdicts(found).items() if verdict == "invalid"} == {1}
    [lost] = [records for stretch in found for records in stretch if records.trial["trial"] == 1]
    assert "bad ended with exit code 3" in " ".join(lost.trial["reasons"])


def test_a_tenant_that_gives_up_ends_the_sequence_but_not_the_run(carry_out):
    found = carry_out(trials((calm(),), (bad("raises"),), (calm("other"),)))
    assert {number for number, verdict in verdicts(found).items() if verdict == "invalid"} == {1}
    assert len(found) >= 2, "the next window gets a new process"


def test_a_window_cut_short_by_a_death_outside_it_is_repeated(carry_out):
    [first] = carry_out(trials((tenant("victim", "sleep", ms=3),)))
    pid = of(first[0], "victim")["pid"]
    killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    killer.start()
    found = carry_out(trials((calm(),), (tenant("victim", "sleep", ms=3),), window_s=0.7))
    killer.join()
    assert "invalid" not in verdicts(found).values()
    [whole] = [records for stretch in found for records in stretch if records.trial["trial"] == 0]
    counted = whole.requests["intended_ns"][whole.requests["in_window"]]
    assert counted.max() - counted.min() > 0.5e9, "its window was served to the end"
