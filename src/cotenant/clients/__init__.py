"""How servers are spoken to: addresses, HTTP/1.1, server-sent events, /metrics and the bytes of gRPC messages."""
