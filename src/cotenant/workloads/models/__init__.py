"""Models: the catalogue, building a model in place, serving and training."""
