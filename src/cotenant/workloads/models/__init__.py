"""Models: the catalogue, building one in place, serving and training."""
