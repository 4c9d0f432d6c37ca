"""Engines that execute chunks of requests: forward passes, decoders, plain calls."""
