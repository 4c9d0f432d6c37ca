"""Run by test_clients where openai is installed: complete answers, a stream, embeddings, an error; prints JSON."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
ask = {"model": "gpt", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 6, "temperature": 0}
whole = client.chat.completions.create(**ask)
stream = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
text = "".join(piece.choices[0].delta.content or "" for piece in stream if piece.choices)
completion = client.completions.create(model="gpt", prompt=[20, 21, 22], max_tokens=3)
vectors = client.embeddings.create(model="bert", input=["one", "two words"])
try:
    client.chat.completions.create(**{**ask, "model": "nothing"})
    refused = ""
except openai.NotFoundError as error:
    refused = error.body["message"]
sys.stdout.write(
    json.dumps(
        {
            "models": [one.id for one in client.models.list()],
            "same": text == whole.choices[0].message.content,
            "reason": whole.choices[0].finish_reason,
            "usage": whole.usage.completion_tokens,
            "stream_usage": stream[-1].usage.completion_tokens,
            "completion": completion.usage.completion_tokens,
            "vectors": [len(one.embedding) for one in vectors.data],
            "refused": refused,
        }
    )
)
