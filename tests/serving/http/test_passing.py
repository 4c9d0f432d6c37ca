"""What is passed to a backend, and by what its costs are foreseen."""

import asyncio
import json
from types import SimpleNamespace as Facts

import pytest

from cotenant.serving.http import passing
from cotenant.serving.http.messages import HttpRequest
from cotenant.serving.service import Wishes


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


@pytest.mark.parametrize(
    ("parameters", "wishes"),
    [
        ({"timeout": 20_000, "priority": 2}, Wishes(0.02, None, 2)),
        (None, Wishes()),
        ({}, Wishes()),
        ({"top_k": 5}, Wishes()),
    ],
)
@pytest.mark.parametrize("raw", [b"", b"1234"])
def test_tensors_pass_with_the_wishes_of_their_parameters(monkeypatch, parameters, wishes, raw):
    async def sent(service, served, body, header, asked):
        return body, header, asked

    monkeypatch.setattr(passing, "pass_tensors", sent)
    head = json.dumps({"inputs": [], "parameters": parameters}).encode()
    headers = {"inference-header-content-length": str(len(head))} if raw else {}
    request = HttpRequest("POST", "/v2/models/m/infer", headers, head + raw)
    assert asyncio.run(passing.pass_v2(None, None, request)) == (head + raw, len(head) if raw else None, wishes)
