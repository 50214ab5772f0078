"""Graph diffusion: personalized PageRank and the heat kernel, and the graph of each node's strongest partners."""

from lggd.diffusion.diffusion_graph import DiffusionGraph
from lggd.diffusion.kernels import PPR, Heat

__all__ = ["PPR", "DiffusionGraph", "Heat"]
