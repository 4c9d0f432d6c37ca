"""Ranks pretrained models by how well they suit some data: the same ranking as trying them all, sooner."""
