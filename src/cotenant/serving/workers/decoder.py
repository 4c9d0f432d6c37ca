"""Decoders: a prefill in chunks, then tokens, step by step, alone or as a gang."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from cotenant.scheduling import RequestId
from cotenant.serving.workers.batches import Gang, Layers, layers_of
from cotenant.serving.workers.chunking import Cuts, Running
from cotenant.serving.workers.recorded import RecordedGang, RecordedSteps
from cotenant.serving.workers.work import Call, ChunkProgress, Prompt, ScoredToken, Tell


class _Generation:
    """One request: its output so far, and its cache, its own or a gang's."""

    def __init__(self, prompt: Prompt) -> None:
        self.prompt = prompt
        self.chooser = Chooser(prompt)
        self.made: list[int] = []
        self.prefill: Running | None = None
        self.cache: Layers | None = None
        self.gang: Gang | RecordedGang | None = None
        self.place = 0

    def put(self, token: int) -> bool:
        """Add a token; returns whether it was the last."""
        self.made.append(token)
        ends = token in self.prompt.stop and len(self.made) > self.prompt.min_tokens
        return ends or len(self.made) >= self.prompt.tokens

    def own_cache(self) -> Layers:
        if self.gang is not None:
            self.cache, self.gang = self.gang.member(self.place), None
        assert self.cache is not None, "a request can't decode before its prefill"
        return self.cache


class DecoderEngine:
    """A causal language model of transformers. A request's result is the list of its new tokens."""

    def __init__(self, model: nn.Module, cuts: Cuts | None = None, steps: RecordedSteps | None = None) -> None:
        self._model = model
        self._cuts = cuts
        self._steps = steps
        self._device = next(model.parameters()).device
        self.stages = cuts.chunks if cuts else 1
        self._requests: dict[RequestId, _Generation] = {}
        self._gang: Gang | RecordedGang | None = None
        self._members: tuple[RequestId, ...] = ()

    def take(self, request: RequestId, work: Call | Prompt) -> None:
        """Keep the prompt until the first chunk."""
        assert isinstance(work, Prompt)
        self._requests[request] = _Generation(work)

    def run(self, requests: Sequence[RequestId], stage: int) -> ChunkProgress:
        """Run a stage of the prefill; the last stage yields the first token."""
        progress = ChunkProgress()
        for request in requests:
            generation = self._requests.get(request)
            if generation is None:
                continue
            try:
                self._prefill(request, generation, progress, last=stage >= self.stages - 1)
            except Exception as error:  # noqa: BLE001 - it belongs to this request
                progress.failures[request] = error
                self.free(request)
        return progress

    def step(self, requests: Sequence[RequestId], steps: int, tell: Tell | None = None) -> ChunkProgress:
        """Run joint decode steps; requests that end early leave the gang with their last token."""
        progress = ChunkProgress()
        held = [request for request in requests if request in self._requests]
        heard = [request for request in held if self._requests[request].prompt.streams] if tell else []
        for done in range(steps):
            if not held:
                break
            try:
                self._form(tuple(held))
                self._one_step(held, progress)
            except Exception as error:  # noqa: BLE001 - all members share the step that failed
                for request in held:
                    progress.failures[request] = error
                    self.free(request)
                break
            if done < steps - 1:
                held = [request for request in held if request in self._requests]
                if heard and tell is not None:
                    tell(_taken_out(progress, heard))
        return progress

    def free(self, request: RequestId) -> None:
        """Forget a request. A gang keeps its row until it is reformed."""
        generation = self._requests.pop(request, None)
        if generation is not None and generation.prefill is not None:
            generation.prefill.abandon()
        if not self._requests:
            self._gang, self._members = None, ()

    def close(self) -> None:
        """Remove the cuts from the model."""
        for request in tuple(self._requests):
            self.free(request)
        if self._cuts:
            self._cuts.close()

    def _prefill(self, request: RequestId, generation: _Generation, progress: ChunkProgress, *, last: bool) -> None:
        if generation.prefill is None:
            if generation.cache is not None:  # it ended in fewer chunks than expected
                return
            generation.prefill = Running(lambda: self._read(generation.prompt))
        ended = generation.prefill.advance()
        while last and not ended:
            ended = generation.prefill.advance()
        if not ended:
            return
        generation.cache, scores = generation.prefill.result
        generation.prefill = None
        prompt, chooser = generation.prompt, generation.chooser
        token = chooser.choose(scores[-1])
        progress.tokens[request] = [token]
        if prompt.logprobs is not None:
            progress.scores[request] = chooser.score(scores, [*prompt.ids[len(prompt.ids) + 1 - len(scores) :], token])
        if generation.put(token):
            self._finish(request, generation, progress)

    def _read(self, prompt: Prompt) -> tuple[Layers, torch.Tensor]:
        from transformers import DynamicCache

        cache = DynamicCache()
        ids = torch.tensor([prompt.ids], device=self._device)
        kept = 0 if prompt.prompt_logprobs else 1  # 0: all
        result: Any = self._model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=kept)
        return layers_of(cache), result.logits[0]

    def _form(self, members: tuple[RequestId, ...]) -> None:
        """A gang of exactly these members; the last step's gang is reused if unchanged."""
        if members == self._members and self._gang is not None and not self._gang.full:
            return
        generations = [self._requests[member] for member in members]
        for request in self._members:  # all, since the old gang is dissolved: waiting members keep their caches
            if request in self._requests:
                self._requests[request].own_cache()
        caches = [generation.own_cache() for generation in generations]
        self._gang = (self._steps.gang(caches) if self._steps else None) or Gang(caches)
        self._members = members
        for place, generation in enumerate(generations):
            generation.gang, generation.place, generation.cache = self._gang, place, None

    def _one_step(self, members: Sequence[RequestId], progress: ChunkProgress) -> None:
        assert self._gang is not None
        generations = [self._requests[member] for member in members]
        scores = self._gang.step(self._model, [generation.made[-1] for generation in generations])
        plain = all(generation.chooser.plain for generation in generations)
        likeliest = scores.argmax(dim=-1).tolist() if plain else []
        for place, (request, generation) in enumerate(zip(members, generations, strict=True)):
            chooser = generation.chooser
            token = likeliest[place] if plain else chooser.choose(scores[place])
            progress.tokens.setdefault(request, []).append(token)
            if generation.prompt.logprobs is not None:
                progress.scores.setdefault(request, []).extend(chooser.score(scores[place : place + 1], [token]))
            if generation.put(token):
                self._finish(request, generation, progress)

    def _finish(self, request: RequestId, generation: _Generation, progress: ChunkProgress) -> None:
        progress.results[request] = generation.made
        self.free(request)


