"""Language-model engines beside public measurements: kernels, forward passes, chat load, whole generations."""
