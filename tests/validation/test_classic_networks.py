"""Networks of measured tables, described for their kernels."""

import pytest

from validation.parvagpu_traced import can_be_traced, described, kernels_of_network, traced


@pytest.mark.parametrize(
    ("model", "params"),
    [
        ("vgg16", 138_357_544),
        ("vgg19", 143_667_240),
        ("densenet121", 7_978_856),
        ("densenet169", 14_149_480),
        ("densenet201", 20_013_928),
        ("inceptionv3", 23_834_568),  # 27,161,264 with the auxiliary head of training
    ],
)
def test_networks_have_the_published_number_of_parameters(model, params, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert described(model, 1).params == params


def test_an_unknown_network_can_not_be_traced():
    assert can_be_traced(["resnet50", "vgg16", "alexnet"]) == {"resnet50", "vgg16"}


def test_a_smaller_slice_is_never_faster():
    network = traced("resnet50", {1: 5.0, 8: 5.2, 32: 13.4}, gpcs=7)
    times = [network.trace(8, gpcs, dram).device_ns for gpcs, dram in ((7, 1.0), (4, 0.5), (3, 0.5), (2, 0.25))]
    assert times == sorted(times)
    assert network.trace(8, 7, 1.0).duration_ns.size == len(kernels_of_network("resnet50", 8))
