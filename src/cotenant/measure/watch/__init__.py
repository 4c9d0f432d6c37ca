"""Observe servers that already run: nothing is started, locked or sent, apart from reads of `/metrics`."""
