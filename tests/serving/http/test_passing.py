"""What is passed to a backend, and by what its costs are foreseen."""

import asyncio
import json
from types import SimpleNamespace as Facts

import pytest

from cotenant.serving.http import passing
from cotenant.serving.http.messages import HttpRequest


@pytest.mark.parametrize(
    ("body", "letters", "tokens"),
    [
        ({"prompt": "four"}, 4, 8), ({"input": "four", "instructions": "be brief", "max_tokens": 3}, 12, 3),
        ({"prompt": None, "input": "x"}, 1, 8), ({}, 0, 8),
        ({"prompt": "x", "max_tokens": 3, "max_completion_tokens": 5}, 1, 5),
    ],
)  # fmt: skip
def test_the_letters_of_all_texts_and_the_asked_tokens_foresee_the_cost(monkeypatch, body, letters, tokens):
    async def sent(service, served, errand, wishes, **costs):
        return json.loads(errand.body), costs

    monkeypatch.setattr(passing, "_pass", sent)
    served = Facts(
        passing=Facts(entry=Facts(protocol="openai"), model="theirs"), tokens=8, signature=Facts(decodes=True)
    )
    request = HttpRequest("POST", "/v1/completions", {})
    document, costs = asyncio.run(passing.pass_openai(None, served, request, body | {"model": "ours", "priority": 1}))
    assert document == body | {"model": "theirs"}, "but for its name and its place in our order"
    assert costs == {"letters": letters, "tokens": tokens}
