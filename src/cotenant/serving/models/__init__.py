"""From a workload of the catalogue to something that takes clients' tensors."""
