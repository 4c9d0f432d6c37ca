"""Profiles of other tools: exports of Nsight Systems, traces of nvprof."""

import numpy as np
import pytest

from cotenant.errors import DataError
from cotenant.store import imports as importing
from tests.fake_tools.nsys_export import Export, thread

TWO_PROCESSES = [
    {"start": 100, "end": 300, "pid": 11, "name": "gemm(float, int)", "stream": 7},
    {"start": 200, "end": 250, "pid": 12, "name": "relu", "stream": 7},
]
NVPROF = """==4321== NVPROF is profiling process 4321, command: ./sgemm
==4321== Profiling result:
"Start","Duration","Grid X","Device","Context","Stream","Name","Correlation_ID","System"
s,ms,,,,,,,
1.000000,2435.5,16,"Tesla V100-SXM2-16GB (0)","1","7","void gemm<float, 4>(int, int) [123]",123,
1.000500,,,"Tesla V100-SXM2-16GB (0)",,,"[SM/Memory Clock (MHz)]",,"1350/877"
1.000500,,,"Tesla V100-SXM2-16GB (0)",,,"[Temperature (C)]",,"66"
1.000500,,,"Tesla V100-SXM2-16GB (0)",,,"[Power/Limit (mW)]",,"297100/300000"
3.500000,0.5,,"Tesla V100-SXM2-16GB (0)","1","7","[CUDA memcpy HtoD]",124,
"""


@pytest.fixture(params=[False, True], ids=["old schema", "new schema"])
def new(request):
    return request.param


def write_export(path, kernels, *, new, copies=(), launches=(), ranges=(), metrics=(), processes=(), utc_ns=None):
    export = Export(path, new=new)
    for rows, add in ((kernels, export.kernel), (copies, export.copy)):
        for row in rows:
            add(**row)
    for rows, add in ((launches, export.launch), (ranges, export.range), (metrics, export.metric)):
        for row in rows:
            add(*row)
    for pid, name in processes:
        export.process(pid, name)
    if utc_ns is not None:
        export.started(utc_ns)
    export.close()
    return path


def by_sensor(imported):
    return {(one.device, one.sensor): one for one in imported.series}


class TestNsightSystems:
    def test_kernels_with_their_names_times_and_processes(self, tmp_path, new):
        path = write_export(tmp_path / "a.sqlite", TWO_PROCESSES, new=new, processes=[(11, "/usr/bin/python3")])
        imported = importing.read(path)
        assert imported.format == "nsys"
        assert imported.kernels["name"].tolist() == ["gemm(float, int)", "relu"]
        assert imported.kernels["duration_ns"].tolist() == [200, 50]
        assert imported.kernels["tenant"].tolist() == ["python3 (11)", "process 12"]
        assert imported.clock == "the session's start"

    def test_the_session_start_anchors_the_clock(self, tmp_path, new):
        path = write_export(tmp_path / "a.sqlite", TWO_PROCESSES, new=new, utc_ns=1_700_000_000_000_000_000)
        imported = importing.read(path)
        assert imported.kernels["start_ns"][0] == 1_700_000_000_000_000_100
        assert "1970" in imported.clock

    def test_a_range_names_the_tenant_of_a_process(self, tmp_path, new):
        ranges = [(0, 1000, thread(11, 1), "cotenant:bert"), (0, 1000, thread(12, 1), "cotenant:resnet"),
                  (0, 1000, thread(12, 1), "forward")]  # fmt: skip
        imported = importing.read(write_export(tmp_path / "a.sqlite", TWO_PROCESSES, new=new, ranges=ranges))
        assert imported.kernels["tenant"].tolist() == ["bert", "resnet"]

    def test_tenants_of_one_process_are_distinguished_by_the_launching_thread(self, tmp_path, new):
        kernels = [
            {"start": 100, "end": 300, "pid": 11, "name": "gemm", "stream": 13, "correlation": 1},
            {"start": 150, "end": 350, "pid": 11, "name": "gemm", "stream": 14, "correlation": 2},
            {"start": 400, "end": 450, "pid": 11, "name": "backward", "stream": 14, "correlation": 3},
        ]
        imported = importing.read(
            write_export(
                tmp_path / "a.sqlite",
                kernels,
                new=new,
                ranges=[(0, 1000, thread(11, 1), "cotenant:a"), (0, 1000, thread(11, 2), "cotenant:b")],
                # The third was launched by a thread without a range: autograd's.
                launches=[(90, thread(11, 1), 1), (140, thread(11, 2), 2), (390, thread(11, 3), 3)],
            )
        )
        assert imported.kernels["tenant"].tolist() == ["a", "b", "b"]

    def test_copies_are_distinguished_from_kernels(self, tmp_path, new):
        copies = [{"start": 5, "end": 9, "pid": 11, "kind": 1}, {"start": 6, "end": 9, "pid": 11, "kind": 99}]
        names = importing.read(write_export(tmp_path / "a.sqlite", TWO_PROCESSES, new=new, copies=copies)).kernels[
            "name"
        ]
        assert set(names) >= {"[CUDA memcpy HtoD]", "[CUDA memcpy 99]"}

    def test_a_counter_is_its_type_and_its_number_together(self, tmp_path, new):
        metrics = [
            (0x100, 3, "SMs Active [Throughput %]", [(10, 50), (20, 60)]),
            (0x101, 3, "DRAM Read Bandwidth [Throughput %]", [(10, 7), (20, 8)]),
            (0x100, 4, "Tensor Active [Throughput %]", [(10, 25)]),
            (0x100, 5, "Something New [x]", [(10, 1)]),
        ]
        series = by_sensor(importing.read(write_export(tmp_path / "a.sqlite", TWO_PROCESSES, new=new, metrics=metrics)))
        assert set(series) == {("GPU 0", "sm_active"), ("GPU 1", "dram_read_active"), ("GPU 0", "tensor_active")}
        assert series["GPU 0", "sm_active"].value == pytest.approx([0.5, 0.6])
        assert series["GPU 1", "dram_read_active"].value == pytest.approx([0.07, 0.08])

    def test_kernels_without_a_name_or_an_end_are_refused_and_counted(self, tmp_path, new):
        bad = [
            *TWO_PROCESSES,
            {"start": 5, "end": 1, "pid": 1, "name": "x"},
            {"start": 5, "end": 6, "pid": 1, "name": ""},
        ]
        path = write_export(tmp_path / "a.sqlite", bad, new=new)
        with pytest.raises(DataError, match="2 lines that can't be used"):
            importing.read(path)
        imported = importing.read(path, skip_bad=True)
        assert (len(imported.kernels["name"]), imported.skipped[0].count) == (2, 2)

    def test_nothing_traced(self, tmp_path, new):
        with pytest.raises(DataError, match="has no kernels"):
            importing.read(write_export(tmp_path / "a.sqlite", [], new=new))

    def test_another_database_and_a_damaged_one(self, tmp_path):
        import sqlite3

        other = tmp_path / "other.sqlite"
        db = sqlite3.connect(other)
        db.execute("CREATE TABLE t (a)")
        db.commit()
        db.close()
        with pytest.raises(DataError, match="no kernel was traced"):
            importing.read(other)
        damaged = tmp_path / "damaged.sqlite"
        damaged.write_bytes(b"SQLite format 3\x00" + b"\x17" * 5000)
        with pytest.raises(DataError, match="can't be read as an export"):
            importing.read(damaged)

    def test_a_report_that_was_not_exported(self, tmp_path):
        report = tmp_path / "a.nsys-rep"
        report.write_bytes(b"\x01\x02\x03")
        with pytest.raises(DataError, match="only nsys can read") as refusal:
            importing.read(report)
        assert "nsys export --type sqlite" in refusal.value.hint


