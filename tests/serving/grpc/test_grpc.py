"""The Open Inference Protocol over gRPC: the same service as over HTTP."""

import asyncio
import re
import struct
import subprocess
import sys

import pytest

from cotenant.serving.grpc import servicer
from cotenant.serving.grpc.listener import listening
from cotenant.serving.grpc.parcels import COMPILED, SERVICE, message, methods
from cotenant.serving.http.access import new_key
from tests.serving.backends.behind import Repeater, fronting
from tests.serving.backends.behind import listening as listening_server
from tests.serving.http.front import front
from tests.support import pace

grpc = pytest.importorskip("grpc", reason="grpcio is not installed: cotenant[grpc]")
PATIENCE_S = pace.seconds(30)
IDS = struct.pack("<4q", 9, 10, 11, 12)


def run(scenario, **options):
    """Run a scenario with a function that calls a method of the service."""

    async def main():
        async with front(**options) as client, _calling(client.service) as call:
            return await scenario(client.service, call)

    return asyncio.run(asyncio.wait_for(main(), pace.seconds(60)))


class _calling:  # noqa: N801 - used like a function
    def __init__(self, service):
        self.listening = listening(service, "127.0.0.1", 0, body=1 << 20, calls=100, tls=None)

    async def __aenter__(self):
        address = await self.listening.__aenter__()
        self.channel = grpc.aio.insecure_channel(address)
        known = methods()

        async def call(which, timeout=PATIENCE_S, metadata=(), **fields):
            asked, answered = known[which]
            method = self.channel.unary_unary(
                f"/{SERVICE}/{which}",
                request_serializer=asked.SerializeToString,
                response_deserializer=answered.FromString,
            )
            return await method(asked(**fields), timeout=timeout, metadata=metadata)

        async def stream(*requests):
            asked, answered = known["ModelStreamInfer"]
            method = self.channel.stream_stream(
                f"/{SERVICE}/ModelStreamInfer",
                request_serializer=asked.SerializeToString,
                response_deserializer=answered.FromString,
            )
            return [
                one async for one in method(iter([asked(**fields) for fields in requests]), timeout=pace.seconds(30))
            ]

        call.stream = stream
        call.address = address
        return call

    async def __aexit__(self, *failure):
        await self.channel.close()
        await self.listening.__aexit__(*failure)


def ids(shape=(1, 4), datatype="INT64", name="input_ids", **more):
    return message("ModelInferRequest").InferInputTensor(name=name, datatype=datatype, shape=shape, **more)


def test_raw_tensors_go_in_and_come_out():
    async def scenario(_, call):
        fields = {"model_name": "bert", "id": "7", "inputs": [ids()], "raw_input_contents": [IDS]}
        return await call("ModelInfer", **fields)

    answer = run(scenario)
    assert (answer.model_name, answer.model_version, answer.id) == ("bert", "1", "7")
    assert [(one.name, one.datatype, list(one.shape)) for one in answer.outputs] == [("embedding", "FP32", [1, 4])]
    assert answer.raw_output_contents[0] == bytes(16)


def test_tensors_may_be_sent_as_numbers():
    async def scenario(_, call):
        contents = message("InferTensorContents")(int64_contents=[9, 10, 11, 12])
        answer = await call("ModelInfer", model_name="bert", inputs=[ids(contents=contents)])
        return answer.outputs[0].name

    assert run(scenario) == "embedding"


def test_health_and_metadata():
    async def scenario(service, call):
        service.tenants["conv"].loaded = False
        described = await call("ModelMetadata", name="bert")
        return (
            (await call("ServerLive")).live,
            (await call("ServerReady")).ready,
            (await call("ModelReady", name="bert")).ready,
            (await call("ServerMetadata")).name,
            [(one.name, list(one.shape)) for one in described.inputs],
        )

    inputs = [("input_ids", [-1, -1]), ("attention_mask", [-1, -1])]
    assert run(scenario) == (True, True, True, "cotenant", inputs)


def test_an_unknown_model_is_not_ready():
    async def scenario(_, call):
        return [(await call("ModelReady", name=name)).ready for name in ("bert", "nothing")]

    assert run(scenario) == [True, False]


