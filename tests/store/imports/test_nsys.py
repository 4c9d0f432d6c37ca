"""Exports of Nsight Systems, table by table: what each column means, and what is left without it."""

import sqlite3
from contextlib import closing

import pytest

from cotenant.errors import DataError
from cotenant.store import parquet
from cotenant.store.imports import nsys

ID = 0x1000000
KERNEL = {
    "start": 100,
    "end": 300,
    "deviceId": 1,
    "streamId": 7,
    "globalPid": 11 * ID,
    "correlationId": 5,
    "shortName": 1,
}
STRINGS = [
    {"id": 1, "value": "gemm"},
    {"id": 2, "value": "relu"},
    {"id": 3, "value": ""},
    {"id": 4, "value": "cotenant:b"},
]


def export(path, strings=STRINGS, **tables):
    """An export with these tables, each with the columns of its first row."""
    with closing(sqlite3.connect(path)) as db, db:
        for table, rows in {"StringIds": strings, **tables}.items():
            if not rows:
                continue
            names = ", ".join(map(parquet.quoted, rows[0]))
            db.execute(f"CREATE TABLE {table} ({names})")
            for row in rows:
                db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", [*row.values()])
    return path


def kernels(*changes):
    return {nsys.KERNELS: [KERNEL | change for change in changes or ({},)]}


def without(row, *names):
    return {name: value for name, value in row.items() if name not in names}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "a.sqlite"


def read(path, **options):
    return nsys.read(path, **{"skip_bad": False, **options})


def column(found, name):
    return found.kernels[name].tolist()


def test_kernels_come_in_order_of_their_start(file):
    found = read(export(file, **kernels({"start": 500, "end": 501}, {"shortName": 2}, {"start": 101, "end": 101})))
    assert column(found, "name") == ["relu", "gemm", "gemm"]
    assert column(found, "start_ns") == [100, 101, 500]
    assert column(found, "duration_ns") == [200, 0, 1], "a kernel may be too short for the clock"
    assert (column(found, "device"), column(found, "stream")) == (["GPU 1"] * 3, [7] * 3)
    assert (found.format, found.clock, found.skipped, found.series) == ("nsys", "the session's start", (), ())
    assert found.facts == {"schema": None, "gpus": (), "session_start_utc_ns": None}


@pytest.mark.parametrize("bad", [{"start": None}, {"end": None}, {"end": 99}, {"shortName": 3}, {"shortName": 9}])
def test_a_kernel_without_a_name_or_a_time_can_not_be_used(file, bad):
    export(file, **kernels({"start": 50}, bad | {"start": bad.get("start", 100)}, {"start": 400, "end": 401}))
    with pytest.raises(DataError, match=r"1 line that can't be used.* a kernel without a name"):
        read(file)
    found = read(file, skip_bad=True)
    assert column(found, "duration_ns") == [250, 1]
    assert [(kind.count, kind.lines) for kind in found.skipped] == [(1, (1 if bad.get("start", 1) is None else 2,))]


def test_nothing_but_bad_kernels_is_nothing(file):
    with pytest.raises(DataError, match="has no kernels"):
        read(export(file, **kernels({"end": 0})), skip_bad=True)


def test_what_older_exports_lack_has_a_stated_stand_in(file):
    row = without(KERNEL, "deviceId", "streamId", "globalPid", "correlationId")
    found = read(export(file, **{nsys.KERNELS: [row]}))
    assert [column(found, name) for name in ("device", "stream", "tenant")] == [["GPU 0"], [-1], ["process 0"]]


def test_the_most_informative_name_is_taken(file):
    row = without(KERNEL, "shortName") | {"name": 2, "mangledName": 2, "demangledName": 1}
    assert column(read(export(file, **{nsys.KERNELS: [row]})), "name") == ["gemm"]


def test_kernels_without_names_are_refused(file, tmp_path):
    with pytest.raises(DataError, match="kernels have no names"):
        read(export(file, **{nsys.KERNELS: [without(KERNEL, "shortName")]}))
    with pytest.raises(DataError, match="kernels have no names"):
        read(export(tmp_path / "b.sqlite", strings=[], **kernels()))


