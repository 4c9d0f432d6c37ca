import numpy as np
import pytest
import torch
from PIL import Image

from benchmarks.siblings import write_siblings
from cotenant.workloads import find

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(60))]


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def _own_cache(cache, monkeypatch):
    """A separate cache, since the user's may contain weights; shared by all tests, since dry runs are the same."""
    monkeypatch.setenv("XDG_CACHE_HOME", cache)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def photos(tmp_path):
    """A folder of images whose noisy stripes show the class."""
    rng = np.random.default_rng(1)
    across = np.linspace(0, 2 * np.pi, 64)
    for number in range(72):
        label = number % 3
        wave = np.sin((2 + 3 * label) * across + rng.random())[None, :, None]
        pixels = 128 + 50 * wave + rng.normal(0, 110, (64, 64, 3))
        folder = tmp_path / "photos" / ("few", "some", "many")[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / f"{number:03d}.png")
    return tmp_path / "photos"


@pytest.fixture
def siblings(tmp_path):
    """Makes directories of siblings; text models get a vocabulary."""

    def make(name, count, *, changed, seed=0, folder="siblings"):
        entry = find(name).entry
        made = write_siblings(tmp_path / folder, entry, count, changed=changed, seed=seed)
        if entry.family == "encoder":
            for one in made:
                (one / "vocab.txt").write_text("\n".join(WORDS))
        return made

    return make


@pytest.fixture
def text_table(tmp_path):
    rng = np.random.default_rng(3)
    path = tmp_path / "texts.csv"
    rows = ["text,label"]
    for number in range(90):
        label = number % 3
        words = rng.choice(np.arange(label * 20, label * 20 + 30) % 60, size=12)
        rows.append(f"{' '.join(f'w{word}' for word in words)},c{label}")
    path.write_text("\n".join(rows))
    return f"{path}?text=text&label=label"
