"""A small web application with a histogram of its own, as those of FastAPI or Flask have: for tests of `watch`."""

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class App(ThreadingHTTPServer):
    """Answers `/busy/SECONDS` after that time; publishes the times under `/metrics`."""

    daemon_threads = True

    def __init__(self, address, metric="http_request_duration_seconds"):
        super().__init__(address, Handler)
        self.metric, self.lock = metric, threading.Lock()
        self.reset()

    def reset(self):
        """As after a restart."""
        with self.lock:
            self.count, self.sum, self.buckets = 0, 0.0, [0] * len(BOUNDS)

    def observe(self, seconds):
        with self.lock:
            self.count += 1
            self.sum += seconds
            self.buckets = [old + (seconds <= bound) for old, bound in zip(self.buckets, BOUNDS, strict=True)]

    def page(self):
        labels = 'handler="/work"'
        with self.lock:
            lines = [f"# TYPE {self.metric} histogram"]
            for bound, count in zip((*BOUNDS, "+Inf"), (*self.buckets, self.count), strict=True):
                lines.append(f'{self.metric}_bucket{{{labels},le="{bound}"}} {count}')
            lines += [f"{self.metric}_sum{{{labels}}} {self.sum}", f"{self.metric}_count{{{labels}}} {self.count}"]
        return "\n".join(lines) + "\n"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/metrics":
            self.answer(200, self.server.page())
        elif self.path.startswith("/busy/"):
            began = time.perf_counter()
            time.sleep(float(self.path.rpartition("/")[2]))
            self.server.observe(time.perf_counter() - began)
            self.answer(200, "done\n")
        else:
            self.answer(404, "not here\n")

    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = App(("127.0.0.1", int(sys.argv[1])))
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()
