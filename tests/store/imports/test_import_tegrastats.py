"""Lines of tegrastats from four releases."""

import numpy as np
import pytest

from cotenant.errors import DataError
from cotenant.store import imports as importing

JETPACK_4_NANO = (
    "RAM 613/3964MB (lfb 634x4MB) SWAP 0/1982MB (cached 0MB) CPU [2%@102,1%@102,off,off] EMC_FREQ 0% GR3D_FREQ 5% "
    "PLL@39C CPU@40.5C PMIC@100C GPU@41C AO@46C thermal@41C POM_5V_IN 900/943 POM_5V_GPU 0/0 POM_5V_CPU 123/123"
)
JETPACK_4_XAVIER = (
    "RAM 2500/31920MB (lfb 7000x4MB) SWAP 0/15960MB (cached 0MB) CPU [2%@1190,0%@1190] EMC_FREQ 0%@2133 "
    "GR3D_FREQ 10%@1377 APE 150 MTS fg 0% bg 0% AO@35C GPU@34.5C Tboard@35C GPU 311/311 CPU 1246/1246 SOC 1246/1246 "
    "CV 0/0 VDDRQ 311/311 SYS5V 1918/1918"
)
JETPACK_5_XAVIER_NX = (
    "07-09-2024 13:31:31 RAM 3168/6851MB (lfb 2x4MB) SWAP 161/3426MB (cached 0MB) CPU [23%@1397,17%@1192] "
    "EMC_FREQ 2%@204 GR3D_FREQ 40%@[114] VIC_FREQ 115 APE 150 AUX@45C CPU@46.5C GPU@45.5C PMIC@50C "
    "VDD_IN 2763mW/2846mW VDD_CPU_GPU_CV 650mW/670mW VDD_SOC 650mW/711mW"
)
JETPACK_6_AGX_ORIN = (
    "04-11-2025 10:36:27 RAM 4321/62801MB (lfb 1759x4MB) SWAP 19/31400MB (cached 0MB) CPU [0%@729,0%@729] "
    "EMC_FREQ 0%@2133 GR3D_FREQ 0%@[1300,1300] VIC_FREQ 729 APE 174 CV0@-256C CPU@44.562C SOC2@40.093C tj@44.343C "
    "VDD_GPU_SOC 2340mW/2340mW VDD_CPU_CV 390mW/390mW VIN_SYS_5V0 4025mW/4025mW NC 0mW/0mW VDDQ_VDD2_1V8AO 503mW/503mW"
)
JETPACK_7_THOR = (
    "05-14-2026 21:36:35 RAM 26063/125772MB (lfb 35x4MB) CPU [2%@972,0%@972] cpu@53.7C tj@55.1C "
    "VDD_GPU -392mW/-392mW VDD_CPU_SOC_MSS 3924mW/3835mW VIN_SYS_5V0 5064mW/5055mW VIN 15004mW/15096mW"
)


def read(tmp_path, *text, **options):
    path = tmp_path / "stats.log"
    path.write_text("\n".join(text) + "\n")
    imported = importing.read(path, **options)
    assert imported.format == "tegrastats"
    return imported, {one.sensor: one for one in imported.series}


def test_jetpack_4_nano_has_no_times_and_powers_without_a_unit(tmp_path):
    imported, series = read(tmp_path, JETPACK_4_NANO, JETPACK_4_NANO.replace("IN 900", "IN 1900"), interval_s=0.5)
    assert series["power_w"].value.tolist() == [0.9, 1.9]
    assert series["power_w"].t_ns.tolist() == [0, 500_000_000]
    assert series["rail_pom_5v_cpu_w"].value.tolist() == [0.123, 0.123]
    assert series["any_kernel_share"].value.tolist() == [0.05, 0.05]
    assert series["temperature_c"].value.tolist() == [41, 41]
    assert "sm_clock_mhz" not in series
    assert "assumed" in imported.clock


def test_jetpack_4_xavier_names_rails_like_its_parts_and_has_no_total(tmp_path):
    _, series = read(tmp_path, JETPACK_4_XAVIER)
    assert series["rail_gpu_w"].value.tolist() == [0.311]
    assert series["rail_sys5v_w"].value.tolist() == [1.918]
    assert series["sm_clock_mhz"].value.tolist() == [1377]
    assert "power_w" not in series
    assert "rail_ram_w" not in series


def test_jetpack_5_has_times_and_a_total(tmp_path):
    second = JETPACK_5_XAVIER_NX.replace("13:31:31", "13:31:32")
    _, series = read(tmp_path, JETPACK_5_XAVIER_NX, second)
    assert series["power_w"].value.tolist() == [2.763, 2.763]
    assert np.diff(series["power_w"].t_ns).tolist() == [1_000_000_000]
    assert series["sm_clock_mhz"].value.tolist() == [114, 114]


def test_lines_of_the_same_second_are_spread_over_it(tmp_path):
    _, series = read(tmp_path, *[JETPACK_5_XAVIER_NX] * 4)
    assert np.diff(series["power_w"].t_ns).tolist() == [250_000_000] * 3


def test_jetpack_6_agx_orin_has_no_total_and_parts_that_are_off(tmp_path):
    _, series = read(tmp_path, JETPACK_6_AGX_ORIN)
    assert series["rail_vdd_gpu_soc_w"].value.tolist() == [2.34]
    assert "power_w" not in series
    assert "rail_nc_w" not in series
    assert series["cv0_temperature_c"].refused == 1
    assert series["sm_clock_mhz"].value.tolist() == [1300]


def test_jetpack_7_thor_has_its_input_as_total_and_readings_below_zero(tmp_path):
    _, series = read(tmp_path, JETPACK_7_THOR)
    assert series["power_w"].value.tolist() == [15.004]
    assert series["rail_vdd_gpu_w"].value.tolist() == [-0.392]
    assert "any_kernel_share" not in series


def test_rubbish_between_the_lines(tmp_path):
    with pytest.raises(DataError, match=r"RAM is not a number.*line 2"):
        read(tmp_path, JETPACK_4_NANO, "tegrastats: interrupted", JETPACK_4_NANO)
    imported, series = read(tmp_path, JETPACK_4_NANO, "tegrastats: interrupted", JETPACK_4_NANO, skip_bad=True)
    assert imported.skipped[0].lines == (2,)
    assert len(series["power_w"].value) == 2