def test_configuration_statistics_and_the_repository():
    async def scenario(service, call):
        await call("ModelInfer", model_name="bert", inputs=[ids()], raw_input_contents=[IDS])
        config = (await call("ModelConfig", name="conv")).config
        statistics = (await call("ModelStatistics", name="bert")).model_stats
        everything = (await call("ModelStatistics")).model_stats
        await call("RepositoryModelUnload", model_name="gpt")
        index = [(one.name, one.state) for one in (await call("RepositoryIndex")).models]
        ready = [one.name for one in (await call("RepositoryIndex", ready=True)).models]
        await call("RepositoryModelLoad", model_name="gpt")
        return config, statistics, everything, index, ready, service.tenants["gpt"].loaded

    config, statistics, everything, index, ready, loaded = run(scenario)
    assert (config.name, config.input[0].data_type, list(config.input[0].dims)) == ("conv", 11, [-1, 3, 2, 2])
    assert [one.inference_count for one in statistics] == [1]
    assert statistics[0].inference_stats.compute_infer.ns > 0
    assert [one.name for one in everything] == ["bert", "conv", "gpt"]
    assert index == [("bert", "READY"), ("conv", "READY"), ("gpt", "UNAVAILABLE")]
    assert (ready, loaded) == (["bert", "conv"], True)


def number(value):
    return message("InferParameter")(int64_param=value)


def test_a_stream_answers_in_order_and_an_error_ends_only_its_request():
    async def scenario(_, call):
        good = {"inputs": [ids()], "raw_input_contents": [IDS]}
        return await call.stream(
            {"model_name": "gpt", "id": "1", **good},
            {"model_name": "nothing", "id": "2", **good},
            {"model_name": "bert", "id": "3", **good},
        )

    answers = run(scenario)
    assert [one.infer_response.id for one in answers] == ["1", "2", "3"]
    assert [one.error_message for one in answers] == ["", "There is no model 'nothing'.", ""]
    assert list(answers[0].infer_response.outputs[0].shape) == [1, 8]


def test_a_decoder_streams_its_tokens():
    async def scenario(_, call):
        parameters = {"stream": message("InferParameter")(bool_param=True), "max_tokens": number(3)}
        good = {"model_name": "gpt", "inputs": [ids()], "raw_input_contents": [IDS], "parameters": parameters}
        return await call.stream(good)

    *tokens, last = [one.infer_response for one in run(scenario)]
    assert [struct.unpack("<q", one.raw_output_contents[0]) for one in tokens] == [(72,)] * 3
    assert [one.parameters["triton_final_response"].bool_param for one in (*tokens, last)] == [False] * 3 + [True]


def test_parameters_are_obeyed_or_refused():
    async def scenario(_, call):
        good = {"inputs": [ids()], "raw_input_contents": [IDS], "parameters": {"max_tokens": number(2)}}
        with pytest.raises(grpc.aio.AioRpcError, match="no option `max_tokens`"):
            await call("ModelInfer", model_name="bert", **good)
        return await call("ModelInfer", model_name="gpt", **good)

    assert list(run(scenario).outputs[0].shape) == [1, 2]


@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    [
        ({"model_name": "nobody", "inputs": [ids()], "raw_input_contents": [IDS]}, "NOT_FOUND", "no model 'nobody'"),
        ({"model_name": "bert", "model_version": "9"}, "NOT_FOUND", "only version 1"),
        ({"model_name": "bert"}, "INVALID_ARGUMENT", "no inputs"),
        (
            {"model_name": "bert", "inputs": [ids()], "raw_input_contents": [b"123"]},
            "INVALID_ARGUMENT",
            "needs 32",
        ),
        ({"model_name": "bert", "inputs": [ids()], "raw_input_contents": [IDS, IDS]}, "INVALID_ARGUMENT", "2 raw"),
        ({"model_name": "bert", "inputs": [ids()]}, "INVALID_ARGUMENT", "has 0 numbers"),
        ({"model_name": "bert", "inputs": [ids(datatype="FP7")]}, "INVALID_ARGUMENT", "unknown datatype"),
        ({"model_name": "bert", "inputs": [ids(shape=(1, -4))]}, "INVALID_ARGUMENT", "list of sizes"),
        ({"model_name": "bert", "inputs": [ids(datatype="FP16")]}, "INVALID_ARGUMENT", "only be sent as raw"),
        (
            {"model_name": "bert", "inputs": [ids(name="x")], "raw_input_contents": [IDS]},
            "INVALID_ARGUMENT",
            "no input 'x'",
        ),
    ],
)
def test_invalid_input_is_one_sentence(fields, code, sentence):
    async def scenario(_, call):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call("ModelInfer", **fields)
        return caught.value

    error = run(scenario)
    assert error.code() is grpc.StatusCode[code]
    assert sentence in error.details()


