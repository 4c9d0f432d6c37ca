"""The opening sentences about the members of a group."""

from cotenant.analyse.findings.members import Apart, member_findings


def sgemm(*times_ms):
    return Apart(
        "sgemm", "", simulated=False, times_ms={f"g#{n}": time for n, time in enumerate(times_ms)}, surely=True
    )


def test_the_spread_and_the_slowest_member_come_first():
    apart, slowest, _ = member_findings([sgemm(1.0, 1.0, 1.2)])
    assert apart == "3 supposedly identical devices differ by 20 % under sgemm."
    assert slowest == "#2 is slowest under all work; under sgemm #2 takes 1.20 ms a request, 20 % above the median."


def test_members_that_hardly_differ_are_alike_and_none_is_called_slow():
    assert member_findings([sgemm(1.0, 1.001, 1.002)]) == ["3 devices are alike: at most 0.2 % apart (sgemm)."]
