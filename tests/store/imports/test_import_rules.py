"""Files of other tools, to the number: units, stages, what is wrong with a line; and service times of blocks."""

import json
import math

import numpy as np
import pytest

from cotenant.errors import DataError
from cotenant.store import service_times
from cotenant.store.export import FORMS, _format, rewrite
from cotenant.store.imports import nvprof, search_json, tegrastats

# --- the model-search study


def write(tmp_path, measurements, **more):
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"git-hash": "abc", "measurements": measurements} | more))
    return path


GOOD = {"load_data": [0.5, 0.25], "calc_proxy_score": [0.125], "end_to_end": 0.75}


def test_stages_are_added_up_and_first_batches_kept(tmp_path):
    found = search_json.read(write(tmp_path, {"resnet": {"64": GOOD, "1": {"inference": [1, 2, 0]}}}))
    first, second = found.cells
    assert (first.model, first.batch, first.batches, first.end_to_end_s) == ("resnet", 64, 2, 0.75)
    assert first.stage_s == {"load_data": 0.75, "score": 0.125}
    assert first.first_s == {"load_data": 0.5, "score": 0.125}
    assert (first.overlap_s, first.bottleneck) == (0.125, "load_data")
    assert (second.batch, second.batches, second.overlap_s) == (1, 3, None)
    assert found.stages["duration_ns"].tolist() == [500_000_000, 250_000_000, 125_000_000, 10**9, 2 * 10**9, 0]
    assert found.stages["seq"].tolist() == [0, 1, 0, 0, 1, 2]
    assert found.stages["tenant"].tolist() == ["resnet batch 64"] * 3 + ["resnet batch 1"] * 3
    assert (found.facts, found.skipped) == ({"git-hash": "abc"}, ())
    assert found.to_json()["cells"][0]["bottleneck"] == "load_data"
    assert search_json.recognise(found.path)


@pytest.mark.parametrize(
    ("batch", "given", "wrong"),
    [
        ("x", GOOD, "is not a batch size"),
        ("0", GOOD, "is not a batch size"),
        ("8", [1.0], "is not a batch size"),
        ("8", {"end_to_end": 1.0}, "has no times"),
        ("8", {"load_data": []}, "has no times"),
        ("8", {"load_data": 1.0}, "has no times"),
        ("8", {"load_data": [1.0, -0.1]}, "a time is not"),
        ("8", {"load_data": [1.0, True]}, "a time is not"),
        ("8", {"load_data": [1.0, "1"]}, "a time is not"),
        ("8", {"load_data": [1.0, math.inf]}, "a time is not"),
        ("8", {"load_data": [1.0], "end_to_end": -1.0}, "end_to_end is not"),
    ],
)
def test_a_bad_cell_is_named_and_left_out_on_request(tmp_path, batch, given, wrong):
    path = write(tmp_path, {"resnet": {"4": GOOD, batch: given}})
    with pytest.raises(DataError, match=f"resnet, batch {batch}: .*{wrong}"):
        search_json.read(path)
    found = search_json.read(path, skip_bad=True)
    assert ([cell.batch for cell in found.cells], found.skipped[0].count) == ([4], 1)
    with pytest.raises(DataError, match="measurements"):
        search_json.read(write(tmp_path, {"resnet": {batch: given}}), skip_bad=True)


def test_files_of_another_kind(tmp_path):
    path = tmp_path / "other.json"
    for text, why in (("[1]", "not a JSON object"), ("{", "can't be read"), ("{}", "no key 'measurements'")):
        path.write_text(text)
        assert not search_json.recognise(path)
        with pytest.raises(DataError, match=why):
            search_json.read(path)
    with pytest.raises(DataError, match=r"resnet, batch \?: .* \(and 1 more\)"):
        search_json.read(write(tmp_path, {"resnet": 3, "vgg": 4}))


# --- nvprof

HEADER = '"Start","Duration","Device","Stream","System","Name"'


def profile(tmp_path, *rows, units="s,us,,,,", header=HEADER):
    path = tmp_path / "app.csv"
    path.write_text("\n".join(["==1== banner", header, units, *rows]) + "\n")
    return path


