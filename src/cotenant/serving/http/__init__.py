"""The front end over HTTP: the Open Inference Protocol, OpenAI's, health, metrics. A bare ASGI application."""
