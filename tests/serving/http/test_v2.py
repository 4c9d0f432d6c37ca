"""The Open Inference Protocol over HTTP: JSON and binary, metadata, and every invalid request as one sentence."""

import json
import struct

import pytest

import cotenant
from cotenant.serving.http.v2 import EXTENSIONS
from tests.serving.http.front import run

IDS = {"name": "input_ids", "datatype": "INT64", "shape": [1, 3], "data": [9, 10, 11]}


def test_json_numbers_are_answered_with_json_numbers():
    async def scenario(client):
        return await client.post("/v2/models/bert/infer", {"id": "a7", "inputs": [IDS]})

    answer = run(scenario)
    assert answer.status == 200
    assert answer.json() == {
        "model_name": "bert",
        "model_version": "1",
        "id": "a7",
        "outputs": [{"name": "embedding", "datatype": "FP32", "shape": [1, 4], "data": [0.0] * 4}],
    }


def test_nested_lists_are_accepted_like_flat_ones():
    async def scenario(client):
        nested = {"name": "input_ids", "datatype": "INT64", "shape": [2, 2], "data": [[1, 2], [3, 4]]}
        return await client.post("/v2/models/bert/infer", {"inputs": [nested]})

    assert run(scenario).json()["outputs"][0]["shape"] == [2, 4]


def test_raw_bytes_go_both_ways():
    raw = struct.pack("<3q", 9, 10, 11)
    header = json.dumps(
        {
            "inputs": [
                {
                    "name": "input_ids",
                    "datatype": "INT64",
                    "shape": [1, 3],
                    "parameters": {"binary_data_size": len(raw)},
                }
            ],
            "outputs": [{"name": "embedding", "parameters": {"binary_data": True}}],
        }
    ).encode()

    async def scenario(client):
        sized = {"Inference-Header-Content-Length": str(len(header))}
        return await client.post("/v2/models/bert/versions/1/infer", header + raw, headers=sized)

    answer = run(scenario)
    length = int(answer.headers["inference-header-content-length"])
    head = json.loads(answer.body[:length])
    assert head["outputs"][0]["parameters"] == {"binary_data_size": 16}
    assert answer.body[length:] == bytes(16)


def test_a_decoder_generates_tokens():
    async def scenario(client):
        return await client.post("/v2/models/gpt/infer", {"inputs": [IDS]})

    assert run(scenario).json()["outputs"][0]["shape"] == [1, 8]


@pytest.mark.parametrize(
    ("parameters", "tokens"),
    [
        ({"max_tokens": 3}, 3),
        ({"max_tokens": 9, "stop": "@@"}, 2),
        ({"max_tokens": 9, "stop_token_ids": [72]}, 1),
        ({"max_tokens": 9, "stop_token_ids": 72, "min_tokens": 4}, 5),
        ({"max_tokens": 3, "temperature": 0.5, "top_k": 2, "seed": 7}, 3),
    ],
)
def test_a_decoder_takes_options_as_parameters(parameters, tokens):
    async def scenario(client):
        return await client.post("/v2/models/gpt/infer", {"inputs": [IDS], "parameters": parameters})

    assert run(scenario).json()["outputs"][0] == {
        "name": "tokens",
        "datatype": "INT64",
        "shape": [1, tokens],
        "data": [72] * tokens,
    }


@pytest.mark.parametrize(("number", "told"), [("a7", "a7"), (7, "7"), (None, None)], ids=["text", "number", "without"])
def test_ids_come_back_as_text_and_no_outputs_are_all_outputs(number, told):
    async def scenario(client):
        body = {"inputs": [IDS], "outputs": []} | ({} if number is None else {"id": number})
        return await client.post("/v2/models/bert/infer", body)

    answer = run(scenario).json()
    assert answer.get("id") == told
    assert [one["name"] for one in answer["outputs"]] == ["embedding"]


def test_configuration_is_in_tritons_form():
    async def scenario(client):
        return (await client.get("/v2/models/conv/config")).json()

    config = run(scenario)
    assert (config["name"], config["max_batch_size"]) == ("conv", 0)
    assert config["input"] == [{"name": "pixels", "data_type": "TYPE_FP32", "dims": [-1, 3, 2, 2], "optional": False}]


def test_health_has_json_bodies():
    async def scenario(client):
        paths = ("/v2/health/live", "/v2/health/ready", "/v2/models/bert/ready", "/health", "/ping")
        return [(await client.get(path)).json() for path in paths]

    ready = {"ready": True}
    assert run(scenario) == [{"live": True}, ready, {"name": "bert", "ready": True}, ready, ready]


