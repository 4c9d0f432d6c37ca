"""Tables of other tools: runs in the Longhorn schema, nvidia-smi CSV, dcgmi text."""

import os
from pathlib import Path

import numpy as np
import pytest

from cotenant.errors import DataError
from cotenant.store import imports as importing

DATA = Path(os.environ.get("COTENANT_DATA", Path(__file__).parents[4] / "shared" / "data"))
needs_data = pytest.mark.skipif(not (DATA / "power").is_dir(), reason="the measured data are not here")

RUNS = """exp,uuid,cabinet,node,ts,perf,freq,memfreq,temp,pwr,dev_id
sgemm,GPU-a,c002,4,1591118862,2454.6,1350,877,73,296.79,0
sgemm,GPU-b,-1,-1,1591118863,2382.7,1387,877,63,295.7,1
"""
SMI = """timestamp, uuid, power.draw [W], clocks.current.sm [MHz], temperature.gpu, pstate
2023/07/30 18:26:14.684, GPU-a, 81.46 W, 1530 MHz, 57, P0
2023/07/30 18:26:14.684, GPU-b, [N/A], 1380 MHz, 41, P0
2023/07/30 18:26:14.691, GPU-a, 82.00 W, 1530 MHz, 57, P0
2023/07/30 18:26:14.691, GPU-b, 60.10 W, [Unknown Error], 42, P0
"""
DMON = """#Entity   SMACT        TENSO        POWER
ID                                    W
GPU 0     0.912        0.521        612.4
GPU 1     0.100        N/A          70.0
#Entity   SMACT        TENSO        POWER
ID                                    W
GPU 0     0.905        0.518        615.1
GPU 1     0.110        N/A          71.0
"""


