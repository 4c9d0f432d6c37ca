"""Run by test_clients where tritonclient is installed: binary tensors to a server and back; prints JSON."""

import json
import sys

import numpy as np
import tritonclient.http as triton

client = triton.InferenceServerClient(sys.argv[1].removeprefix("http://"))
pixels = triton.InferInput("pixel_values", [2, 3, 64, 64], "FP32")
pixels.set_data_from_numpy(
    np.linspace(-1, 1, 2 * 3 * 64 * 64, dtype=np.float32).reshape(2, 3, 64, 64), binary_data=True
)
wanted = triton.InferRequestedOutput("logits", binary_data=True)
answer = client.infer("conv", [pixels], outputs=[wanted], request_id="7", timeout=20_000_000, priority=1)
plain = client.infer("conv", [pixels], outputs=[triton.InferRequestedOutput("logits", binary_data=False)])
try:
    client.infer(
        "conv",
        [
            triton.InferInput("pixel_values", [1, 3, 8, 8], "FP32").set_data_from_numpy(
                np.zeros((1, 3, 8, 8), np.float32)
            )
        ],
    )
    refused = ""
except triton.InferenceServerException as error:
    refused = error.message()
sys.stdout.write(
    json.dumps(
        {
            "live": client.is_server_live(),
            "ready": client.is_model_ready("conv"),
            "extensions": client.get_server_metadata()["extensions"],
            "inputs": client.get_model_metadata("conv")["inputs"],
            "index": [one["name"] for one in client.get_model_repository_index()],
            "served": client.get_inference_statistics("conv")["model_stats"][0]["inference_count"],
            "id": answer.get_response()["id"],
            "shape": list(answer.as_numpy("logits").shape),
            "same": bool(np.allclose(answer.as_numpy("logits"), plain.as_numpy("logits"))),
            "refused": refused,
        }
    )
)
