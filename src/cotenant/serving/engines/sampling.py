"""Choose the next token of a request from its model's scores."""

from collections import Counter

import torch

from cotenant.serving.engines.protocol import Prompt, Scored


class Chooser:
    """Chooses the tokens of one request: the most likely, or sampled with its own generator."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self._generator = torch.Generator().manual_seed(prompt.seed) if prompt.temperature > 0 else None
        self._made: Counter[int] = Counter()
        self._adjusts = bool(
            prompt.logit_bias
            or prompt.repetition_penalty != 1.0
            or prompt.presence_penalty
            or prompt.frequency_penalty
            or (prompt.min_tokens and prompt.stop)
        )

    @property
    def plain(self) -> bool:
        """Whether it always takes the most likely token, and reports nothing else."""
        return self._generator is None and not self._adjusts and self._prompt.logprobs is None

    def choose(self, scores: torch.Tensor) -> int:
        """The next token; ``scores`` has one number per token of the vocabulary."""
        token = self._sampled(self._adjusted(scores) if self._adjusts else scores)
        if self._adjusts:
            self._made[token] += 1
        return token

    def score(self, scores: torch.Tensor, tokens: list[int]) -> list[Scored]:
        """Log probabilities of tokens, one for each row of ``scores``, and of the most likely ones."""
        chances = scores.float().log_softmax(dim=-1)
        own = chances.gather(1, torch.tensor(tokens, device=chances.device).unsqueeze(1)).squeeze(1).tolist()
        count = min(self._prompt.logprobs or 0, chances.shape[1])
        if not count:
            return [Scored(one) for one in own]
        values, likely = chances.topk(count, dim=-1)
        pairs = zip(likely.tolist(), values.tolist(), strict=True)
        return [Scored(one, tuple(zip(*pair, strict=True))) for one, pair in zip(own, pairs, strict=True)]

    def _adjusted(self, scores: torch.Tensor) -> torch.Tensor:
        prompt, made = self._prompt, self._made
        scores = scores.float().cpu().clone()
        if prompt.min_tokens > made.total():
            scores[[token for token in prompt.stop if token < len(scores)]] = -torch.inf
        for token, bias in prompt.logit_bias:
            scores[token] += bias
        if prompt.repetition_penalty != 1.0:
            seen = list({*prompt.ids, *made})
            some = scores[seen]
            penalty = prompt.repetition_penalty
            scores[seen] = torch.where(some > 0, some / penalty, some * penalty)
        if made and (prompt.presence_penalty or prompt.frequency_penalty):
            counts = torch.tensor(list(made.values()), dtype=scores.dtype)
            scores[list(made)] -= prompt.presence_penalty + prompt.frequency_penalty * counts
        return scores

    def _sampled(self, scores: torch.Tensor) -> int:
        if self._generator is None:
            return int(scores.argmax())
        prompt = self._prompt
        chances = torch.softmax(scores.float().cpu() / prompt.temperature, dim=-1)
        ordered, tokens = chances.sort(descending=True)
        before = ordered.cumsum(0) - ordered
        dropped = before >= prompt.top_p
        if prompt.top_k:
            dropped[prompt.top_k :] = True
        if prompt.min_p:
            dropped |= ordered < prompt.min_p * ordered[0]
        dropped[0] = False  # the most likely one always stays
        ordered[dropped] = 0.0
        return int(tokens[torch.multinomial(ordered, 1, generator=self._generator)])
