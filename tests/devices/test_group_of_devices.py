"""Groups of devices: names, identities, how a mix is laid out over the members, and every refusal in one sentence."""

from contextlib import contextmanager

import pytest

from cotenant.api.run import dry_run
from cotenant.devices import find_device
from cotenant.devices.cpu.cores import allowed_cores
from cotenant.devices.group import DeviceGroup, GroupFixture
from cotenant.devices.group_names import require_group
from cotenant.errors import DeviceError, StudyError
from cotenant.study.files import study_from_text
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.records import APART
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE
from cotenant.workloads.protocol import WorkloadSpec

FLEET = "sim:v100-sxm2-16gb*4"
STUDY = """
tenants: {a: {workload: 'null'}}
mixes: [solo]
"""


def tenant(name: str, member: str | None) -> Tenant:
    of = name.partition("@")[0].partition("#")[0]
    return Tenant(name=name, of=of, workload=WorkloadSpec(name="null"), load=Load(kind="closed"), member=member)


def group(name: str) -> DeviceGroup:
    found = find_device(name)
    assert isinstance(found, DeviceGroup)
    return found


def test_every_core_is_a_member():
    assert set(group("cpu:each").names) <= {f"cpu:{core}" for core in allowed_cores()}
    assert group("cpu:each").lock_keys() == group("cpu:each").names


def test_the_natural_group_of_a_machine_without_gpus_is_its_cores(monkeypatch):
    monkeypatch.setattr("cotenant.devices.group_names._gpu_count", lambda: 0)
    assert group("all").name == "cpu:each"


def test_the_dies_of_a_fleet_differ_and_are_the_same_in_every_fleet():
    dies = [member.die for member in group(FLEET).members]
    assert len(set(dies)) == 4
    assert group("sim:v100-sxm2-16gb*392").member("sim:v100-sxm2-16gb#2").die == dies[2]
    assert find_device("sim:v100-sxm2-16gb#2").die == dies[2]


def test_a_group_states_once_what_its_members_have_in_common():
    described = group(FLEET).describe()
    assert described["title"] == find_device("sim:v100-sxm2-16gb").describe()["title"]
    assert [member["identity"] for member in described["members"]] == [f"sim:v100-sxm2-16gb#{i}" for i in range(4)]
    assert all(set(member) == {"member", "identity", "die"} for member in described["members"])


def test_each_member_lays_its_own_tenants_out_and_one_tenant_is_alone_there():
    names = group(FLEET).names
    mixed = [tenant("a@0", names[0]), tenant("b@0", names[0]), tenant("a@2", names[2])]
    first, second = group(FLEET).arrange(Sharing(mode="mps"), mixed).parts
    assert (first.member, first.names, first.arrangement.layout.mode) == (names[0], ("a@0", "b@0"), "mps")
    assert (second.member, second.tenants, second.arrangement.layout.mode) == (names[2], (2,), ALONE)


def test_apart_means_alone_on_every_member():
    names = group(FLEET).names
    apart = group(FLEET).arrange(Sharing(mode=APART), [tenant(f"a@{i}", name) for i, name in enumerate(names)])
    assert [part.arrangement.layout.mode for part in apart.parts] == [ALONE] * 4


def test_seats_are_numbered_over_the_whole_mix_and_know_their_member():
    cores = group("cpu:each")
    tenants = [tenant(f"a@{i}", name) for i, name in enumerate(cores.names)]
    hosts = cores.arrange(Sharing(mode=ALONE), tenants).hosts
    assert [seat.tenant for host in hosts for seat in host.seats] == list(range(len(tenants)))
    options = hosts[-1].seats[0].options
    assert options["member"] == cores.names[-1]
    assert f"cpu:{options['cores'][0]}" == cores.names[-1]


def test_probes_name_the_member_they_read():
    cores = group("cpu:each")
    assert {probe.device for probe in cores.probes()} == set(cores.names)