def test_a_refusal_states_the_retry_time():
    async def scenario(service, call):
        fields = {"model_name": "bert", "inputs": [ids()], "raw_input_contents": [IDS]}
        answers = await asyncio.gather(*(call("ModelInfer", **fields) for _ in range(40)), return_exceptions=True)
        return [one for one in answers if isinstance(one, grpc.aio.AioRpcError)]

    refused = run(scenario, slow=("bert",))
    assert refused
    assert {one.code() for one in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    trailing = dict(refused[0].trailing_metadata())
    assert int(trailing["grpc-retry-pushback-ms"]) == int(trailing["retry-after-ms"]) > 0


def test_the_clients_timeout_is_the_deadline_and_cancels_its_request():
    async def scenario(service, call):
        fields = {"model_name": "bert", "inputs": [ids()], "raw_input_contents": [IDS]}
        for _ in range(200):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call("ModelInfer", timeout=0.05, **fields)
            await asyncio.wait_for(service.conductor.drained(), pace.seconds(20))
            if why := dict(service.measures.of("bert").why):
                return caught.value.code(), why
        pytest.fail("on a busy machine a call may expire before it arrives, but not every time")

    code, why = run(scenario, slow=("bert",))
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert set(why) <= {"too large", "cancelled"}
    assert sum(why.values()) == 1


def test_keys_are_required_over_grpc_too():
    (key, hashed), (other, other_hash) = new_key(), new_key()

    async def scenario(_, call):
        async def code(metadata):
            try:
                await call("ModelMetadata", name="bert", metadata=metadata)
            except grpc.aio.AioRpcError as error:
                return error.code().name
            return "OK"

        return [
            await code(metadata)
            for metadata in ((), (("authorization", f"Bearer {other}"),), (("authorization", f"Bearer {key}"),))
        ]

    keys = {"bert": hashed, "conv": other_hash}
    assert run(scenario, keys=keys) == ["UNAUTHENTICATED", "PERMISSION_DENIED", "OK"]


def test_a_backend_gets_the_same_tensors_over_http():
    async def main():
        repeater = Repeater()
        repeater.answer = _echo(repeater.answer)
        async with listening_server(repeater.handle) as port:
            tenants = {"net": {"slo": "20s", "backend": {"v2": f"http://127.0.0.1:{port}", "model": "only"}}}
            async with fronting(tenants) as client, _calling(client.service) as call:
                inputs = [ids(name="x", datatype="FP32")]
                return await call("ModelInfer", model_name="net", inputs=inputs, raw_input_contents=[IDS[:16]])

    answer = asyncio.run(asyncio.wait_for(main(), pace.seconds(60)))
    assert answer.outputs[0].name == "x"
    assert answer.raw_output_contents[0] == IDS[:16]


BYTES = b"\x02\0\0\0ab\x01\0\0\0c"


@pytest.mark.parametrize(
    ("datatype", "contents", "raw", "expected"),
    [
        ("BYTES", {"bytes_contents": [b"ab", b"c"]}, None, BYTES),
        ("BYTES", {}, BYTES, BYTES),
        ("UINT16", {"uint_contents": [1, 65535]}, None, b"\x01\0\xff\xff"),
        ("UINT32", {}, bytes(8), bytes(8)),
        ("UINT64", {"uint64_contents": [2**64 - 1, 0]}, None, b"\xff" * 8 + bytes(8)),
        ("FP16", {}, bytes(4), bytes(4)),
    ],
)
def test_every_type_passes_to_a_backend_with_its_parameters(datatype, contents, raw, expected):
    async def main():
        repeater = Repeater()
        repeater.answer = _echo(repeater.answer)
        async with listening_server(repeater.handle) as port:
            backend = {"v2": f"http://127.0.0.1:{port}", "model": "only", "cost": "10ms"}
            tenants = {"net": {"slo": "20s", "backend": backend}}
            async with fronting(tenants) as client, _calling(client.service) as call:
                tensor = ids((2,), datatype, "x", contents=message("InferTensorContents")(**contents))
                fields = {"inputs": [tensor], "raw_input_contents": [] if raw is None else [raw]}
                own = {"custom": number(5)}
                answer = await call("ModelInfer", model_name="net", id="7", parameters=own, **fields)
                return answer, repeater.got[-1]

    answer, (path, _, body) = asyncio.run(asyncio.wait_for(main(), pace.seconds(60)))
    assert (answer.id, answer.outputs[0].datatype, answer.raw_output_contents[0]) == ("7", datatype, expected)
    assert path == "/v2/models/only/infer"
    assert b'"custom":5' in body


def _echo(answer):
    """Return inputs as outputs."""

    def echoing(method, path, headers, body):
        status, given, kept = answer(method, path, headers, body)
        if path.endswith("/infer"):
            given = given.replace(b'"inputs"', b'"outputs"')
            size = int(headers["inference-header-content-length"]) + 1
            kept["inference-header-content-length"] = str(size)
        return status, given, kept

    return echoing


def test_the_compiled_descriptor_matches_the_proto():
    """Without protoc: the descriptor has exactly the fields and methods of the text."""
    text = COMPILED.with_suffix(".proto").read_text()
    written = re.findall(
        r"^\s*(?:message \w+ \{ )?(?:repeated )?(?:map<[^>]*>|[\w.]+) (\w+) = (\d+);", text, re.MULTILINE
    )
    known = []

    def gather(descriptor):
        known.extend((field.name, str(field.number)) for field in descriptor.fields)
        for nested in descriptor.nested_types:
            if not nested.GetOptions().map_entry:
                gather(nested)

    for name in re.findall(r"^message (\w+)", text, re.MULTILINE):
        gather(message(name).DESCRIPTOR)
    assert sorted(written) == sorted(known)
    assert sorted(re.findall(r"rpc (\w+)", text)) == sorted(methods())


def test_bytes_that_are_no_message_are_an_invalid_argument_without_names_of_python():
    async def scenario(_, call):
        errors = []
        async with grpc.aio.insecure_channel(call.address) as channel:
            for method in ("ModelInfer", "ServerReady"):
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await channel.unary_unary(f"/{SERVICE}/{method}")(b"\xff\xff\xff rubbish", timeout=pace.seconds(30))
                errors.append(raised.value)
            stream = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")(
                iter([b"\xff\xff rubbish"]), timeout=pace.seconds(30)
            )
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await stream.read()
            errors.append(raised.value)
        return errors

    for error in run(scenario):
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "This is not a " in error.details()
        assert "class" not in error.details()


