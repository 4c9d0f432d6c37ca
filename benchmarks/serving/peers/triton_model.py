"""A tenant as a model of Triton's Python backend, named after the model."""

import json
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = json.loads((Path(__file__).parent / "where.json").read_text())  # triton's interpreter is a different one

import numpy as np  # noqa: E402
import triton_python_backend_utils as backend  # noqa: E402 - there inside Triton only
from tenants import load  # noqa: E402


class TritonPythonModel:
    """One instance."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the model."""
        self._request = load(args["model_name"])

    def execute(self, requests: list[Any]) -> list[Any]:
        """One answer per request."""
        answers = []
        for request in requests:
            numbers = backend.get_input_tensor_by_name(request, "numbers").as_numpy()
            made = np.array([self._request(numbers.reshape(-1).tolist())], dtype=np.float32)
            answers.append(backend.InferenceResponse(output_tensors=[backend.Tensor("made", made)]))
        return answers
