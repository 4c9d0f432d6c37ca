"""Which devices a tenants file is planned for."""

from pathlib import Path

import pytest

from cotenant.errors import StudyError
from cotenant.planning.inputs.tenants import devices_in
from cotenant.study.files import study_from_text

TENANTS = "tenants: {a: {workload: bert-base, rate: 1/s, slo: 30ms}}\n"


@pytest.mark.parametrize(
    ("lines", "devices"),
    [
        ("devices: sim:t4*2\n", "sim:t4*2"),
        ("device: sim:t4\n", "sim:t4"),
        ("device: sim:l4\ndevices: sim:t4*2\n", "sim:t4*2"),
    ],
)
def test_they_are_those_that_the_file_names_or_the_device_that_it_is_for(lines, devices):
    assert devices_in(study_from_text(lines + TENANTS, "tenants"), Path("tenants.yaml")) == devices


def test_a_file_without_devices_is_refused():
    with pytest.raises(StudyError, match="names no devices to plan for"):
        devices_in(study_from_text(TENANTS, "tenants"), Path("tenants.yaml"))
