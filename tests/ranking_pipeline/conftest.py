import pytest


@pytest.fixture(scope="session")
def common_cache(tmp_path_factory):
    """What these tests write for each other: images and weights, made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(common_cache, monkeypatch):
    """Not the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(common_cache))


@pytest.fixture(autouse=True)
def _one_thread():
    """Small models gain nothing from threads, and other tests may run beside these."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
