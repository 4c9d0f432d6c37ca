"""Models: which there are, how one is built in place, and how it serves or trains."""
