import pytest


@pytest.fixture(scope="session")
def common_cache(tmp_path_factory):
    """Files the tests share: images and weights, made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(common_cache, monkeypatch):
    """Not the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(common_cache))


@pytest.fixture(autouse=True)
def _one_thread():
    """Small models gain nothing from threads, and other tests may run in parallel."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
