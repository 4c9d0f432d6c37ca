"""What carries chunks of requests out: forward passes, decoders, whole calls."""
