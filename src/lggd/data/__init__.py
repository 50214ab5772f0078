"""Graphs and results in files."""