def _taken_out(progress: ChunkProgress, requests: Sequence[RequestId]) -> ChunkProgress:
    """The new tokens of some requests, which the progress then no longer has."""
    return ChunkProgress(
        tokens={request: made for request in requests if (made := progress.tokens.pop(request, None))},
        scores={request: scores for request in requests if (scores := progress.scores.pop(request, None))},
    )


# Choose the next token of a request from its model's scores.


class Chooser:
    """Chooses the tokens of a request: the most likely, or sampled with its own generator."""

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

    def score(self, scores: torch.Tensor, tokens: list[int]) -> list[ScoredToken]:
        """Log probabilities of tokens, a number for each row of ``scores``, and of the most likely tokens."""
        chances = scores.float().log_softmax(dim=-1)
        own = chances.gather(1, torch.tensor(tokens, device=chances.device).unsqueeze(1)).squeeze(1).tolist()
        count = min(self._prompt.logprobs or 0, chances.shape[1])
        if not count:
            return [ScoredToken(logprob) for logprob in own]
        values, likely = chances.topk(count, dim=-1)
        pairs = zip(likely.tolist(), values.tolist(), strict=True)
        return [ScoredToken(logprob, tuple(zip(*pair, strict=True))) for logprob, pair in zip(own, pairs, strict=True)]

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
        dropped[0] = False  # the most likely token always stays
        ordered[dropped] = 0.0
        return int(tokens[torch.multinomial(ordered, 1, generator=self._generator)])
