"""Handwritten digits as plain X and y with 5 labels per class; then labels for the least certain samples."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.semi_supervised import LabelSpreading

from lggd import LGGD, Optimization
from lggd.sklearn import KNNGraphClassifier

X, truth = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
first = np.concatenate([rng.choice(np.flatnonzero(truth == digit), 5, replace=False) for digit in range(10)])
y = np.full(len(truth), -1)
y[first] = truth[first]

# Fewer times and epochs than by default, to be quick.
features = LGGD(times=(1, 3, 5), optimization=Optimization(weight_decay=0.002, epochs=30))
model = KNNGraphClassifier(features=features, random_state=0).fit(X, y)
before = model.transduction_

# A person would now label the 50 unlabelled samples whose predicted class is the least probable.
certainty = np.where(y == -1, model.label_distributions_.max(axis=1), np.inf)
uncertain = certainty.argsort()[:50]
model.add_labels(uncertain, truth[uncertain])  # no training: milliseconds
more = y.copy()
more[uncertain] = truth[uncertain]

never_labelled = more == -1


def accuracy(predicted: np.ndarray) -> float:
    return (predicted == truth)[never_labelled].mean()


print(f"accuracy on the {never_labelled.sum()} samples that never get a label\n")
print("labels   KNNGraphClassifier   LabelSpreading (fitted each time)")
for labels, predicted in ((y, before), (more, model.transduction_)):
    spread = LabelSpreading(kernel="knn", n_neighbors=10, max_iter=200).fit(X, labels).transduction_
    print(f"{(labels >= 0).sum():6}{accuracy(predicted):21.1%}{accuracy(spread):17.1%}")
