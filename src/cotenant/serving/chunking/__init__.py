"""Requests in chunks: forward passes that stop between layers, decoders that stop between tokens."""
