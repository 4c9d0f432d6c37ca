"""A server whose limit, cache and starts are scripted; it waits instead of computing, so its rate is known."""

import argparse
import fcntl
import http.server
import os
import signal
import socket
import socketserver
import sys
import threading
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--ms", type=float, default=20, help="what a request takes")
parser.add_argument("--limit", choices=["thread", "device", "none"], default="thread",
                    help="requests wait for each other within a server, within all of them, or not at all")  # fmt: skip
parser.add_argument("--state", type=Path, help="a folder that all copies share")
parser.add_argument("--dies-every", type=int, default=0, help="every so many starts fail")
parser.add_argument("--room", type=int, default=0, help="copies that fit; a further one runs out of memory")
parser.add_argument("--halves", action="store_true", help="each further copy gets half the cache")
parser.add_argument("--forks", action="store_true", help="serve in the background, and return")
parser.add_argument("--locks", action="store_true", help="need a lock file that copies share")
parser.add_argument("--second-port", type=int, default=0, help="a port that isn't of the copy's own")
parser.add_argument("--stubborn", action="store_true", help="ignore SIGTERM")
given = parser.parse_args()


def counted(name):
    """One more than the last time, over all copies."""
    path = given.state / name
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = int(file.read() or 0) + 1
        file.truncate(0)
        file.write(str(number))
    return number


def alive():
    """Copies that run, this one included."""
    mine = given.state / f"pid-{os.getpid()}"
    mine.touch()
    return sum(Path(f"/proc/{path.name[4:]}").exists() for path in given.state.glob("pid-*"))


if given.dies_every and counted("starts") % given.dies_every == 0:
    sys.exit("no luck today")
running = alive() if given.state else 1
if given.room and running > given.room:
    sys.exit("torch.OutOfMemoryError: out of memory")
if given.forks and os.fork():
    sys.exit(0)
if given.locks:
    held = (given.state / "lock").open("w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("the cache folder is locked by another process")
if given.second_port:
    second = socket.create_server(("127.0.0.1", given.second_port))
if given.stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
blocks = 4096 // running if given.halves else 4096
within = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if given.limit == "none":
            time.sleep(given.ms / 1e3)
        elif given.limit == "thread":
            with within:
                time.sleep(given.ms / 1e3)
        else:
            with within, (given.state / "device").open("a") as device:
                fcntl.flock(device, fcntl.LOCK_EX)
                time.sleep(given.ms / 1e3)
        self.answer(b"done\n")

    def do_GET(self):
        self.answer(f'vllm:cache_config_info{{num_gpu_blocks="{blocks}"}} 1\n'.encode())

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 1024


Server(("127.0.0.1", given.port), Handler).serve_forever()
