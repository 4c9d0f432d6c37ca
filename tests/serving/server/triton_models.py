"""A repository with the models of Triton's examples, for its Python backend."""

CONFIG = """backend: "python"
max_batch_size: 8
input [{inputs}]
output [{outputs}]
instance_group [{{ kind: KIND_CPU count: 1 }}]
"""
ADDING = """import numpy as np
import triton_python_backend_utils as backend


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            a, b = (np.from_dlpack(backend.get_input_tensor_by_name(request, name)) for name in ("INPUT0", "INPUT1"))
            made = (("OUTPUT0", a + b), ("OUTPUT1", a - b))
            tensors = [backend.Tensor.from_dlpack(name, value.__dlpack__()) for name, value in made]
            answers.append(backend.InferenceResponse(tensors))
        return answers
"""
RETURNING = """import triton_python_backend_utils as backend


class TritonPythonModel:
    def execute(self, requests):
        given = [backend.get_input_tensor_by_name(request, "INPUT0") for request in requests]
        return [backend.InferenceResponse([one]) for one in given]
"""


def write_models(folder):
    """Write them; returns their names."""

    def put(name, kind, code, inputs, outputs):
        place = folder / name / "1"
        place.mkdir(parents=True)
        (place / "model.py").write_text(code)
        tensors = {
            key: ", ".join(
                f'{{ name: "{one}" data_type: {kind} dims: [{16 if len(inputs) == 2 else -1}] }}' for one in names
            )
            for key, names in (("inputs", inputs), ("outputs", outputs))
        }
        (folder / name / "config.pbtxt").write_text(CONFIG.format(**tensors))

    both, made = ("INPUT0", "INPUT1"), ("OUTPUT0", "OUTPUT1")
    put("simple", "TYPE_INT32", ADDING, both, made)
    put("simple_int8", "TYPE_INT8", ADDING, both, made)
    put("simple_identity", "TYPE_STRING", RETURNING, ("INPUT0",), ("INPUT0",))
    return ("simple", "simple_int8", "simple_identity")
