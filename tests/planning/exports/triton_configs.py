"""Parse config.pbtxt files as Triton's own protobuf message and print them. Runs where tritonclient is installed."""

import json
import sys
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

configs = [text_format.Parse(Path(file).read_text(), model_config_pb2.ModelConfig()) for file in sys.argv[1:]]
print(json.dumps([[one.name, one.max_batch_size, one.instance_group[0].count] for one in configs]))  # noqa: T201
