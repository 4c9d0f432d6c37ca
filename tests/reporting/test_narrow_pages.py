"""Tables never wrap names on a narrow page, and simulated devices don't bury the real ones."""

from io import StringIO

from rich.console import Console

from cotenant.devices.catalogue import DeviceInfo
from cotenant.devices.protocol import SharingMode
from cotenant.measure.batching.impact import BatchAnswer
from cotenant.prediction.batch_limit import Growth, Room, predict
from cotenant.reporting.elements.terminal import to_terminal
from cotenant.reporting.results.batch_sizes import batch_elements
from cotenant.reporting.terminal.lists import device_list

PROCESSES = SharingMode("processes", "a process each", available=True)
MIG = SharingMode("mig", "an instance each", available=True)
NO_MIG = SharingMode("mig", "an instance each", available=False, missing="this GPU has none")


def shown(*parts, width=80):
    console = Console(width=width, record=True, file=StringIO())
    console.print(*parts)
    return console.export_text()


def test_ways_to_share_simulated_devices_are_listed_once_with_exceptions():
    devices = [
        DeviceInfo("cpu", "2 cores", (PROCESSES,)),
        DeviceInfo("sim:a100", "an A100", (PROCESSES, MIG), simulated=True),
        DeviceInfo("sim:t4", "a T4", (PROCESSES, NO_MIG), simulated=True),
    ]
    text = shown(device_list(devices))
    assert text.count("an instance each") == 1
    assert "2 GPUs SIMULATED" in text
    assert "a T4; no mig" in text
    assert "an A100;" not in text
    assert "SIMULATED" not in shown(device_list(devices[:1]))


def test_the_table_of_batches_drops_columns_before_wrapping_names():
    growth = Growth(10**8, 1e8, 1e7, 6e5, 0, 1e5)
    answer = BatchAnswer(
        "efficientnet-v2-s", "float16", "sim:t4", simulated=True, predicted=predict(growth, Room(10**10))
    )
    wide, narrow, narrowest = (shown(*to_terminal(batch_elements([answer])), width=width) for width in (100, 80, 70))
    assert all("efficientnet-v2-s" in text for text in (wide, narrow, narrowest))
    assert [("weights" in text, "per item" in text) for text in (wide, narrow, narrowest)] == [
        (True, True),
        (False, True),
        (False, False),
    ]
