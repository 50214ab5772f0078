"""The paper's experiments, as numbers and as figures."""
