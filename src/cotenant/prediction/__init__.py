"""Predictions: kernel costs, contention, power, heat and memory. Pure: values in, values out."""
