"""Four boards, each a tree of files as laid out by its JetPack release."""

import math
from pathlib import Path

import pytest

from cotenant.devices import jetson
from cotenant.devices.child_lines import ChildLines
from cotenant.devices.jetson import rails
from cotenant.devices.jetson.rails import open_tegrastats
from tests.support import pace

I2C = "/sys/bus/i2c/drivers"
ZONES = "/sys/devices/virtual/thermal"
TOOLS = Path(__file__).parents[2] / "fake_tools"


def iio(address, number, rails):
    folder = f"{I2C}/ina3221x/{address}/iio:device{number}"
    return {f"{folder}/rail_name_{n}": name for n, (name, _) in enumerate(rails)} | {
        f"{folder}/in_power{n}_input": str(milliwatts) for n, (_, milliwatts) in enumerate(rails)
    }


def hwmon(address, number, rails, interval_ms=None):
    folder = f"{I2C}/ina3221/{address}/hwmon/hwmon{number}"
    files = {f"{folder}/name": "ina3221"}
    for n, (name, millivolts, milliamperes) in enumerate(rails, 1):
        files[f"{folder}/in{n}_label"] = name
        files[f"{folder}/in{n}_input"] = str(millivolts)
        files[f"{folder}/curr{n}_input"] = str(milliamperes)
    if interval_ms:
        files[f"{folder}/update_interval"] = str(interval_ms)
    return files


def zone(number, kind, milli_c, passive=None):
    files = {f"{ZONES}/thermal_zone{number}/type": kind, f"{ZONES}/thermal_zone{number}/temp": str(milli_c)}
    if passive:
        files[f"{ZONES}/thermal_zone{number}/trip_point_0_type"] = "passive"
        files[f"{ZONES}/thermal_zone{number}/trip_point_0_temp"] = str(passive)
    return files


def gpu(folder, name, current, low_high, load=None):
    low, high = low_high
    base = f"/sys/class/devfreq/{folder}"
    files = {
        f"{base}/device/of_node/name": f"{name}\0",
        f"{base}/cur_freq": str(current),
        f"{base}/governor": "nvhost_podgov",
        f"{base}/min_freq": str(low),
        f"{base}/max_freq": str(high),
        f"{base}/available_frequencies": f"{low} {high}",
    }
    return files | ({f"{base}/device/load": str(load)} if load is not None else {})


def board(model, release):
    return {"/proc/device-tree/model": f"{model}\0", "/etc/nv_tegra_release": f"# {release}, GCID: 1, BOARD: x"}


