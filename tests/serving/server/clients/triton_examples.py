"""The calls of Triton's public examples, written anew: `triton_examples.py HTTP GRPC` prints the result of each.

The models are those of the examples: `simple` adds and subtracts 16 INT32, `simple_int8` INT8; `simple_identity`
returns strings, here under the name of its input.
"""

import asyncio
import json
import queue
import sys
from functools import partial

import grpc
import numpy as np
import tritonclient.grpc as over_grpc
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as over_http
import tritonclient.http.aio as http_aio
import tritonclient.utils.shared_memory as shm
from tritonclient.grpc import service_pb2, service_pb2_grpc

HTTP, GRPC = sys.argv[1:3]
A, B = np.arange(16, dtype=np.int32).reshape(1, 16), np.full((1, 16), -1, dtype=np.int32)
results = {}


def example(function):
    try:
        results[function.__name__] = function()
    except Exception as error:  # noqa: BLE001 - a result like any other
        results[function.__name__] = f"{type(error).__name__}: {error}"


def inputs(package, a=A, b=B, datatype="INT32"):
    tensors = [package.InferInput(name, list(a.shape), datatype) for name in ("INPUT0", "INPUT1")]
    for tensor, values in zip(tensors, (a, b), strict=True):
        tensor.set_data_from_numpy(values)
    return tensors


def outputs(package):
    return [package.InferRequestedOutput(name) for name in ("OUTPUT0", "OUTPUT1")]


def read(answer):
    return [np.vectorize(str)(answer.as_numpy(name)).tolist() for name in ("OUTPUT0", "OUTPUT1")]


def strings(package, client):
    text = np.array([["naïve".encode(), b"\x00\xff", b""]], dtype=np.object_)
    tensor = package.InferInput("INPUT0", [1, 3], "BYTES").set_data_from_numpy(text)
    return [one.hex() for one in client.infer("simple_identity", [tensor]).as_numpy("INPUT0")[0]]


def client_http():
    return over_http.InferenceServerClient(HTTP, concurrency=4)


def client_grpc(**more):
    return over_grpc.InferenceServerClient(GRPC, **more)


@example
def http_infer():
    return read(client_http().infer("simple", inputs(over_http), outputs=outputs(over_http), request_id="1"))


@example
def http_async_infer():
    waiting = [client_http().async_infer("simple", inputs(over_http), outputs=outputs(over_http)) for _ in range(4)]
    return [read(one.get_result()) for one in waiting]


@example
def http_aio_infer():
    async def main():
        async with http_aio.InferenceServerClient(HTTP) as client:
            return read(await client.infer("simple", inputs(over_http), outputs=outputs(over_http)))

    return asyncio.run(main())


@example
def http_health_and_metadata():
    client = client_http()
    about = client.get_model_metadata("simple")
    config = client.get_model_config("simple")
    ready = [
        client.is_server_live(),
        client.is_server_ready(),
        client.is_model_ready("simple"),
        client.is_model_ready("x"),
    ]
    return [ready, about["name"], about["inputs"], about["outputs"], config["max_batch_size"], config["input"]]


@example
def http_strings():
    plain = over_http.InferInput("INPUT0", [1, 2], "BYTES")
    plain.set_data_from_numpy(np.array([["one", "zwölf"]], dtype=np.object_), binary_data=False)
    wanted = [over_http.InferRequestedOutput("INPUT0", binary_data=False)]
    said = client_http().infer("simple_identity", [plain], outputs=wanted).as_numpy("INPUT0").tolist()
    return [strings(over_http, client_http()), str(said)]


@example
def http_reused_objects():
    client, tensors = client_http(), inputs(over_http)
    first = read(client.infer("simple", tensors, outputs=outputs(over_http)))
    tensors[0].set_data_from_numpy(B)
    return [first, read(client.infer("simple", tensors))]


def with_shared_memory(package, client):
    region = shm.create_shared_memory_region("cotenant", "/cotenant_example", 2 * A.nbytes)
    try:
        shm.set_shared_memory_region(region, [A, B])
        client.register_system_shared_memory("cotenant", "/cotenant_example", 2 * A.nbytes)
        tensors = [package.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
        for place, tensor in enumerate(tensors):
            tensor.set_shared_memory("cotenant", A.nbytes, offset=place * A.nbytes)
        return read(client.infer("simple", tensors, outputs=outputs(package)))
    finally:
        client.unregister_system_shared_memory("cotenant")
        shm.destroy_shared_memory_region(region)


@example
def http_shared_memory():
    return with_shared_memory(over_http, client_http())


@example
def grpc_infer():
    return read(client_grpc().infer("simple", inputs(over_grpc), outputs=outputs(over_grpc), request_id="1"))


@example
def grpc_async_infer():
    made = queue.Queue()
    client = client_grpc()
    for _ in range(4):
        heard = partial(lambda done, result, error: done.put((result, error)), made)
        client.async_infer("simple", inputs(over_grpc), heard)
    return [read(made.get(timeout=30)[0]) for _ in range(4)]


@example
def grpc_aio_infer():
    async def main():
        async with grpc_aio.InferenceServerClient(GRPC) as client:
            return read(await client.infer("simple", inputs(over_grpc), outputs=outputs(over_grpc)))

    return asyncio.run(main())


@example
def grpc_health_and_metadata():
    client = client_grpc()
    about = client.get_model_metadata("simple", as_json=True)
    config = client.get_model_config("simple", as_json=True)["config"]
    ready = [
        client.is_server_live(),
        client.is_server_ready(),
        client.is_model_ready("simple"),
        client.is_model_ready("x"),
    ]
    named = [[one["name"], one["data_type"], one["dims"]] for one in config["input"]]
    return [ready, about["name"], about["inputs"], about["outputs"], config["max_batch_size"], named]


@example
def grpc_keep_alive():
    options = over_grpc.KeepAliveOptions(keepalive_time_ms=2**31 - 1, keepalive_timeout_ms=20_000)
    return read(client_grpc(keepalive_options=options).infer("simple", inputs(over_grpc)))


@example
def grpc_custom_arguments():
    arguments = [("grpc.lb_policy_name", "round_robin"), ("grpc.max_receive_message_length", 2**30)]
    return read(client_grpc(channel_args=arguments).infer("simple", inputs(over_grpc)))


@example
def grpc_explicit_types():
    stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(GRPC))
    found = []
    for model, datatype, field, values in (
        ("simple", "INT32", "int_contents", ([1] * 16, [2] * 16)),
        ("simple_int8", "INT8", "int_contents", ([1] * 16, [-2] * 16)),
    ):
        request = service_pb2.ModelInferRequest(model_name=model, id="7")
        for name, some in zip(("INPUT0", "INPUT1"), values, strict=True):
            tensor = request.inputs.add(name=name, datatype=datatype, shape=[1, 16])
            getattr(tensor.contents, field).extend(some)
        answer = stub.ModelInfer(request, timeout=30)
        found.append(
            [answer.id, [one.datatype for one in answer.outputs], [b.hex() for b in answer.raw_output_contents]]
        )
    return found


@example
def grpc_strings():
    return strings(over_grpc, client_grpc())


@example
def grpc_shared_memory():
    return with_shared_memory(over_grpc, client_grpc())


sys.stdout.write(json.dumps(results))
