"""Datasets by name, and PyG data from files."""
