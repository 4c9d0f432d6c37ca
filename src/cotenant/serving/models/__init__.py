"""Turn a workload of the catalogue into a model that accepts clients' tensors."""