class TestNvprof:
    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "sgemm.csv"
        path.write_text(NVPROF)
        return path

    def test_kernels_in_nanoseconds_without_their_correlation(self, path):
        kernels = importing.read(path).kernels
        assert kernels["name"].tolist() == ["void gemm<float, 4>(int, int)", "[CUDA memcpy HtoD]"]
        assert kernels["start_ns"].tolist() == [1_000_000_000, 3_500_000_000]
        assert kernels["duration_ns"].tolist() == [2_435_500_000, 500_000]
        assert set(kernels["tenant"]) == {"sgemm"}

    def test_system_samples_are_taken_apart(self, path):
        series = {sensor: one for (_, sensor), one in by_sensor(importing.read(path)).items()}
        assert {name: one.value.tolist() for name, one in series.items()} == {
            "sm_clock_mhz": [1350],
            "memory_clock_mhz": [877],
            "temperature_c": [66],
            "power_w": [297.1],
            "power_limit_w": [300],
        }
        assert np.unique([one.t_ns for one in series.values()]).tolist() == [1_000_500_000]

    @pytest.mark.parametrize("unit", ["us", "ms", "s", "ns"])
    def test_units_are_read_below_the_header(self, path, unit):
        path.write_text(NVPROF.replace("s,ms,", f"s,{unit},"))
        factor = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1}[unit]
        assert importing.read(path).kernels["duration_ns"][0] == round(2435.5 * factor)

    def test_missing_units(self, path):
        path.write_text(NVPROF.replace("s,ms,,,,,,,\n", ""))
        with pytest.raises(DataError, match=r"Start in the unit '1.000000' \(line 4\)"):
            importing.read(path)

    def test_rows_of_rubbish(self, path):
        path.write_text(NVPROF + 'x,y\n"4","no",,"V100","1","7","k",1,\n"4","",,"V100",,,"[Temperature (C)]",,"hot"\n')
        with pytest.raises(DataError) as refusal:
            importing.read(path)
        for part in ("3 lines", "not 9 cells (line 10)", "Duration is not a number (line 11)", "System is not a value"):
            assert part in refusal.value.message
        assert sum(one.count for one in importing.read(path, skip_bad=True).skipped) == 3

    def test_a_summary_is_not_a_trace(self, path):
        path.write_text('==1== x\n"Type","Time(%)","Time","Calls"\n,%,ms,\n')
        with pytest.raises(DataError, match="no header line"):
            importing.read(path, format="nvprof")
