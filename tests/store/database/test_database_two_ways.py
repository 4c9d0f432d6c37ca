"""A file is read by DuckDB's own reader if every line is perfect, else line by line: with the same result."""

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotenant.errors import DataError
from cotenant.store.database import from_files
from cotenant.store.database.staging import Staging

RUNS = "exp,uuid,cabinet,node,ts,perf,freq,memfreq,temp,pwr,job_id,note"
LOG = "timestamp, uuid, power.draw [W], clocks.sm [MHz], memory.used [MiB], utilization.gpu [%], pstate"

names = st.sampled_from(["GPU-a", "GPU-b", " GPU-b", '"GPU-c"', "MIG-d", "0", "-1", "é", "x y", "s'; --", "a\0"])
odd_names = st.sampled_from(["", " ", '"', "a\x01", "b\x0bc", "GPU-a,b", "\r", "#", "\t"])
numbers = st.one_of(
    st.integers(-5, 3000).map(str),
    st.floats(0, 1e6).map(repr),
    st.sampled_from([" 7 ", "1_0", "+5", ".5", "5.", "1e5", "-0"]),
)
odd_numbers = st.sampled_from(
    ["", "nan", "-nan", "inf", "1e999", "0x10", "1,5", '"1"', "\t3", "three", "[N/A]", "true", "3 ms", "1e300", "\x01"]
)
times = st.sampled_from(["2024/01/01 00:00:00.123", "2024/01/01 00:00:07", "01-02-2024 03:04:05", " 2024/01/01 0:0:1"])
absent = st.sampled_from(["[N/A]", "nan", "", "[Not Supported]", "-", "NaN", "null", "-nan"])


def with_unit(unit):
    return st.one_of(numbers, numbers.map(lambda text: f"{text} {unit}"), absent)


good_run = st.tuples(
    names, names, names, names, numbers, numbers, numbers, st.one_of(numbers, absent), numbers, numbers, names, names
)
good_reading = st.tuples(
    times, names, with_unit("W"), with_unit("MHz"), with_unit("MiB"), with_unit("%"), st.sampled_from(["P0", "", " "])
)
SEPARATORS = {RUNS: ",", LOG: ", "}


@st.composite
def files(draw):
    header = draw(st.sampled_from([RUNS, LOG]))
    separator = SEPARATORS[header]
    wanted = [*draw(st.lists(good_run if header == RUNS else good_reading, min_size=0, max_size=12))]
    lines = [header, *(separator.join(cells) for cells in wanted)]
    if draw(st.booleans()) and wanted:
        cells = list(draw(st.sampled_from(wanted)))
        cells[draw(st.integers(0, len(cells) - 1))] = draw(st.one_of(odd_names, odd_numbers))
        lines.insert(
            draw(st.integers(1, len(lines))),
            draw(st.sampled_from([separator.join(cells), "", "  ", "a,b", separator.join(cells) + ","])),
        )
    ends = st.sampled_from(draw(st.sampled_from([["\n"], ["\n"], ["\r\n"], ["\n", "\r\n"]])))
    return "".join(line + draw(ends) for line in lines[:-1]) + lines[-1] + draw(st.sampled_from(["\n", "\n", ""]))


def staged(path, room, *, skip_bad=False):
    """The rows to add, or the error."""
    staging = Staging(room, "key")
    try:
        found = from_files.stage(path, staging, skip_bad=skip_bad)
    except DataError as error:
        return error.message, error.hint
    except duckdb.Error as error:
        return type(error)
    else:
        rows = {
            table: sorted(map(repr, duckdb.execute("FROM read_parquet(?)", [str(file)]).fetchall()))
            for table, file in found.files.items()
        }
        kinds = {
            table: duckdb.execute("DESCRIBE FROM read_parquet(?)", [str(file)]).fetchall()
            for table, file in found.files.items()
        }
        return rows, kinds, found.measurements, found.readings, found.gpus, found.kind, found.left_out
    finally:
        staging.close()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(text=files(), skip_bad=st.booleans())
def test_both_ways_add_the_same_or_report_the_same(tmp_path_factory, text, skip_bad):
    folder = tmp_path_factory.mktemp("two")
    path = folder / "a [1].csv"
    path.write_bytes(text.encode())
    first = staged(path, folder / "fast", skip_bad=skip_bad)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(from_files, "stage_sheet", lambda *_: None)
        assert staged(path, folder / "careful", skip_bad=skip_bad) == first


def line_by_line(*_, **__):
    raise AssertionError("it was read line by line")


def perfect_files(tmp_path):
    runs, log = tmp_path / "runs.csv", tmp_path / "log.csv"
    runs.write_text(
        RUNS + "\n" + "sgemm,GPU-a,c1,-1,1600000000,2400.5,1365,877,60,297.1,7,x\n" * 3 + "\n", encoding="utf-8"
    )
    log.write_text(
        LOG + "\n" + "2024/01/01 00:00:00.123, GPU-a, 81.46 W, [N/A], 10 MiB, 40 %, P0\n" * 3, encoding="utf-8"
    )
    return runs, log


def test_a_perfect_file_is_never_read_line_by_line(tmp_path, monkeypatch):
    monkeypatch.setattr(from_files, "_read", line_by_line)
    for number, path in enumerate(perfect_files(tmp_path)):
        _, _, measurements, readings, gpus, _, left_out = staged(path, tmp_path / str(number))
        assert (measurements, readings, gpus) == ((3, 0, 1), (0, 9, 1))[number]
    assert left_out == ("nvidia-smi clocks.sm had no value in 3 of 3 readings",)


def test_a_bad_cell_in_an_unused_column_is_reported_too(tmp_path):
    runs, _ = perfect_files(tmp_path)
    runs.write_text(runs.read_text(encoding="utf-8").replace("877", "fast", 1), encoding="utf-8")
    message, _ = staged(runs, tmp_path / "room")
    assert "memfreq is not a number (line 2)" in message


def test_rows_of_a_large_file_are_sorted_by_gpu_and_time(tmp_path):
    path = tmp_path / "large.csv"
    lines = [f"w,GPU-{k * 7919 % 31},c,1,{1 + k * 104_729 % 400_000},{k},1,1,1,1,{k},n" for k in range(400_000)]
    path.write_text("\n".join([RUNS, *lines]) + "\n", encoding="utf-8")
    staging = Staging(tmp_path / "room", "key")
    file = from_files.stage(path, staging, skip_bad=False).files["measurements"]
    staging.close()
    found = duckdb.execute("SELECT gpu, at_s, time_ms, job FROM read_parquet(?)", [str(file)]).fetchall()
    assert found == sorted(found)
    assert {(float(job), time) for _, _, time, job in found} == {(float(k), float(k)) for k in range(400_000)}
