"""Datasets by name, splits, and graphs and results in files."""
