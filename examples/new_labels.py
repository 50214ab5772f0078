"""New labels without training: predictions are solved again as soon as more digits are labelled."""

import time

import lggd

data = lggd.load("digits", labels_per_class=2)
model = lggd.LGGDClassifier().fit(data)
print(f"{int(data.train_mask.sum())} labels: {model.score(data):.1%} accuracy on the others")

# A person labels the hundred digits that the model is least certain of. Nothing is trained again.
for _ in range(2):
    certainty = model.predict_proba().amax(1)
    certainty[model.labels_ >= 0] = 1.0
    uncertain = certainty.argsort()[:50]
    began = time.perf_counter()
    model.add_labels(uncertain, data.y[uncertain]).predict()
    took = 1000 * (time.perf_counter() - began)
    unseen = model.labels_ < 0
    print(f"{int((~unseen).sum())} labels: {model.score(data, unseen):.1%}, after {took:.0f} ms")