def test_a_request_that_the_server_gives_up_is_unavailable():
    async def scenario(service, call):
        fields = {"model_name": "bert", "inputs": [ids()], "raw_input_contents": [IDS]}
        asked = asyncio.ensure_future(call("ModelInfer", **fields))
        while not service.in_flight:
            await asyncio.sleep(0.005)
        service.conductor.close()
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await asked
        return raised.value

    error = run(scenario, slow=("bert",))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "class" not in error.details()


@pytest.mark.parametrize("method", ["ModelConfig", "ModelStreamInfer"])
def test_a_mistake_of_ours_is_internal_and_names_nothing_of_python(monkeypatch, method):
    def mistaken(*_):
        raise LookupError("a secret")

    monkeypatch.setattr(servicer, "config_of", mistaken)
    monkeypatch.setattr(servicer.Servicer, "streams", lambda _: {"ModelStreamInfer": mistaken})

    async def scenario(_, call):
        asked = call(method, name="bert") if method == "ModelConfig" else call.stream({"model_name": "bert"})
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await asked
        return raised.value

    error = run(scenario)
    assert error.code() is grpc.StatusCode.INTERNAL
    assert not re.search("Error|class|secret|Traceback", error.details())


def test_a_method_that_is_not_offered_is_unimplemented():
    async def scenario(_, call):
        async with grpc.aio.insecure_channel(call.address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await channel.unary_unary(f"/{SERVICE}/Nothing")(b"", timeout=PATIENCE_S)
        return raised.value.code()

    assert run(scenario) is grpc.StatusCode.UNIMPLEMENTED


RUBBISH = """
import asyncio
from cotenant.serving.grpc.listener import listening

def frame(kind, flags, stream, body):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body

async def main():
    async with listening(None, "127.0.0.1", 0, body=1, calls=1, tls=None) as address:
        reader, writer = await asyncio.open_connection(*address.split(":"))
        status = bytes([0, 7]) + b":status" + bytes([3]) + b"abc"
        writer.write(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + frame(4, 0, 0, b"") + frame(1, 4, 1, status))
        writer.write(frame(6, 0, 0, b"answered"))
        await reader.readuntil(b"answered")
        writer.close()

asyncio.run(main())
"""


def test_what_a_client_sends_writes_nothing_to_stderr():
    done = subprocess.run(
        [sys.executable, "-c", RUBBISH], capture_output=True, text=True, timeout=pace.seconds(60), check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