def test_a_trial_sees_only_the_members_that_it_uses():
    names = group(FLEET).names
    assert group(FLEET).only([names[3]]).names == (names[3],)


class Fixture:
    def __init__(self, name: str) -> None:
        self.name, self.alone, self.standing, self.log = name, False, False, []

    def __enter__(self):
        assert not self.standing
        self.standing = True
        return self

    def __exit__(self, *exc: object) -> None:
        assert self.standing
        self.standing = False

    def stands(self) -> bool:
        return self.standing


def test_a_members_ground_stands_until_the_last_set_of_members_leaves_it():
    from collections import Counter

    users: Counter[int] = Counter()
    first, second = Fixture("mps of 0"), Fixture("mps of 1")
    one, both = GroupFixture([first], users), GroupFixture([first, second], users)
    one.__enter__()
    both.__enter__()
    one.__exit__(None, None, None)
    assert first.standing
    assert both.stands()
    both.__exit__(None, None, None)
    assert not first.standing
    assert not second.standing


def test_controls_of_all_members_are_set_and_restored_and_late_messages_are_reported():
    log: list[str] = []

    class Member:
        simulated = False

        def __init__(self, name: str) -> None:
            self.name = name

        @contextmanager
        def apply(self, settings):
            sentences: list[str] = []
            log.append(f"set {self.name}")
            yield sentences
            sentences.append("the clock fell")
            log.append(f"restored {self.name}")

    both = DeviceGroup("x", ["m0", "m1"], Member)
    with both.apply({"clock_mhz": 1200}) as sentences:
        assert log == ["set m0", "set m1"]
    assert log[2:] == ["restored m1", "restored m0"]
    assert list(sentences) == ["m0: the clock fell", "m1: the clock fell"]


@pytest.mark.parametrize(
    ("device", "spread", "sentence"),
    [
        ("cpu", "each", "`spread: each` needs a group of devices, and this is a single one"),
        (
            "sim:v100-sxm2-16gb*5",
            "combinations",
            "`spread: combinations` of 5 members would be 31 sets of them; at most 4",
        ),
    ],
)
def test_a_study_that_cannot_be_spread_that_way_is_refused_in_one_sentence(device, spread, sentence):
    with pytest.raises(StudyError) as refused:
        dry_run(study_from_text(f"{STUDY}spread: {spread}\n", source="s"), device=device)
    assert refused.value.message.startswith(sentence)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("sim:v100-sxm2-16gb*0", "a fleet of 0 GPUs can't be simulated"),
        ("sim:v100-sxm2-16gb*x", "'v100-sxm2-16gb*x' is not a simulated GPU"),
        ("cuda:0,7", "there is no cuda:7 for 'cuda:0,7': this machine has 2 NVIDIA GPUs"),
        ("cuda:2-1", "'cuda:2-1' is not a group of GPUs"),
    ],
)
def test_a_missing_group_is_refused_in_one_sentence(name, sentence, monkeypatch):
    monkeypatch.setattr("cotenant.devices.group_names._gpu_count", lambda: 2)
    with pytest.raises(DeviceError) as refused:
        find_device(name)
    assert refused.value.message == sentence


def test_a_machine_without_gpus_suggests_an_alternative(monkeypatch):
    monkeypatch.setattr("cotenant.devices.group_names._gpu_count", lambda: 0)
    with pytest.raises(DeviceError, match="this machine has no NVIDIA GPU") as refused:
        find_device("cuda:all")
    assert "sim:v100-sxm2-16gb*4" in (refused.value.hint or "")


def test_a_member_of_another_group_is_refused():
    with pytest.raises(DeviceError, match=r"sim:v100-sxm2-16gb\*4 has no member 'sim:v100-sxm2-16gb#9'"):
        group(FLEET).member("sim:v100-sxm2-16gb#9")


def test_one_device_is_not_a_group():
    with pytest.raises(DeviceError, match="'cpu' is a single device, not a group"):
        require_group(find_device("cpu"), "cpu")
