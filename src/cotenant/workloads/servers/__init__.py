"""Servers as workloads: existing ones under our load, started by us where the study says how."""
