"""Mutated requests to a server: v2 in JSON and with raw bytes, chats, completions, embeddings, and paths.

Every answer is a status below 500 with a JSON body, and the next valid request is answered as before.
"""

import json
import random
import struct
from collections.abc import Mapping
from typing import Any

from tests.storm.mutating import HOSTILE, mutated

_IDS = {"name": "input_ids", "datatype": "INT64", "shape": [1, 3], "data": [9, 10, 11]}
_RAW = struct.pack("<3q", 9, 10, 11)
_RAW_HEAD = json.dumps(
    {
        "inputs": [
            {**{key: _IDS[key] for key in ("name", "datatype", "shape")}, "parameters": {"binary_data_size": 24}}
        ],
        "outputs": [{"name": "embedding", "parameters": {"binary_data": True}}],
    }
).encode()
_CHAT = {
    "model": "gpt",
    "messages": [{"role": "user", "content": "hi"}],
    "max_tokens": 4,
    "temperature": 0.5,
    "seed": 3,
}
_PIXELS = {"name": "pixels", "datatype": "FP32", "shape": [1, 3, 2, 2], "data": [0.5] * 12}

SOUND: tuple[tuple[str, bytes, Mapping[str, str]], ...] = (
    ("/v2/models/bert/infer", json.dumps({"id": "a", "inputs": [_IDS]}).encode(), {}),
    ("/v2/models/conv/infer", json.dumps({"inputs": [_PIXELS]}).encode(), {}),
    ("/v2/models/bert/infer", _RAW_HEAD + _RAW, {"Inference-Header-Content-Length": str(len(_RAW_HEAD))}),
    ("/v1/chat/completions", json.dumps(_CHAT).encode(), {"Content-Type": "application/json"}),
    ("/v1/chat/completions", json.dumps({**_CHAT, "stream": True, "stop": ["x", "y"]}).encode(), {}),
    ("/v1/completions", json.dumps({"model": "gpt", "prompt": ["a", [70, 71]], "max_tokens": 3}).encode(), {}),
    ("/v1/embeddings", json.dumps({"model": "bert", "input": ["a", "b"], "encoding_format": "base64"}).encode(), {}),
)
Asked = tuple[str, str, bytes, dict[str, str]]
"""Method, path, body, headers."""
IN_ONE = 12
"""Requests per server: effects of one show in the others."""
WIRES = 300
"""Connections of one attempt on the wire."""


def attack(rng: random.Random) -> list[Asked]:
    """Some requests, most of them with a damaged body."""
    made = []
    for _ in range(IN_ONE):
        path, body, headers = rng.choice(SOUND)
        changed = dict(headers)
        what = rng.random()
        if what < 0.7:
            body = mutated(body, rng)
        elif what < 0.8:
            path = mutated(path.encode(), rng).decode("utf-8", "replace")
        else:
            name = rng.choice(
                [*changed, "Inference-Header-Content-Length", "Content-Length", "Content-Type", "Authorization"]
            )
            changed[name] = rng.choice(HOSTILE).decode("latin-1")
        made.append((rng.choice(("POST",) * 9 + ("GET",)), path, body, changed))
    return made


def answered(requests: list[Asked]) -> None:
    """Send them to one server; prints what is wrong, if anything."""
    from tests.serving.http.front import run

    async def scenario(client: Any) -> list[str]:
        wrong = []
        good = await client.post(SOUND[0][0], SOUND[0][1])
        for method, path, body, headers in requests:
            sent = {name.lower(): value for name, value in headers.items()}
            answer = await client.ask(method, path, body, headers=sent, leave_after_s=5)
            if answer is None or answer.status >= 500:
                wrong.append(
                    f"{answer and answer.status} {answer and answer.body[:300]} to {path!r} {headers} {body!r}"
                )
            elif answer.status >= 400 and "error" not in json.loads(answer.body):
                wrong.append(f"{answer.status} without an error: {answer.body[:300]} to {path!r} {body!r}")
        after = await client.post(SOUND[0][0], SOUND[0][1])
        if (after.status, after.body) != (good.status, good.body):
            wrong.append(f"afterwards a valid request got {after.status} {after.body[:300]}")
        return wrong

    print("\n".join(run(scenario, head_s=1.0, body_s=1.0)))  # noqa: T201


def read_as_by_h11(seed: int) -> None:
    """Send random bytes that resemble requests to a server, and read them with h11; prints the first difference."""
    from tests.serving.http.differential import fuzz

    try:
        fuzz(seed, WIRES)
    except AssertionError as error:
        print(error)  # noqa: T201