WRONG = {
    "unknown parameter": ({"inputs": [IDS], "parameters": {"max_tokens": 3}}, "no option `max_tokens`"),
    "unknown field": ({"inputs": [IDS], "outpts": []}, "Did you mean outputs"),
    "classes": (
        {"inputs": [IDS], "outputs": [{"name": "embedding", "parameters": {"classification": 3}}]},
        "`classification` isn't supported by an output.",
    ),
    "shared memory": (
        {"inputs": [{**IDS, "parameters": {"shared_memory_region": "x"}}]},
        "`shared_memory_region` isn't supported",
    ),
    "a sequence": ({"inputs": [IDS], "parameters": {"sequence_id": 4}}, "`sequence_id` isn't supported"),
    "odd id": ({"inputs": [IDS], "id": [1]}, "`id` is a text or an integer"),
    "no JSON": (b"{", "isn't valid JSON"),
    "no object": (b"[]", "must be a JSON object"),
    "NaN": (b'{"inputs": NaN}', "NaN is not JSON"),
    "no inputs": ({}, "`inputs` must be a list"),
    "no name": ({"inputs": [{}]}, "needs a `name`"),
    "unknown input": ({"inputs": [{**IDS, "name": "input_id"}]}, "Did you mean input_ids"),
    "unknown type": ({"inputs": [{**IDS, "datatype": "INT7"}]}, "unknown datatype"),
    "other type": ({"inputs": [{**IDS, "datatype": "INT32"}]}, "must be INT64, not INT32"),
    "negative shape": ({"inputs": [{**IDS, "shape": [-1, 3]}]}, "list of sizes"),
    "other rank": ({"inputs": [{**IDS, "shape": [3]}]}, r"of shape \[-1, -1\], not \[3\]"),
    "other count": ({"inputs": [{**IDS, "shape": [1, 4]}]}, "has 3 numbers"),
    "text as numbers": ({"inputs": [{**IDS, "data": ["a", "b", "c"]}]}, "doesn't fit INT64"),
    "too large a number": ({"inputs": [{**IDS, "data": [2**70, 1, 1]}]}, "doesn't fit INT64"),
    "twice": ({"inputs": [IDS, IDS]}, "was sent twice"),
    "too long": ({"inputs": [{**IDS, "shape": [1, 65], "data": [1] * 65}]}, "at most 64 tokens, not 65"),
    "mask of another shape": (
        {"inputs": [IDS, {"name": "attention_mask", "datatype": "INT64", "shape": [1, 2], "data": [1, 1]}]},
        "attention_mask is",
    ),
    "announced bytes": ({"inputs": [{**IDS, "parameters": {"binary_data_size": 24}}]}, "needs 24 bytes"),
    "unknown output": ({"inputs": [IDS], "outputs": [{"name": "logits"}]}, "no output 'logits'"),
    "odd timeout": ({"inputs": [IDS], "parameters": {"timeout": "soon"}}, "timeout must be a time"),
    "odd parameters": ({"inputs": [IDS], "parameters": 3}, "`parameters` must be an object"),
}


@pytest.mark.parametrize(("body", "sentence"), WRONG.values(), ids=WRONG)
def test_errors_are_one_sentence(body, sentence):
    async def scenario(client):
        return await client.post("/v2/models/bert/infer", body)

    answer = run(scenario)
    assert answer.status == 400
    with pytest.raises(AssertionError, match=sentence):
        raise AssertionError(answer.json()["error"])


@pytest.mark.parametrize("length", ["-1", "x", "99999", "9" * 30])
def test_a_header_length_beyond_the_body_is_refused(length):
    async def scenario(client):
        return await client.post("/v2/models/bert/infer", b"{}", headers={"inference-header-content-length": length})

    assert run(scenario).status == 400


def test_metadata_lists_the_models():
    async def scenario(client):
        return [
            (await client.get(path)).json()
            for path in ("/v2", "/v2/models/bert", "/v2/models/conv/versions/1", "/v2/models/bert/stats")
        ]

    server, bert, conv, stats = run(scenario)
    assert server["extensions"] == list(EXTENSIONS)
    assert [one["name"] for one in bert["inputs"]] == ["input_ids", "attention_mask"]
    assert conv["inputs"][0]["shape"] == [-1, 3, 2, 2]
    assert stats["model_stats"][0]["inference_count"] == 0


def test_unknown_paths_models_versions_and_methods():
    async def scenario(client):
        return [
            (await client.ask(method, path)).status
            for method, path in (
                ("GET", "/v3"),
                ("GET", "/v2/models/none"),
                ("GET", "/v2/models/bert/versions/2"),
                ("POST", "/v2/models/bert"),
                ("POST", "/v2/models/none/infer"),
            )
        ]

    assert run(scenario) == [404, 404, 404, 405, 404]


def test_a_405_lists_the_methods_and_is_no_server_error():
    async def scenario(client):
        return await client.ask("DELETE", "/v1/models"), await client.ask("PUT", "/ping")

    models, ping = run(scenario)
    assert (models.status, models.headers["allow"]) == (405, "GET, HEAD")
    assert models.json()["error"]["type"] == "invalid_request_error"
    assert ping.headers["allow"] == "GET, HEAD, POST"


def test_the_front_page_leads_on():
    async def scenario(client):
        bare = await client.get("/")
        client.service.page = b"page"
        return bare, await client.get("/"), (await client.get("/version")).json()

    bare, page, version = run(scenario)
    assert (bare.status, bare.headers["location"]) == (307, "/v1/models")
    assert (page.status, page.headers["location"]) == (307, "/ui")
    assert version == {"version": cotenant.__version__}


