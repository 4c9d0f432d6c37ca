"""Workers: processes that hold models, the engines in them that run chunks of requests, and what passes between."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.serving.workers.supervisor import parts_of
else:
    __getattr__, __dir__ = front(__name__, __file__)