MODES = "< POWER_MODEL ID={} NAME={} >\n"
NANO = (
    board("NVIDIA Jetson Nano Developer Kit", "R32 (release), REVISION: 7.1")
    | iio("6-0040", 0, [("POM_5V_IN", 2500), ("POM_5V_GPU", 300), ("POM_5V_CPU", 700)])
    | gpu("57000000.gpu", "gpu", 76_800_000, (76_800_000, 921_600_000), load=125)
    | zone(0, "AO-therm", 46000)
    | zone(1, "CPU-therm", 40500, passive=97000)
    | zone(2, "GPU-therm", 41000)
    | zone(4, "PMIC-Die", 100000)
    | zone(5, "thermal-fan-est", 41000)
    | {"/var/lib/nvpmodel/status": "pmode:0001 fmode:quiet"}
    | {"/etc/nvpmodel.conf": MODES.format(0, "MAXN") + MODES.format(1, "5W")}
)
XAVIER = (
    board("Jetson-AGX", "R35 (release), REVISION: 4.1")
    | {"/proc/device-tree/model": "NVIDIA Jetson AGX Xavier Developer Kit\0"}
    | hwmon("1-0040", 3, [("GPU", 19000, 500), ("CPU", 19000, 100), ("SOC", 19000, 80)])
    | hwmon("1-0041", 4, [("CV", 19000, 0), ("VDDRQ", 19000, 20), ("SYS5V", 19000, 120)])
    | gpu("17000000.gv11b", "gv11b", 1_377_000_000, (1_377_000_000, 1_377_000_000), load=990)
    | zone(0, "CPU-therm", 86000, passive=86000)
    | zone(1, "GPU-therm", 45500)
    | {"/var/lib/nvpmodel/status": "pmode:0000"}
    | {"/etc/nvpmodel.conf": MODES.format(0, "MAXN")}
)
ORIN = (
    board("NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super", "R36 (release), REVISION: 4.3")
    | hwmon("1-0040", 1, [("VDD_IN", 5000, 900), ("VDD_CPU_GPU_CV", 5000, 100), ("VDD_SOC", 5000, 200)], 20)
    | gpu("17000000.gpu", "gpu", 305_000_000, (305_000_000, 1_020_000_000), load=0)
    | zone(0, "cpu-thermal", 48500)
    | zone(1, "gpu-thermal", 49600)
    | zone(8, "cv0-thermal", -256000)
    | {"/sys/class/hwmon/hwmon2/oc1_event_cnt": "3", "/sys/class/hwmon/hwmon2/oc2_event_cnt": "0"}
    | {"/var/lib/nvpmodel/status": "pmode:0002"}
    | {"/etc/nvpmodel.conf": MODES.format(0, "15W") + MODES.format(1, "25W") + MODES.format(2, "MAXN_SUPER")}
)
AGX_ORIN = (
    board("NVIDIA Jetson AGX Orin Developer Kit", "R36 (release), REVISION: 4.3")
    | hwmon("1-0040", 1, [("VDD_GPU_SOC", 20000, 120), ("VDD_CPU_CV", 20000, 20), ("VIN_SYS_5V0", 5000, 800)])
    | hwmon("1-0041", 2, [("NC", 0, 0), ("VDDQ_VDD2_1V8AO", 5000, 100), ("NC", 0, 0)])
)
THOR = (
    board("NVIDIA Jetson AGX Thor Developer Kit", "R38 (release), REVISION: 2.0")
    | hwmon("2-0040", 1, [("VDD_GPU", 20000, 1500), ("VDD_CPU_SOC_MSS", 20000, 200), ("VIN_SYS_5V0", 5000, 1000)])
    | {f"{I2C}/ina238/2-0044/hwmon/hwmon2/power1_input": "45000000"}
    | gpu("gpu-gpc-0", "gb10b", 1_575_000_000, (315_000_000, 1_575_000_000))
    | gpu("gpu-nvd-0", "nvd", 300_000_000, (300_000_000, 600_000_000))
    | zone(0, "tj-thermal", 55100)
    | zone(1, "gpu-thermal", 54000)
)


@pytest.fixture
def build(tmp_path):
    def built(files):
        root = tmp_path / "root"
        for inner, text in files.items():
            path = root / inner.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    return built


def readings(root):
    return {
        info.name: value
        for probe in jetson.probes(root)
        for info, value in zip(probe.sensors, probe.read(), strict=True)
    }


def said(root):
    return {finding.subject: finding for finding in jetson.findings(root)}


def test_another_machine_is_not_a_jetson(tmp_path):
    assert jetson.find(tmp_path) is None
    assert jetson.probes(tmp_path) == ()
    assert jetson.findings(tmp_path) == ()


@pytest.mark.parametrize(
    ("files", "family", "jetpack"),
    [
        (NANO, "Nano", 4),
        (XAVIER, "AGX Xavier", 5),
        (ORIN, "Orin NX / Orin Nano", 6),
        (AGX_ORIN, "AGX Orin", 6),
        (THOR, "AGX Thor", 7),
    ],
)
def test_finds_board_and_release(build, files, family, jetpack):
    found = jetson.find(build(files))
    assert (found.family, found.jetpack) == (family, jetpack)


def test_jetpack_4_nano(build):
    root = build(NANO)
    values = readings(root)
    assert values["power_w"] == 2.5
    assert values["rail_pom_5v_gpu_w"] == 0.3
    assert values["sm_clock_mhz"] == 76.8
    assert values["any_kernel_share"] == 0.125
    assert values["temperature_c"] == 41
    assert not any("pmic" in name for name in values)
    found = said(root)
    assert found["power rails"].text.endswith("POM_5V_IN is the module's total")
    assert found["power mode"].fix == "sudo nvpmodel -m 0"
    assert found["GPU clock"].state == "warning"
    assert "76.8 and 921.6 MHz" in found["GPU clock"].text


