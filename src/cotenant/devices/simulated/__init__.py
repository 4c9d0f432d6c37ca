"""Simulated GPUs: real models as kernels, GPUs as data, time as arithmetic. All results are labelled simulated."""
