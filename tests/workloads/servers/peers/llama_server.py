"""`llama_server.py MODEL PORT`: llama.cpp's own server, from the wheel xllamacpp."""

import signal
import sys
import threading

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path, params.hostnames, params.port = sys.argv[1], ["127.0.0.1"], int(sys.argv[2])
params.n_ctx, params.n_parallel, params.endpoint_metrics = 2048, 2, True
params.cpuparams.n_threads = 1
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
server = xllamacpp.Server(params)
over.wait()
