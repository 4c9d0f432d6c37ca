"""What a server resolved at its start: cache, batch limits and device, as its log says.

Equal settings don't give copies of a server equal caches: vLLM, for example, sizes its cache by the memory that is free
when it starts. Formats: vLLM 0.7 to 0.32, SGLang, llama.cpp.
"""

import re
from collections.abc import Mapping, Sequence

READ_BYTES = 1 << 20
"""Of the start of the log: the rest is about requests."""

_NUMBER = r"([\d,]*\d)"
PATTERNS: Mapping[str, tuple[str, ...]] = {
    "cache_tokens": (
        rf"KV cache size: {_NUMBER} tokens",
        rf"\bmax_total_num_tokens\W{{1,3}}{_NUMBER}",
    ),
    "cache_blocks": (rf"# (?:GPU|CPU) blocks: {_NUMBER}", rf"\bnum_gpu_blocks\W{{1,3}}{_NUMBER}"),
    "context_tokens": (
        rf"Maximum concurrency for {_NUMBER} tokens",
        rf"\bcontext_len\W{{1,3}}{_NUMBER}",
        rf"new slot,? n_ctx(?:_slot)? = {_NUMBER}",
    ),
    "sequences_at_once": (
        rf"\bmax_num_seqs\W{{1,3}}{_NUMBER}",
        rf"\bmax_running_requests\W{{1,3}}{_NUMBER}",
        rf"\bn_slots = {_NUMBER}",
    ),
    "tokens_per_step": (
        rf"\bmax_num_batched_tokens\W{{1,3}}{_NUMBER}",
        rf"\bchunked_prefill_size\W{{1,3}}{_NUMBER}",
    ),
    "layers_on_gpu": (rf"offloaded {_NUMBER}/\d+ layers to GPU",),
}
"""By quantity, in the order of preference."""


def read_log(text: str) -> dict[str, int]:
    """The quantities that the log names; of several values the last counts, which is the resolved one."""
    found = {}
    for quantity, patterns in PATTERNS.items():
        for pattern in patterns:
            values = re.findall(pattern, text)
            if values:
                found[quantity] = int(values[-1].replace(",", ""))
                break
    return found


def differences(copies: Sequence[tuple[str, Mapping[str, int]]]) -> list[str]:
    """A sentence for each quantity that copies of a server resolved differently: (name, quantities) of each."""
    sentences = []
    for quantity in dict.fromkeys(key for _, resolved in copies for key in resolved):
        by_value: dict[int | None, list[str]] = {}
        for name, resolved in copies:
            by_value.setdefault(resolved.get(quantity), []).append(name)
        if len(by_value) > 1:
            parts = [
                f"{', '.join(names)}: {'unknown' if value is None else f'{value:,}'}"
                for value, names in by_value.items()
            ]
            sentences.append(f"{quantity.replace('_', ' ')} differ: {'; '.join(parts)}")
    return sentences