@pytest.fixture
def write(tmp_path):
    def written(text, name="file.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


def series(imported, device, sensor):
    [found] = [one for one in imported.series if (one.device, one.sensor) == (device, sensor)]
    return found


class TestDetect:
    @pytest.mark.parametrize(
        ("text", "name"),
        [(RUNS, "longhorn"), (SMI, "nvidia-smi"), (DMON, "dcgmi"), (DMON.replace("#Entity ", "# Entity"), "dcgmi")],
    )
    def test_the_format_is_detected_by_content(self, write, text, name):
        assert importing.detect(write(text, "unnamed.txt")) == name

    @pytest.mark.parametrize("text", ["", "a,b,c\n1,2,3\n", "once upon a time\n", b"\x00\xff\x17" * 50])
    def test_anything_else_is_refused_with_the_known_formats(self, write, text):
        with pytest.raises(DataError, match="unknown format") as refusal:
            importing.detect(write(text))
        assert all(name in refusal.value.hint for name in importing.FORMATS)

    def test_a_missing_file(self, tmp_path):
        with pytest.raises(DataError, match="no such file"):
            importing.read(tmp_path / "absent.csv")

    def test_a_format_that_does_not_exist(self, write):
        with pytest.raises(DataError, match="no format 'csv'"):
            importing.read(write(RUNS), format="csv")


class TestRunsOfAFleet:
    def test_columns_carry_units_and_unknown_places_are_none(self, write):
        runs = importing.read(write(RUNS)).runs
        assert runs["time_ms"].tolist() == [2454.6, 2382.7]
        assert runs["sm_clock_mhz"].tolist() == [1350, 1387]
        assert runs["power_w"].tolist() == [296.79, 295.7]
        assert runs["cabinet"].tolist() == ["c002", None]
        assert runs["slot"].tolist() == ["0", "1"]
        assert runs["job"].tolist() == [None, None]

    def test_a_missing_column_is_named(self, write):
        with pytest.raises(DataError, match="no column 'temp', 'pwr' in line 1"):
            importing.read(write(RUNS.replace("temp,pwr", "heat,watts")), format="longhorn")

    def test_rubbish_is_counted_with_its_lines_and_nothing_is_imported(self, write):
        rubbish = RUNS + "sgemm,GPU-c,c1,1,1,fast,1,1,1,1,0\nonly,three,cells\nsgemm,,c1,1,1,2,1,1,1,1,0\nx,y\n\n"
        with pytest.raises(DataError) as refusal:
            importing.read(write(rubbish))
        said = refusal.value.message
        assert "4 lines that can't be used, so nothing was imported" in said
        assert "not 11 cells (2 times, in lines 5, 7)" in said
        assert "perf is not a number (line 4)" in said
        assert "uuid is empty (line 6)" in said

    def test_bad_lines_are_skipped_only_on_request_and_counted(self, write):
        imported = importing.read(write(RUNS + "x,y\n" + RUNS.splitlines()[1] + "\n"), skip_bad=True)
        assert len(imported.runs["gpu"]) == 3
        [skipped] = imported.skipped
        assert (skipped.count, skipped.lines) == (1, (4,))

    @pytest.mark.parametrize("value", ["nan", "inf", "-inf", "", "1,5", "0x10", "1e999"])
    def test_missing_readings_are_nan(self, write, value):
        with pytest.raises(DataError, match="line 2"):
            importing.read(write(RUNS.replace("296.79", value)))

    def test_binary_content(self, write):
        bad = RUNS.encode() + b"\xff\xfe\xfd\n"
        with pytest.raises(DataError, match="can't be read as text"):
            importing.read(write(bad))
        assert len(importing.read(write(bad), skip_bad=True).runs["gpu"]) == 2

    def test_a_header_without_rows(self, write):
        with pytest.raises(DataError, match="has no runs"):
            importing.read(write(RUNS.splitlines()[0] + "\n"))

    @needs_data
    def test_the_complete_longhorn_data(self):
        runs = importing.read(DATA / "power" / "v100_sgemm-longhorn.csv").runs
        assert len(runs["gpu"]) == 11087
        assert len(set(runs["gpu"])) == 392
        assert np.median(runs["time_ms"]) == pytest.approx(2435, rel=0.01)

    @needs_data
    @pytest.mark.parametrize(("kind", "rows"), [("resnet", 1404), ("bert", 1096), ("pagerank", 880)])
    def test_its_other_files_have_other_columns_and_are_read_too(self, kind, rows):
        assert importing.read(DATA / "power" / f"v100_{kind}-longhorn.csv").rows == rows


class TestNvidiaSmi:
    def test_a_series_per_gpu_and_sensor_without_failed_readings(self, write):
        imported = importing.read(write(SMI))
        power = series(imported, "GPU-b", "power_w")
        assert (power.value.tolist(), power.unit, power.refused) == ([60.10], "W", 1)
        assert series(imported, "GPU-a", "sm_clock_mhz").value.tolist() == [1530, 1530]
        busy = importing.read(write(SMI.replace("pstate", "utilization.gpu [%]").replace("P0", "40 %")))
        assert series(busy, "GPU-a", "any_kernel_share").value.tolist() == [0.4, 0.4]
        assert np.diff(series(imported, "GPU-a", "power_w").t_ns).tolist() == [7_000_000]

    def test_samples_have_the_shape_of_a_runs_table(self, write):
        samples = importing.read(write(SMI)).samples()
        assert set(samples) == {"device", "t_ns", "sensor", "value", "unit", "source"}
        assert {len(column) for column in samples.values()} == {10}
        assert "nvidia-smi power.draw" in samples["source"]

    def test_units_that_are_wrong_are_refused(self, write):
        with pytest.raises(DataError, match=r"'power.draw \[mW\]' in 'mw' in line 1; it should be in W"):
            importing.read(write(SMI.replace("power.draw [W]", "power.draw [mW]")))
        with pytest.raises(DataError, match=r"power.draw \[W\] is not a number \(line 4\)"):
            importing.read(write(SMI.replace("82.00 W", "82000 mW")))

    def test_without_times_it_is_refused(self, write):
        with pytest.raises(DataError, match="no column 'timestamp'"):
            importing.read(write(SMI.replace("timestamp", "when")))

    def test_a_truncated_last_line_is_skipped_and_reported(self, write):
        imported = importing.read(write(SMI.rstrip()[:-25]))
        assert [one.what for one in imported.skipped] == ["the last line was truncated"]
        assert series(imported, "GPU-b", "temperature_c").value.tolist() == [41]

    def test_invalid_times(self, write):
        with pytest.raises(DataError, match=r"timestamp is not a time \(line 3\)"):
            importing.read(write(SMI.replace("14.684, GPU-b", "99.684, GPU-b")))

    def test_a_large_file_keeps_its_order(self, write):
        stamps = (
            f"2023/07/30 {k // 3600000:02d}:{k // 60000 % 60:02d}:{k // 1000 % 60:02d}.{k % 1000:03d}"
            for k in range(400_000)
        )
        lines = "".join(f"{stamp}, GPU-{k % 3}, {k} W\n" for k, stamp in enumerate(stamps))
        imported = importing.read(write("timestamp, uuid, power.draw [W]\n" + lines))
        for number, one in enumerate(imported.series):
            assert (one.value == np.arange(number, 400_000, 3)).all()
            assert (np.diff(one.t_ns) == 3_000_000).all()

    @needs_data
    def test_a_stuck_sensor_with_unreadable_clocks(self):
        imported = importing.read(DATA / "power" / "sensors" / "stuck_sensor.csv")
        assert np.unique(series(imported, "GPU 0", "power_w").value).tolist() == [46.19]
        assert series(imported, "GPU 0", "sm_clock_mhz").refused == 12792


class TestDcgmiDmon:
    def test_entities_and_repeated_headers(self, write):
        imported = importing.read(write(DMON), interval_s=0.1)
        assert series(imported, "GPU 0", "sm_active").value.tolist() == [0.912, 0.905]
        assert series(imported, "GPU 1", "tensor_active").refused == 2
        assert series(imported, "GPU 1", "power_w").t_ns.tolist() == [0, 100_000_000]
        assert "assumed" in imported.clock

    def test_the_last_line_of_dmon_on_ctrl_c_is_ignored(self, write):
        imported = importing.read(write(DMON + "\n\ndmon was stopped do to receiving a signal\n"))
        assert len(series(imported, "GPU 0", "sm_active").value) == 2

    def test_an_error_in_the_middle_is_named(self, write):
        with pytest.raises(DataError, match=r"not 5 cells \(line 9\)"):
            importing.read(write(DMON + "Error getting values information. Return -1: Generic error\n"))

    def test_instances_of_a_partitioned_gpu(self, write):
        imported = importing.read(write(DMON.replace("GPU 1 ", "GPU-I 3")))
        assert {one.device for one in imported.series} == {"GPU 0", "GPU-I 3"}


def test_lines_that_were_converted_twice_keep_their_names(tmp_path):
    (tmp_path / "twice.csv").write_bytes(
        b"exp,uuid,cabinet,node,ts,perf,freq,temp,pwr\r\r\n" + b"sgemm,GPU-1,c1,1,1600000000,1000,1365,65,297\r\r\n" * 3
    )
    found = importing.read(tmp_path / "twice.csv")
    assert set(found.runs["workload"]) == {"sgemm"}
    assert len(found.runs["gpu"]) == 3


def test_undecodable_bytes_are_one_sentence(tmp_path):
    from cotenant.store import imports

    file = tmp_path / "smi.csv"
    head = b"timestamp, name, uuid, temperature.gpu, power.draw [W]\n"
    file.write_bytes(head + b"2024/01/01 10:00:00.000, A100, GPU-1, 40, 100.0 W\n\x85\xff\x9f\x00\xfe, x\n")
    with pytest.raises(DataError, match="can't be read as text"):
        imports.read(file, skip_bad=True)
