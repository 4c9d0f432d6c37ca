"""Features of the `openai` package: `openai_features.py URL`."""

import asyncio
import sys

import openai
from features import Features, expect

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
ask = {"model": "gpt", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 6, "temperature": 0}
feature = Features(f"openai {openai.__version__}")


@feature("models")
def _():
    listed = {one.id: one for one in client.models.list()}
    expect(set(listed) == {"bert", "conv", "gpt"}, listed)
    expect(listed["gpt"].created > 1.7e9 and listed["gpt"].max_model_len > 100, listed)


@feature("chat, whole and streamed alike")
def _():
    whole = client.chat.completions.create(**ask)
    stream = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    text = "".join(piece.choices[0].delta.content or "" for piece in stream if piece.choices)
    expect(text == whole.choices[0].message.content, text)
    expect(stream[-1].usage.completion_tokens == whole.usage.completion_tokens == 6, stream[-1])
    expect(len(stream) == 7, f"{len(stream)} events")


@feature("completions of texts and token ids")
def _():
    two = client.completions.create(model="gpt", prompt=["a", "b"], max_tokens=2)
    ids = client.completions.create(model="gpt", prompt=[20, 21, 22], max_tokens=3)
    expect((len(two.choices), ids.usage.completion_tokens) == (2, 3), two)


@feature("n, seed, top_k, min_p, penalties, logit_bias")
def _():
    options = {"n": 2, "seed": 7, "presence_penalty": 0.5, "frequency_penalty": 0.5, "logit_bias": {"30": 5}}
    extra = {"top_k": 5, "min_p": 0.01, "repetition_penalty": 1.1, "min_tokens": 2, "stop_token_ids": [3]}
    both = [client.chat.completions.create(**{**ask, "temperature": 1}, **options, extra_body=extra) for _ in range(2)]
    texts = [[choice.message.content for choice in one.choices] for one in both]
    expect(len(texts[0]) == 2 and texts[0] == texts[1], texts)


@feature("logprobs")
def _():
    chat = client.chat.completions.create(**ask, logprobs=True, top_logprobs=2)
    content = chat.choices[0].logprobs.content
    expect(len(content) == 6 and all(len(one.top_logprobs) == 2 and one.logprob < 0 for one in content), content)


@feature("echo with logprobs")
def _():
    one = client.completions.create(model="gpt", prompt=[20, 21, 22], max_tokens=1, echo=True, logprobs=1)
    chances = one.choices[0].logprobs.token_logprobs
    expect(len(chances) == 4 and chances[0] is None and all(value < 0 for value in chances[1:]), chances)


@feature("echo of a text, and the answer that continues it")
def _():
    text = " no  word the model knows "
    one, two = client.completions.create(model="gpt", prompt=[text, "force side"], max_tokens=2, echo=True).choices
    expect(one.text.startswith(text) and two.text.startswith("force side "), one)


@feature("stop")
def _():
    plain = client.chat.completions.create(**ask).choices[0].message.content
    stop = plain.split()[-1]
    cut = client.chat.completions.create(**ask, stop=[stop]).choices[0]
    expect(cut.finish_reason == "stop" and stop not in cut.message.content, cut)


@feature("tool calls in a history")
def _():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        *ask["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "42"},
    ]
    client.chat.completions.create(**{**ask, "messages": history})


@feature("embeddings of 2,048 texts")
def _():
    made = client.embeddings.create(model="bert", input=["text"] * 2048, dimensions=128)
    expect(len(made.data) == 2048 and len(made.data[-1].embedding) == 128, len(made.data))


@feature("errors with code and param")
def _():
    try:
        client.chat.completions.create(**{**ask, "model": "nothing"})
    except openai.NotFoundError as error:
        expect((error.code, error.param) == ("model_not_found", "model"), error.body)
    try:
        client.chat.completions.create(**{**ask, "max_tokens": 4000})
    except openai.BadRequestError as error:
        expect(error.code == "context_length_exceeded", error.body)


@feature("async")
def _():
    async def main():
        other = openai.AsyncOpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
        return [piece async for piece in await other.chat.completions.create(**ask, stream=True)]

    expect(len(asyncio.run(main())) == 6)


@feature("tools", offered=False)
def _():
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    client.chat.completions.create(**ask, tools=[tool])


@feature("JSON schemas", offered=False)
def _():
    client.chat.completions.create(**ask, response_format={"type": "json_object"})


@feature("responses", offered=False)
def _():
    client.responses.create(model="gpt", input="hello")


@feature("misspelt options", offered=False)
def _():
    client.chat.completions.create(**ask, extra_body={"temprature": 0})


feature.report()
