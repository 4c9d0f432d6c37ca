"""The three models as plain torch, for servers without cotenant: each takes 64 numbers and returns a few.

Needs only torch and transformers, so that it runs in every peer's environment. ``MODELS`` (environment) is the folder
filled by ``make``: all servers load the same weights. ``CORE`` is the core that acts as the device.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import torch

NAMES = tuple(os.environ.get("TENANTS", "bert conv gpt").split())
"""`nothing` is a tenant without a model, to measure overhead."""
PROMPT, TOKENS, SIDE = 64, 24, 160
_pinned = threading.local()


def make(folder: Path) -> None:
    """Write the models: an encoder and a decoder of 4 layers and 256 wide, and ResNet-18."""
    from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, ResNetConfig
    from transformers import ResNetForImageClassification as ResNet

    torch.manual_seed(0)
    wide = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
    bert = BertModel(BertConfig(**wide, vocab_size=4096))
    depths = {"layer_type": "basic", "hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2]}
    conv = ResNet(ResNetConfig(**depths, num_labels=1000))
    gpt = GPT2LMHeadModel(GPT2Config(n_embd=256, n_layer=4, n_head=4, n_positions=512, vocab_size=4096))
    for name, model in {"bert": bert, "conv": conv, "gpt": gpt}.items():
        model.eval().save_pretrained(folder / name)


def load(name: str) -> Callable[[list[int]], list[float]]:
    """A tenant's request as a function, on one thread, pinned to the device's core in any calling thread."""
    torch.set_num_threads(1)
    run = {"bert": _bert, "conv": _conv, "gpt": _gpt, "nothing": _nothing}[name](Path(os.environ["MODELS"]) / name)

    def request(numbers: list[int]) -> list[float]:
        if not getattr(_pinned, "done", False):
            os.sched_setaffinity(0, {int(os.environ["CORE"])})  # 0 is the calling thread, not the process
            _pinned.done = True
        with torch.inference_mode():
            return run(numbers)

    return request


def _nothing(folder: Path) -> Callable[[list[int]], list[float]]:
    del folder
    return lambda numbers: [0.0] * min(8, len(numbers))


def _bert(folder: Path) -> Callable[[list[int]], list[float]]:
    from transformers import BertModel

    model = BertModel.from_pretrained(folder).eval()
    return lambda numbers: model(input_ids=torch.tensor([numbers])).last_hidden_state.mean(1)[0, :8].tolist()


def _conv(folder: Path) -> Callable[[list[int]], list[float]]:
    from transformers import ResNetForImageClassification

    model = ResNetForImageClassification.from_pretrained(folder).eval()
    image = torch.randn(1, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    return lambda _: model(pixel_values=image).logits[0, :8].tolist()


def _gpt(folder: Path) -> Callable[[list[int]], list[float]]:
    from transformers import DynamicCache, GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(folder).eval()

    def run(numbers: list[int]) -> list[float]:
        cache, ids, made = DynamicCache(), torch.tensor([numbers]), []
        for _ in range(TOKENS):
            result = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
            ids = result.logits[:, -1].argmax(-1, keepdim=True)
            made.append(int(ids))
        return made

    return run
