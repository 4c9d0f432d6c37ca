"""What the OpenAPI document says of paths, models and keys."""

from types import SimpleNamespace as Facts

import pytest

from cotenant.serving.http.app import ROUTES
from cotenant.serving.http.openapi import describe

GENERATING = {"/v1/completions", "/v1/chat/completions"}
TOKENS = {"/tokenize", "/detokenize"}
TENSORS = {"/v2/models/{model}/infer"}
ASKED = GENERATING | TOKENS | TENSORS | {"/v1/embeddings", "/v1/responses"}


def served(*, protocol=None, decodes=False, embeds=False, codec=True):
    return Facts(
        name="m",
        passing=protocol and Facts(entry=Facts(protocol=protocol)),
        signature=Facts(decodes=decodes, embeds=embeds),
        codec=object() if codec else None,
    )


def model_of(operation):
    """What a request may name as its model."""
    if operation["parameters"]:
        return operation["parameters"][0]["schema"]
    return operation["requestBody"]["content"]["application/json"]["schema"]["properties"]["model"]


@pytest.mark.parametrize(
    ("model", "paths"),
    [
        (served(decodes=True), GENERATING | TOKENS | TENSORS),
        (served(decodes=True, codec=False), TENSORS),
        (served(embeds=True), {"/v1/embeddings"} | TOKENS | TENSORS),
        (served(), TOKENS | TENSORS),
        (served(protocol="v2", embeds=True, codec=False), TENSORS),
        (served(protocol="openai", decodes=True, codec=False), GENERATING | {"/v1/responses"}),
    ],
    ids=["decoder", "decoder of ids", "embedder", "classifier", "Triton's", "vLLM's"],
)
def test_a_path_lists_the_models_that_can_be_asked_there(model, paths):
    document = describe(ROUTES, (model,))
    listed = {path for path in ASKED if model_of(document["paths"][path]["post"]) == {"enum": ["m"]}}
    assert listed == paths


def test_every_operation_has_a_name_of_its_own_and_says_whether_it_needs_a_key():
    document = describe(ROUTES)
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations) == len(ROUTES)
    assert document["paths"]["/ping"].keys() == {"get", "post"}
    for method, path, needs in (("get", "/readyz", False), ("get", "/status", True), ("post", "/tokenize", True)):
        assert ("security" in document["paths"][path][method]) is needs
    assert document["paths"]["/status"]["get"]["security"] == [{}, {"key": []}], "only where there are keys"
    assert "/v2" in document["paths"]
    assert "307" in document["paths"]["/"]["get"]["responses"]
    assert {model_of(document["paths"][path]["post"])["type"] for path in ASKED} == {"string"}


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("/v2/models/{model}/infer", {"application/json", "application/octet-stream"}),
        ("/v1/chat/completions", {"application/json", "text/event-stream"}),
        ("/v1/embeddings", {"application/json"}),
    ],
)
def test_the_kinds_of_an_answer(path, kinds):
    answer = describe(ROUTES)["paths"][path]["post"]["responses"]["200"]
    assert set(answer["content"]) == kinds
