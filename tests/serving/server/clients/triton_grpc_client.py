"""Run by test_clients where tritonclient is installed: raw tensors over gRPC; prints JSON."""

import json
import sys

import numpy as np
import tritonclient.grpc as triton

client = triton.InferenceServerClient(sys.argv[1])
values = np.linspace(-1, 1, 2 * 3 * 64 * 64, dtype=np.float32).reshape(2, 3, 64, 64)
pixels = triton.InferInput("pixel_values", [2, 3, 64, 64], "FP32").set_data_from_numpy(values)
wanted = [triton.InferRequestedOutput("logits")]
answer = client.infer("conv", [pixels], outputs=wanted, request_id="7", timeout=100_000_000, client_timeout=100)
refused = {}
for name, model, shape in (("shape", "conv", [1, 3, 8, 8]), ("model", "nothing", [1, 3, 64, 64])):
    wrong = triton.InferInput("pixel_values", shape, "FP32").set_data_from_numpy(np.zeros(shape, np.float32))
    try:
        client.infer(model, [wrong])
    except triton.InferenceServerException as error:
        refused[name] = [error.status(), error.message()]
metadata = client.get_model_metadata("conv", as_json=True)
sys.stdout.write(
    json.dumps(
        {
            "live": client.is_server_live(),
            "ready": client.is_server_ready(),
            "model_ready": client.is_model_ready("conv"),
            "name": client.get_server_metadata().name,
            "inputs": metadata["inputs"],
            "id": answer.get_response().id,
            "shape": list(answer.as_numpy("logits").shape),
            "logits": answer.as_numpy("logits").sum().item(),
            "refused": refused,
        }
    )
)
