"""
A scikit-learn pipeline with GridSearchCV
=========================================

``KNNGraphClassifier`` is a scikit-learn estimator: it scales, searches and scores like any other. Images are projected
to fewer dimensions and joined to their nearest neighbours; cross-validation chooses both numbers (framed).
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

import lggd
from lggd.sklearn import KNNGraphClassifier

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, train_size=300, random_state=0, stratify=y)
pipeline = make_pipeline(PCA(random_state=0), KNNGraphClassifier(lggd.GGD(), random_state=0))
dimensions, neighbours = (2, 4, 8, 16, 32), (3, 5, 10, 20)
grid = {"pca__n_components": dimensions, "knngraphclassifier__n_neighbors": neighbours}
search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
print(search.best_params_, f"{search.score(X_test[:500], y_test[:500]):.1%} on 500 other images")

# %%
# Parameters are sorted by name: neighbours first, then dimensions.
accuracy = search.cv_results_["mean_test_score"].reshape(len(neighbours), len(dimensions))
figure, axes = plt.subplots(figsize=(7, 4.6), layout="constrained")
image = axes.imshow(100 * accuracy, cmap="viridis")
for (row, column), value in [(divmod(k, len(dimensions)), value) for k, value in enumerate(accuracy.flat)]:
    axes.text(column, row, f"{value:.1%}", ha="center", color="black" if value > accuracy.mean() else "white")
best = divmod(int(accuracy.argmax()), len(dimensions))
axes.add_patch(plt.Rectangle((best[1] - 0.5, best[0] - 0.5), 1, 1, fill=False, color="#D55E00", linewidth=4))
axes.set_xticks(range(len(dimensions)), dimensions)
axes.set_yticks(range(len(neighbours)), neighbours)
axes.set(xlabel="PCA: dimensions", ylabel="graph: neighbours", title="Cross-validated accuracy")
figure.colorbar(image, label="accuracy (%)", shrink=0.8)
plt.show()
