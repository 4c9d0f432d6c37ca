"""The opening sentences about the members of a group."""

from dataclasses import replace

import pytest

from cotenant.analyse.findings import Apart, MemberTimes, member_findings


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


@pytest.mark.parametrize(
    ("surely", "sentence"),
    [
        ((True, True), "2 supposedly identical devices differ by 10 % under gemm and by 1 % under bert."),
        (
            (False, True),
            "2 supposedly identical devices differ by 10 % under gemm, which may be chance, and by 1 % under bert.",
        ),
        ((False,), "2 supposedly identical devices differ by 10 % under gemm, which may be chance."),
    ],
)
def test_a_difference_between_devices_that_may_be_chance_says_so(surely, sentence):
    works = [("gemm", 11.0), ("bert", 10.1)]
    apart = [
        Apart(work, "", False, {"cuda:0": 10.0, "cuda:1": slow}, sure)
        for (work, slow), sure in zip(works, surely, strict=False)
    ]
    assert member_findings(apart)[0] == sentence


@pytest.mark.parametrize(("blocks", "compared"), [({"cuda:0": 0, "cuda:1": 0}, 1), ({"cuda:0": 0, "cuda:1": 1}, 0)])
def test_devices_that_divide_the_blocks_between_them_are_not_the_finding(synthetic_run, blocks, compared):
    """Those that ran the same block are compared; each block of the others is complete on one device."""
    [one] = synthetic_run(blocks=1).trials("bert", "alone", {"bert": 10}).observations
    times = MemberTimes()
    assert len(list(times.watch(replace(one, member=name, block=block) for name, block in blocks.items()))) == 2
    assert len(times.apart()) == compared
