"""Is it worth it? The same few labels for LGGD, LGGD+ and three of the methods they are compared with."""

import lggd
from lggd.baselines import GDC, GPRGNN, DropEdge, Heat

short = lggd.Optimization(epochs=100)
distances = lggd.LGGD(times=(1, 4, 16), optimization=lggd.Optimization(weight_decay=0.002, epochs=60))
methods = {
    "GCN": lambda seed: lggd.LGGDClassifier(None, optimization=short, seed=seed),
    "DropEdge": lambda seed: DropEdge(p=0.3, optimization=short, seed=seed),
    "GDC, heat": lambda seed: GDC(Heat(t=3.0), k=16, optimization=short, seed=seed),
    "GPR-GNN": lambda seed: GPRGNN(optimization=short, seed=seed),
    "LGGD": lambda seed: lggd.LGGDClassifier(distances, optimization=short, seed=seed),
    "LGGD+": lambda seed: lggd.LGGDPlus(distances, members=2, optimization=short, seed=seed),
}

splits = [lggd.load("moons", labels_per_class=4, split=split) for split in range(3)]
for name, make in methods.items():
    models = lggd.fit_together([make(seed) for seed in range(3)], splits)
    scores = [100 * model.score(data) for model, data in zip(models, splits, strict=True)]
    print(f"{name:10} {sum(scores) / len(scores):5.1f} % right with four labels a moon")
