"""Features of tritonclient over HTTP, gRPC and asyncio: `triton_features.py URL GRPC`."""

import asyncio
import queue
import sys
from functools import partial
from importlib.metadata import version

import numpy as np
import tritonclient.grpc as over_grpc
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as over_http
import tritonclient.http.aio as http_aio
from features import Features, expect

PIXELS = np.linspace(-1, 1, 2 * 3 * 64 * 64, dtype=np.float32).reshape(2, 3, 64, 64)
IDS = np.array([[20, 21, 22, 23]])


def tensor(package, name, values, datatype, **more):
    return package.InferInput(name, list(values.shape), datatype).set_data_from_numpy(values, **more)


def common(feature, package, client):
    """What both protocols have."""
    pixels = tensor(package, "pixel_values", PIXELS, "FP32")
    ids = tensor(package, "input_ids", IDS, "INT64")

    @feature("health and metadata")
    def _():
        expect(client.is_server_live() and client.is_server_ready() and client.is_model_ready("conv"))
        expect(not client.is_model_ready("nothing"))
        client.get_server_metadata()
        client.get_model_metadata("conv")

    @feature("configuration and statistics")
    def _():
        client.get_model_config("conv")
        client.get_inference_statistics("conv")

    @feature("repository: index, unload, load")
    def _():
        client.unload_model("conv")
        expect(not client.is_model_ready("conv"))
        client.load_model("conv")
        expect(client.is_model_ready("conv"))
        client.get_model_repository_index()

    @feature("infer, with id, priority and timeout")
    def _():
        outputs = [package.InferRequestedOutput("logits")]
        answer = client.infer("conv", [pixels], outputs=outputs, request_id="7", priority=1, timeout=20_000_000)
        again = client.infer("conv", [pixels])  # the same objects, and all outputs
        expect(np.allclose(answer.as_numpy("logits"), again.as_numpy("logits")))

    @feature("options of decoders as parameters")
    def _():
        made = client.infer("gpt", [ids], parameters={"max_tokens": 3}).as_numpy("tokens")
        expect(made.shape == (1, 3), made.shape)

    @feature("unknown parameters", offered=False)
    def _():
        client.infer("conv", [pixels], parameters={"speed": 3})

    @feature("classification", offered=False)
    def _():
        client.infer("conv", [pixels], outputs=[package.InferRequestedOutput("logits", class_count=3)])

    @feature("shared memory", offered=False)
    def _():
        shared = package.InferInput("pixel_values", [2, 3, 64, 64], "FP32")
        shared.set_shared_memory("region", PIXELS.nbytes)
        client.infer("conv", [shared])

    return pixels, ids


def http(url):
    client = over_http.InferenceServerClient(url.removeprefix("http://"), concurrency=4)
    feature = Features(f"tritonclient {version('tritonclient')} over HTTP")
    pixels, _ = common(feature, over_http, client)

    @feature("tensors in JSON")
    def _():
        plain = tensor(over_http, "pixel_values", PIXELS, "FP32", binary_data=False)
        wanted = [over_http.InferRequestedOutput("logits", binary_data=False)]
        same = client.infer("conv", [plain], outputs=wanted).as_numpy("logits")
        expect(np.allclose(same, client.infer("conv", [pixels]).as_numpy("logits"), atol=1e-5))

    @feature("several requests at once")
    def _():
        waiting = [client.async_infer("conv", [pixels]) for _ in range(4)]
        expect(all(one.get_result().as_numpy("logits").shape == (2, 100) for one in waiting))

    feature.report()


def grpc(address):
    client = over_grpc.InferenceServerClient(address)
    feature = Features(f"tritonclient {version('tritonclient')} over gRPC")
    pixels, ids = common(feature, over_grpc, client)

    @feature("several requests at once")
    def _():
        made = queue.Queue()
        for _ in range(4):
            client.async_infer("conv", [pixels], partial(lambda done, result, error: done.put((result, error)), made))
        expect(all(made.get(timeout=60)[1] is None for _ in range(4)))

    @feature("streams")
    def _():
        made = queue.Queue()
        client.start_stream(partial(lambda done, result, error: done.put((result, error)), made))
        client.async_stream_infer("gpt", [ids], request_id="1", parameters={"max_tokens": 3, "stream": True})
        client.async_stream_infer("conv", [pixels], request_id="2")
        tokens = [made.get(timeout=60) for _ in range(5)]
        client.stop_stream()
        expect(all(error is None for _, error in tokens), tokens)
        expect([one.get_response().id for one, _ in tokens] == ["1"] * 4 + ["2"])

    feature.report()


async def aio(url, address):
    feature = Features(f"tritonclient {version('tritonclient')}, asyncio")
    found = {}
    for name, package, client in (
        ("HTTP", over_http, http_aio.InferenceServerClient(url.removeprefix("http://"))),
        ("gRPC", over_grpc, grpc_aio.InferenceServerClient(address)),
    ):
        pixels = tensor(package, "pixel_values", PIXELS, "FP32")
        ids = tensor(package, "input_ids", IDS, "INT64")
        try:
            expect(await client.is_server_ready() and await client.is_model_ready("conv"))
            await client.get_model_metadata("conv")
            answers = await asyncio.gather(*(client.infer("conv", [pixels]) for _ in range(4)))
            expect(all(one.as_numpy("logits").shape == (2, 100) for one in answers))
            if name == "gRPC":

                async def requests(inputs=ids):
                    yield {"model_name": "gpt", "inputs": [inputs], "parameters": {"max_tokens": 2, "stream": True}}

                made = [one async for one in client.stream_infer(requests())]
                expect(len(made) == 3 and all(error is None for _, error in made), made)
        except Exception as error:  # noqa: BLE001 - its outcome
            found[name] = error
        await client.close()
    for name in ("HTTP", "gRPC"):

        @feature(f"health, metadata and concurrent requests over {name}")
        def _(name=name):
            if name in found:
                raise found[name]

    feature.report()


http(sys.argv[1])
grpc(sys.argv[2])
asyncio.run(aio(*sys.argv[1:3]))
