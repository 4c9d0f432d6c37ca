"""The front end over HTTP: a strict connection, the Open Inference Protocol, OpenAI's, health, metrics."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.serving.http.access import (
        is_of_another_site,
        name_of,
        new_key,
        opens,
        presented,
        refuse_foreign_pages,
    )
    from cotenant.serving.http.app import Application
    from cotenant.serving.http.listener import listener_at, listening, tls_of
    from cotenant.serving.http.messages import (
        Answer,
        HttpLimits,
        HttpRequest,
        Reply,
        Responder,
        Status,
        in_json,
        read_json,
        status_of,
    )
    from cotenant.serving.http.passing import relay
else:
    __getattr__, __dir__ = front(__name__, __file__)