def test_text_is_tokenized_and_back():
    async def scenario(client):
        text = await client.post("/tokenize", {"model": "gpt", "prompt": "ab", "return_token_strs": True})
        chat = await client.post("/tokenize", {"model": "gpt", "messages": [{"role": "user", "content": "a"}]})
        back = await client.post("/detokenize", {"model": "gpt", "tokens": text.json()["tokens"]})
        wrong = await client.post("/detokenize", {"model": "gpt", "tokens": [1000]})
        return text.json(), chat.json(), back.json(), wrong

    text, chat, back, wrong = run(scenario)
    assert text == {"count": 2, "max_model_len": 128, "tokens": [105, 106], "token_strs": ["a", "b"]}
    assert chat["count"] == len("user: a\nassistant: ")
    assert back == {"prompt": "ab"}
    assert (wrong.status, "between 0 and 999" in wrong.body.decode()) == (400, True)


@pytest.mark.parametrize(("with_tokenizer", "status"), [(("gpt",), 200), (("bert", "gpt"), 400), ((), 400)])
def test_the_model_may_be_left_out_where_only_one_has_a_tokenizer(with_tokenizer, status):
    async def scenario(client):
        for name, tenant in client.service.tenants.items():
            tenant.codec = tenant.codec if name in with_tokenizer else None
        named = await client.post("/tokenize", {"model": "conv", "prompt": "a"})
        return await client.post("/tokenize", {"prompt": "a"}), named

    answer, named = run(scenario)
    assert answer.status == status
    assert named.status == 400, "it has no tokenizer"


def test_the_description_lists_the_models_that_a_path_takes():
    async def scenario(client):
        return (await client.get("/openapi.json")).json()["paths"]

    paths = run(scenario)

    def models(path):
        body = paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        return body["properties"]["model"]["enum"]

    assert models("/v1/completions") == models("/v1/chat/completions") == ["gpt"]
    assert models("/v1/embeddings") == ["bert"]
    infer = paths["/v2/models/{model}/infer"]["post"]["parameters"][0]["schema"]
    assert infer == {"enum": ["bert", "conv", "gpt"]}


def test_an_unloaded_model_is_gone_until_it_is_loaded():
    async def scenario(client):
        states = []
        for verb in ("unload", "load"):
            await client.post(f"/v2/repository/models/bert/{verb}")
            index = (await client.post("/v2/repository/index")).json()
            answer = await client.post("/v2/models/bert/infer", {"inputs": [IDS]})
            states.append((index[0]["state"], answer.status))
        return states

    assert run(scenario) == [("UNAVAILABLE", 404), ("READY", 200)]


def test_health_follows_draining():
    async def scenario(client):
        before = [(await client.get(path)).status for path in ("/healthz", "/readyz", "/v2/health/ready")]
        drained = (await client.post("/drain")).json()
        after = [(await client.get(path)).status for path in ("/healthz", "/readyz", "/v2/models/bert/ready")]
        refused = await client.post("/v2/models/bert/infer", {"inputs": [IDS]})
        return before, drained, after, refused

    before, drained, after, refused = run(scenario)
    assert (before, drained, after) == ([200, 200, 200], {"drained": True}, [200, 503, 503])
    assert refused.status == 503
    assert "draining" in refused.json()["error"]


@pytest.mark.parametrize("announced", [16, 23, 25, 32])
def test_announced_bytes_that_the_shape_contradicts_are_refused(announced):
    async def scenario(client):
        input_ids = {"name": "input_ids", "datatype": "INT64", "shape": [1, 3]}
        head = json.dumps({"inputs": [{**input_ids, "parameters": {"binary_data_size": announced}}]}).encode()
        headers = {"inference-header-content-length": str(len(head))}
        return await client.post("/v2/models/bert/infer", head + bytes(32), headers=headers)

    answer = run(scenario)
    assert answer.status == 400
    assert f"needs 24 bytes, but {announced} were announced and 32 sent" in answer.json()["error"]


@pytest.mark.parametrize("token", [-1, 1000, 10**9])
def test_a_token_that_the_model_does_not_have_is_refused(token):
    async def scenario(client):
        return await client.post("/v2/models/bert/infer", {"inputs": [{**IDS, "data": [9, token, 11]}]})

    answer = run(scenario)
    assert answer.status == 400
    assert answer.json()["error"] == "Token ids have to lie between 0 and 999."


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"inputs": [' + b"9" * 10_000 + b"]}", "a number has too many digits"),
        ('{"inputs": []}'.encode("utf-16"), "it isn't UTF-8"),
        (b'{"inputs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "it is nested too deeply"),
        (b'{"inputs" 3}', "Expecting ':' delimiter: line 1 column 11 (char 10)"),
    ],
)
def test_what_is_wrong_with_a_body_is_said_without_words_of_python(body, reason):
    async def scenario(client):
        return await client.post("/v2/models/bert/infer", body)

    answer = run(scenario)
    assert answer.status == 400
    assert answer.json()["error"] == f"The body isn't valid JSON: {reason}."
