"""Sample the next token of a request from its model's scores."""

import torch

from cotenant.serving.engines.protocol import Prompt


class Chooser:
    """Chooses the tokens of one request: the most likely, or sampled with its own generator."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self._generator = torch.Generator().manual_seed(prompt.seed) if prompt.temperature > 0 else None

    @property
    def greedy(self) -> bool:
        """Whether it always takes the most likely token."""
        return self._generator is None

    def choose(self, scores: torch.Tensor) -> int:
        """The next token; ``scores`` has one number per token of the vocabulary."""
        if self._generator is None:
            return int(scores.argmax())
        chances = torch.softmax(scores.float().cpu() / self._prompt.temperature, dim=-1)
        ordered, tokens = chances.sort(descending=True)
        before = ordered.cumsum(0) - ordered
        ordered[before >= self._prompt.top_p] = 0.0  # the most likely one always stays: nothing precedes it
        return int(tokens[torch.multinomial(ordered, 1, generator=self._generator)])
