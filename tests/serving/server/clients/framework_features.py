"""Features of LiteLLM, LangChain, LlamaIndex and KServe's client: `framework_features.py URL GRPC`."""

import asyncio
import os
import sys
from importlib.metadata import version

from features import Features, expect

os.environ["OPENAI_API_KEY"] = "none"
URL, GRPC = sys.argv[1:3]
BASE = f"{URL}/v1"
HELLO = [{"role": "user", "content": "hello"}]


def litellm():
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would be fetched
    import litellm as lite

    feature = Features(f"litellm {version('litellm')}")
    ask = {"model": "openai/gpt", "api_base": BASE, "api_key": "none", "max_tokens": 6}

    @feature("chat, whole and streamed")
    def _():
        whole = lite.completion(messages=HELLO, temperature=0, **ask)
        text = "".join(
            piece.choices[0].delta.content or ""
            for piece in lite.completion(messages=HELLO, temperature=0, stream=True, **ask)
        )
        expect(text == whole.choices[0].message.content, text)

    @feature("completions")
    def _():
        expect(
            lite.text_completion(**{**ask, "model": "text-completion-openai/gpt"}, prompt="a").usage.completion_tokens
            == 6
        )

    @feature("embeddings")
    def _():
        made = lite.embedding(model="openai/bert", input=["text"] * 100, api_base=BASE, api_key="none")
        expect(len(made.data) == 100)

    @feature("options of vLLM")
    def _():
        lite.completion(messages=HELLO, top_k=3, min_p=0.1, repetition_penalty=1.1, **ask)

    feature.report()


def langchain():
    from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

    feature = Features(f"langchain-openai {version('langchain-openai')}")
    chat = ChatOpenAI(model="gpt", base_url=BASE, api_key="none", max_tokens=6, temperature=0, max_retries=0)

    @feature("chat, whole and streamed")
    def _():
        whole = chat.invoke("hello")
        expect("".join(piece.content for piece in chat.stream("hello")) == whole.content)
        expect(whole.usage_metadata["output_tokens"] == 6)

    @feature("completions")
    def _():
        OpenAI(model="gpt", base_url=BASE, api_key="none", max_tokens=3).invoke("hello")

    @feature("embeddings of 1,000 texts")
    def _():
        vectors = OpenAIEmbeddings(model="bert", base_url=BASE, api_key="none", check_embedding_ctx_length=False)
        expect(len(vectors.embed_documents(["text"] * 1000)) == 1000)

    @feature("structured output", offered=False)
    def _():
        schema = {"title": "T", "description": "d", "type": "object", "properties": {"a": {"type": "string"}}}
        chat.with_structured_output(schema, method="json_schema").invoke("hello")

    @feature("tools", offered=False)
    def _():
        def f(a: int) -> int:
            """Double it."""
            return 2 * a

        chat.bind_tools([f]).invoke("hello")

    feature.report()


def llama_index():
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.embeddings.openai import OpenAIEmbedding
    from llama_index.llms.openai_like import OpenAILike

    feature = Features(f"llama-index {version('llama-index-core')}")
    model = OpenAILike(model="gpt", api_base=BASE, api_key="none", max_tokens=6, is_chat_model=True, max_retries=0)

    @feature("chat, whole and streamed")
    def _():
        expect(model.chat([ChatMessage(role="user", content="hello")]).message.content)
        expect(list(model.stream_chat([ChatMessage(role="user", content="hello")])))

    @feature("completions")
    def _():
        plain = OpenAILike(model="gpt", api_base=BASE, api_key="none", max_tokens=6, is_chat_model=False)
        expect(plain.complete("hello").text)

    @feature("embeddings, 100 texts a request by default")
    def _():
        made = OpenAIEmbedding(model_name="bert", api_base=BASE, api_key="none")
        expect(len(made.get_text_embedding_batch(["text"] * 150)) == 150)

    feature.report()


async def kserve():
    import numpy as np
    from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
    from kserve.inference_client import RESTConfig

    feature = Features(f"kserve {version('kserve')}")
    ids = np.array([[20, 21, 22, 23]])
    outcomes = {}

    async def tried(name, trial):
        try:
            await trial
            outcomes[name] = None
        except Exception as error:  # noqa: BLE001 - its outcome
            outcomes[name] = error

    def request():
        one = InferInput("input_ids", [1, 4], "INT64")
        one.set_data_from_numpy(ids, binary_data=True)
        return InferRequest("bert", [one])

    async def rest():
        client = InferenceRESTClient(RESTConfig(protocol="v2"))
        expect(await client.is_server_live(URL) and await client.is_server_ready(URL))
        expect(await client.is_model_ready(URL, "bert"))
        answer = await client.infer(URL, request(), model_name="bert")
        expect(answer.outputs[0].shape == [1, 128], answer)

    async def grpc():
        client = InferenceGRPCClient(GRPC)
        expect(await client.is_server_live() and await client.is_server_ready())
        expect(await client.is_model_ready("bert"))
        answer = await client.infer(request())
        expect(answer.outputs[0].shape == [1, 128], answer)

    await tried("health and infer over HTTP", rest())
    await tried("health and infer over gRPC", grpc())
    for name, error in outcomes.items():

        @feature(name)
        def _(error=error):
            if error is not None:
                raise error

    feature.report()


for one in (litellm, langchain, llama_index):
    one()
asyncio.run(kserve())
