"""Workers: processes that hold models, the engines in them that run chunks of requests, and what passes between."""
