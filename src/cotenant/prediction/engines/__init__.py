"""Engines for language models: many requests in steps, with continuous batching and a cache of limited size."""
