"""Other authors' methods in the paper's table that only the table needs; the others are in `lggd.baselines`."""

from reproduction.baselines.complement_graph import Complement
from reproduction.baselines.gaug import GAugM, GAugO
from reproduction.baselines.goal import GOAL
from reproduction.baselines.mixing import GraphMix, MixUp

__all__ = ["GOAL", "Complement", "GAugM", "GAugO", "GraphMix", "MixUp"]
