"""GPUs that aren't here: real models as kernels, GPUs as data, time as arithmetic. Everything is labelled simulated."""
