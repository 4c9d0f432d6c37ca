"""The front end over HTTP: a strict connection, the Open Inference Protocol, OpenAI's, health, metrics."""
