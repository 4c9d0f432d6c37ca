"""What runs: models, kernels, pipelines, and yours."""