def test_copies_and_sets_are_named_by_their_kind(file):
    copy = without(KERNEL, "shortName")
    copies = [copy | {"copyKind": kind, "start": 100 + kind} for kind in range(1, 12)]
    found = read(export(file, CUPTI_ACTIVITY_KIND_MEMSET=[copy], CUPTI_ACTIVITY_KIND_MEMCPY=copies, **kernels()))
    kinds = ["HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "11"]
    assert column(found, "name") == ["gemm", *(f"[CUDA memcpy {kind}]" for kind in kinds), "[CUDA memset]"]


@pytest.mark.parametrize(
    ("rows", "anchor"),
    [
        ([{"utcEpochNs": 1000}], 1000),
        ([{"utcEpochNs": 0}], 0),
        ([{"utcEpochNs": None}], None),
        ([{"utcTime": "x"}], None),
    ],
)
def test_times_count_from_1970_if_the_session_s_start_is_known(file, rows, anchor):
    found = read(export(file, TARGET_INFO_SESSION_START_TIME=rows, **kernels()))
    assert found.facts["session_start_utc_ns"] == anchor
    assert column(found, "start_ns") == [100 + (anchor or 0)]
    assert found.clock.startswith("1970" if anchor else "the session's start")


def test_an_empty_table_of_starts_says_nothing(file):
    export(file, TARGET_INFO_SESSION_START_TIME=[{"utcEpochNs": 7}], **kernels())
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("DELETE FROM TARGET_INFO_SESSION_START_TIME")
    assert read(file).facts["session_start_utc_ns"] is None


def test_facts_of_the_export(file):
    meta = [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.11"}, {"name": "OTHER", "value": "1"}]
    found = read(export(file, META_DATA_EXPORT=meta, TARGET_INFO_GPU=[{"name": "A100"}, {"name": "T4"}], **kernels()))
    assert (found.facts["schema"], found.facts["gpus"]) == ("3.11", ["A100", "T4"])


def test_tables_with_other_columns_say_nothing(file):
    tables = {"TARGET_INFO_GPU": [{"id": 0}], "PROCESSES": [{"globalPid": 11 * ID}]}
    found = read(export(file, META_DATA_EXPORT=[{"name": "OTHER", "value": "1"}], **tables, **kernels()))
    assert (found.facts["schema"], found.facts["gpus"]) == (None, ())
    assert column(found, "tenant") == ["process 11"]


METRICS = [
    {"typeId": 0x100, "metricId": 1, "metricName": "SM Active [Throughput %]"},
    {"typeId": 0x103, "metricId": 1, "metricName": "SMs Active [Throughput %]"},
    {"typeId": 0x100, "metricId": 2, "metricName": "GPC Clock Frequency [MHz]"},
    {"typeId": 0x100, "metricId": 3, "metricName": "PCIe RX Throughput"},
    {"typeId": 0x100, "metricId": 4, "metricName": "Tensor Active"},
]
VALUES = [
    {"timestamp": 30, "typeId": 0x100, "metricId": 1, "value": 40},
    {"timestamp": 10, "typeId": 0x100, "metricId": 1, "value": 20},
    {"timestamp": 10, "typeId": 0x103, "metricId": 1, "value": 100},
    {"timestamp": 10, "typeId": 0x100, "metricId": 2, "value": 1410},
    {"timestamp": 10, "typeId": 0x100, "metricId": 3, "value": 9},
]


def test_counters_by_device_in_our_units(file):
    anchor = [{"utcEpochNs": 1000}]
    tables = {"TARGET_INFO_GPU_METRICS": METRICS, "GPU_METRICS": VALUES, "TARGET_INFO_SESSION_START_TIME": anchor}
    found = read(export(file, **tables))
    assert [(s.device, s.sensor, s.unit, s.t_ns.tolist(), s.value.tolist()) for s in found.series] == [
        ("GPU 0", "sm_active", "share", [1010, 1030], [0.2, 0.4]),
        ("GPU 3", "sm_active", "share", [1010], [1.0]),
        ("GPU 0", "sm_clock_mhz", "MHz", [1010], [1410.0]),
    ]
    assert (found.series[0].source, found.kernels) == ("nsys SM Active [Throughput %]", {})


@pytest.mark.parametrize("metrics", [None, [{"typeId": 1, "metricId": 1}]])
def test_counters_without_their_names_are_nothing(file, metrics):
    tables = {"GPU_METRICS": VALUES, **({"TARGET_INFO_GPU_METRICS": metrics} if metrics else {})}
    with pytest.raises(DataError, match="has no kernels"):
        read(export(file, **tables))


def test_a_file_of_something_else(file, tmp_path):
    with pytest.raises(DataError, match="no kernel was traced"):
        read(export(file))
    other = tmp_path / "text"
    other.write_text("SQLite format 3, or so")
    with pytest.raises(DataError, match="can't be read as an export"):
        read(other)
    assert nsys.recognise(file)
    assert not nsys.recognise(other)
    assert not nsys.recognise(tmp_path)
    assert not nsys.recognise(tmp_path / "missing")


# --- whose kernels they are

THREAD = 11 * ID + 1


def tenants(file, ranges, launches=(), processes=(), *changes):
    tables = {"NVTX_EVENTS": ranges, nsys.RUNTIME: launches, "PROCESSES": processes, **kernels(*changes)}
    return column(read(export(file, **tables)), "tenant")


def mark(text, start=0, end=1000, thread=THREAD, **more):
    return {"start": start, "end": end, "globalTid": thread, "text": text, **more}


def test_a_range_may_take_its_text_from_the_table_of_strings(file, tmp_path):
    assert tenants(file, [without(mark(None), "text") | {"textId": 4}]) == ["b"]
    assert tenants(tmp_path / "c.sqlite", [mark("cotenant:a", textId=4)]) == ["a"]


@pytest.mark.parametrize("missing", ["start", "end", "globalTid"])
def test_ranges_without_a_place_or_a_time_name_nobody(file, missing):
    assert tenants(file, [without(mark("cotenant:a"), missing)]) == ["process 11"]


def test_processes_are_called_by_their_program(file):
    processes = [{"globalPid": 11 * ID, "name": "/opt/bin/python3"}, {"globalPid": 12 * ID, "name": None}]
    found = tenants(file, [mark("forward")], (), processes, {}, {"globalPid": 12 * ID, "start": 101})
    assert found == ["python3 (11)", "process 12"]


@pytest.mark.parametrize(
    ("launched", "tenant"),
    [(50, "a"), (60, "a"), (61, "process 11"), (70, "b"), (80, "b"), (81, "process 11"), (90, "c"), (10**9, "c")],
)
def test_a_launch_belongs_to_the_range_it_lies_in(file, launched, tenant):
    ranges = [mark("cotenant:a", 50, 60), mark("cotenant:b", 70, 80), mark("cotenant:c", 90, 89)]
    launches = [{"globalTid": THREAD, "correlationId": 5, "start": launched}]
    assert tenants(file, ranges, launches) == [tenant], "a range that never ended lasts to the end"


def test_a_kernel_that_nobody_launched_belongs_to_the_other_user_of_its_stream(file):
    ranges = [mark("cotenant:a"), mark("cotenant:b", thread=THREAD + 1)]
    launches = [
        {"globalTid": THREAD, "correlationId": 1, "start": 1},
        {"globalTid": THREAD + 1, "correlationId": 2, "start": 1},
        {"globalTid": THREAD + 1, "correlationId": 3, "start": 1},
    ]
    on = [{"correlationId": number, "streamId": 7, "start": 100 + number} for number in range(1, 5)]
    assert tenants(file, ranges, launches, (), *on) == ["a", "b", "b", "b"], "most of the stream's kernels are b's"


@pytest.mark.parametrize("missing", ["globalTid", "correlationId", "start"])
def test_launches_without_a_column_tell_nothing(file, missing):
    ranges = [mark("cotenant:a"), mark("cotenant:b", thread=THREAD + 1)]
    launches = [without({"globalTid": THREAD, "correlationId": 5, "start": 1}, missing)]
    assert tenants(file, ranges, launches) == ["process 11"]