def test_jetpack_5_xavier_has_two_chips_and_no_total(build):
    root = build(XAVIER)
    values = readings(root)
    assert values["rail_gpu_w"] == pytest.approx(9.5)
    assert values["rail_sys5v_w"] == pytest.approx(2.28)
    assert "power_w" not in values
    found = said(root)
    assert "never summed" in found["power rails"].text
    assert found["GPU clock"].text.startswith("held at 1377 MHz")
    assert found["power mode"].state == "ok"
    assert "cpu is at 86" in found["temperature"].text


def test_jetpack_6_orin_nano(build):
    root = build(ORIN)
    values = readings(root)
    assert values["power_w"] == pytest.approx(4.5)
    assert math.isnan(values["cv0_temperature_c"])
    [rails] = [probe for probe in jetson.probes(root) if probe.sensors[0].unit == "W"]
    assert {info.period_s for info in rails.sensors} == {0.02}
    assert "the whole module" in rails.sensors[0].quality
    found = said(root)
    assert "oc1: 3" in found["over-current"].text
    assert found["power mode"].text == "MAXN_SUPER"


def test_agx_orin_has_unconnected_channels_and_no_total(build):
    values = readings(build(AGX_ORIN))
    assert set(values) == {"rail_vdd_gpu_soc_w", "rail_vdd_cpu_cv_w", "rail_vin_sys_5v0_w", "rail_vddq_vdd2_1v8ao_w"}


def test_jetpack_7_thor_has_its_total_on_another_chip(build):
    root = build(THOR)
    values = readings(root)
    assert values["power_w"] == pytest.approx(45.0)
    assert values["rail_vdd_gpu_w"] == pytest.approx(30.0)
    assert values["sm_clock_mhz"] == 1575
    assert "any_kernel_share" not in values
    assert said(root)["power mode"].state == "note"


def test_an_unknown_board_still_shows_its_rails(build):
    files = board("NVIDIA Jetson Future", "R99 (release), REVISION: 1.0") | hwmon(
        "1-0040", 0, [("VDD_NEW", 1000, 1000)]
    )
    root = build(files)
    assert readings(root) == {"rail_vdd_new_w": 1.0}
    assert jetson.find(root).jetpack is None
    assert "not in the table" in said(root)["board"].text


def test_unreadable_rails_are_reported(build):
    files = {inner: text for inner, text in ORIN.items() if "curr" not in inner}
    root = build(files)
    assert "power_w" not in readings(root)
    assert said(root)["power rails"].state == "warning"


def test_a_failing_rail_reads_nan_and_all_failing_is_an_error(build):
    root = build(ORIN)
    probe = jetson.probes(root)[0]
    folder = root / I2C.lstrip("/") / "ina3221/1-0040/hwmon/hwmon1"
    (folder / "curr1_input").write_text("")
    assert math.isnan(probe.read()[0])
    assert probe.read()[1] == pytest.approx(0.5)
    for n in (2, 3):
        (folder / f"curr{n}_input").write_text("")
    with pytest.raises(OSError, match="no power rail answers"):
        probe.read()


def test_tegrastats_replaces_hidden_rails(monkeypatch):
    monkeypatch.setenv("PATH", str(TOOLS), prepend=":")
    monkeypatch.setenv(
        "FAKE_TEGRASTATS_LINE", "RAM 1/2MB CPU [1%@1] VDD_IN 2763mW/2846mW VDD_SOC 650mW/711mW NC 0mW/0mW"
    )
    started = []
    monkeypatch.setattr(rails, "ChildLines", lambda command: started.append(ChildLines(command)) or started[0])
    probe = open_tegrastats()
    assert [info.name for info in probe.sensors] == ["power_w", "rail_vdd_soc_w"]
    assert pace.until(lambda: [value for value in probe.read() if not math.isnan(value)]) == [2.763, 0.65]
    started[0].close()
    with pytest.raises((OSError, ValueError)):
        probe.read()
