"""Clients that ask without pause while nodes are lost, and keep what they were answered."""

import http.client
import itertools
import json
import select
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.support import pace

IDS = {"name": "input_ids", "datatype": "INT64", "shape": [1, 4], "data": [9, 10, 11, 12]}
PAUSE_S = 0.02
_numbers = itertools.count()


@dataclass(frozen=True)
class Answer:
    """What one request got; no status: its connection was lost before the answer."""

    tenant: str
    id: str
    status: int | None
    echoed: str | None = None
    retry_after: str | None = None


@dataclass
class Client:
    """Asks for one tenant, one request at a time on one connection: a second answer would be read as the next one's."""

    url: str
    tenant: str
    answers: list[Answer] = field(default_factory=list)
    left_over: bool = False
    """The connection held more than the answers to its requests."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self):
        self._thread = threading.Thread(target=self._ask_on, daemon=True)
        self._thread.start()
        return self

    def stop(self):
        self._stop.set()
        self._thread.join(pace.seconds(60))
        assert not self._thread.is_alive(), f"a request of {self.tenant} was never answered"

    def _ask_on(self):
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=pace.seconds(60))
        while not self._stop.is_set():
            number = f"{self.tenant}-{next(_numbers)}"
            try:
                self.answers.append(self._ask(connection, number))
            except (OSError, http.client.HTTPException):
                self.answers.append(Answer(self.tenant, number, None))
                connection.close()
                return
            time.sleep(PAUSE_S)
        self.left_over = connection.sock is not None and bool(select.select([connection.sock], [], [], 0)[0])
        connection.close()

    def _ask(self, connection, number):
        body = json.dumps({"id": number, "inputs": [IDS]}).encode()
        connection.request("POST", f"/v2/models/{self.tenant}/infer", body)
        answer = connection.getresponse()
        echoed = json.loads(answer.read()).get("id")
        return Answer(self.tenant, number, answer.status, echoed, answer.getheader("retry-after"))