def test_times_in_their_units_and_samples_in_theirs(tmp_path):
    path = profile(
        tmp_path,
        '0.5,2.5,"A100",7,,"void gemm<a, b>(int) [123]"',
        '0.25,1,"A100",,,"relu"',
        '0.1,,"A100",,"1410/1215","[SM/Memory Clock (MHz)]"',
        '0.2,,"A100",,"250000/400000","[Power/Limit (mW)]"',
        '0.3,,"A100",,"45","[Temperature (C)]"',
    )
    found = nvprof.read(path, skip_bad=False)
    kernels = found.kernels
    assert kernels["name"].tolist() == ["void gemm<a, b>(int)", "relu"]
    assert kernels["start_ns"].tolist() == [500_000_000, 250_000_000]
    assert kernels["duration_ns"].tolist() == [2500, 1000]
    assert (kernels["stream"].tolist(), kernels["tenant"].tolist()) == ([7, -1], ["app", "app"])
    values = {series.sensor: (series.value.tolist(), series.t_ns.tolist()) for series in found.series}
    assert values["sm_clock_mhz"] == ([1410.0], [100_000_000])
    assert values["memory_clock_mhz"][0] == [1215.0]
    assert (values["power_w"][0], values["temperature_c"][0]) == ([250.0], [45.0])
    assert len(found.series) == 5
    assert nvprof.recognise(["x", HEADER])
    assert not nvprof.recognise(["Start;Duration"])


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ('x,1,"A",,,"k"', "Start is not a number"),
        ('inf,1,"A",,,"k"', "Start is not a number"),
        ('1,,"A",,,"k"', "Duration is not a number"),
        ('1,-1,"A",,,"k"', "Duration is not a number"),
        ('1,,"A",,"1","[SM/Memory Clock (MHz)]"', "System is not a value"),
        ('1,,"A",,"1/x","[SM/Memory Clock (MHz)]"', "System is not a value"),
        ('1,1,"A"', "not 6 cells"),
    ],
)
def test_a_bad_row_of_a_profile_is_named(tmp_path, row, why):
    path = profile(tmp_path, '1,0,"A",,,"k"', row)
    with pytest.raises(DataError, match=why):
        nvprof.read(path, skip_bad=False)
    found = nvprof.read(path, skip_bad=True)
    assert len(found.kernels["name"]) == 1
    assert sum(skipped.count for skipped in found.skipped) == 1


def test_headers_and_units_that_are_missing(tmp_path):
    for wrong, why in (
        ({"header": "a,b"}, "no header line"),
        ({"header": "Start,Duration,Name"}, "no column 'Device'"),
        ({"units": "s,weeks,,,,"}, "Duration in the unit 'weeks'"),
        ({"units": ""}, "Start in the unit|no kernels|unit"),
        ({}, "kernels and no system samples"),
    ):
        with pytest.raises(DataError, match=why):
            nvprof.read(profile(tmp_path, **wrong), skip_bad=False)


# --- tegrastats


def test_lines_of_one_second_are_spread_over_it():
    second = 1_000_000_000
    stamps = np.array([1, 1, 1, 1, 2, 3, 3, 1]) * second
    assert tegrastats._spread(stamps[:7]).tolist() == [
        second, 1_250_000_000, 1_500_000_000, 1_750_000_000, 2 * second, 3 * second, 3_500_000_000,
    ]  # fmt: skip
    assert tegrastats._spread(stamps)[:4].tolist() == [second] * 4, "the clock went back: not spread"
    assert tegrastats._rail_sensor("VDD_GPU") == "rail_vdd_gpu_w"


# --- service times and exported text


def test_service_times_of_blocks():
    one = ([1e9, 3e9], 2e9, 5e8, 1e8, 4, 10)
    two = ([2e9, 4e9], 3e9, None, 3e8, 8, 20)
    found = service_times._of([one, two])
    assert found.drawn_s.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert (found.means_s, found.requests, found.outputs) == ((2.0, 3.0), (10, 20), 8)
    assert (found.first_s, found.step_s) == (0.5, pytest.approx(0.2))
    single = service_times._of([([1e9], 1e9, 5e8, None, None, 3)])
    assert (single.outputs, single.first_s, single.step_s) == (1, None, None)
    assert service_times._of([([1e9], 1e9, 5e8, None, 2, 3)]).step_s is None


def test_acting_characters_of_exports_are_escaped(tmp_path):
    path = tmp_path / "x"
    text = "a\x1b[31m\x9f,b\u202e\tc\r\nd"
    for kind, expected in (
        ("csv", "a\\x1b[31m\\x9f,b\\u202e\tc\r\nd"),
        ("json", "a\\u001b[31m\\u009f,b\\u202e\tc\r\nd"),
    ):
        path.write_bytes(text.encode())
        rewrite(path, FORMS[kind])
        assert path.read_bytes().decode() == expected
    plain = tmp_path / "plain"
    plain.write_bytes(b"a,b\r\n")
    rewrite(plain, FORMS["csv"])
    assert plain.read_bytes() == b"a,b\r\n"
    assert (_format("-", None), _format(tmp_path / "x.JSON", None), _format("-", "parquet")) == (
        "csv",
        "json",
        "parquet",
    )
