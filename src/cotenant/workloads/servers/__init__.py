"""Servers as workloads: what people already run, under our load, and started by us where the study says how."""
