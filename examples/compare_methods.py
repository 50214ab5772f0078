"""Is it worth it? LGGD, LGGD+ and some baselines with the same three labels per digit."""

import lggd
from lggd.baselines import GDC, GPRGNN, DropEdge
from lggd.diffusion import Heat

data = lggd.load("digits", labels_per_class=3)
short = lggd.Optimization(epochs=60)
distances = lggd.LGGD(times=(1, 4), optimization=lggd.Optimization(weight_decay=0.002, epochs=40))
for name, model in {
    "GCN": lggd.LGGDClassifier(None, lggd.GCN(), short),
    "DropEdge": DropEdge(p=0.3, optimization=short),
    "GDC, heat": GDC(Heat(t=3.0), k=16, optimization=short),
    "GPR-GNN": GPRGNN(optimization=short),
    "LGGD": lggd.LGGDClassifier(distances, lggd.GCN(), short),
    "LGGD+": lggd.LGGDPlus(
        lggd.SelfTraining(lggd.Ensemble(distances, members=2)),
        lggd.MeanReadout((lggd.BackboneReadout(members=2, optimization=short), lggd.NearestClass())),
    ),
}.items():
    print(f"{name:10} {100 * model.fit(data).score(data):5.1f} % accuracy on the other digits")
