"""Host times of the stages, for simulated devices. Estimates, each with its source."""

from cotenant.ranking.scorers.linear import BATCH, PASSES, STEPS

IMAGE_S = 1 / 282
"""Seconds to read, decode and scale one JPEG photograph with one worker: the original study's data loader on its server
(Imagenette, batch 128, one worker: 282 images a second; 8 workers: 2,329)."""
TEXT_S = 1e-4
"""Seconds to tokenise a text of about 100 tokens; an estimate."""
WARM_BYTES_S = 2e9
"""Reading a file that is already in memory; an estimate."""
COLD_BYTES_S = 200e6
"""Reading it from disk: the original study's assumption."""
BUILD_S = 0.05
"""Building a model's modules; an estimate."""
HOST_FLOPS = 100e9
"""Arithmetic of the scorer on the host; an estimate."""


def load_model_s(weight_bytes: float, *, cold: bool) -> float:
    """Read the weights and build the model."""
    return BUILD_S + weight_bytes / (COLD_BYTES_S if cold else WARM_BYTES_S)


def load_data_s(items: int, *, images: bool, workers: int) -> float:
    """Load one batch, while the other workers load more."""
    return items * (IMAGE_S if images else TEXT_S) / workers


def read_hidden_s(nbytes: float, *, cold: bool) -> float:
    """Read a batch of hidden states."""
    return nbytes / (COLD_BYTES_S if cold else WARM_BYTES_S)


def score_s(items: int, width: int, classes: int, heads: int) -> float:
    """Train one fully connected layer for each head."""
    steps = min(STEPS, PASSES * -(-items // BATCH))
    return heads * steps * 4.0 * min(BATCH, items) * width * classes / HOST_FLOPS
