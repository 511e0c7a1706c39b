"""
====================================================
A half-life lets memories follow clusters that drift
====================================================

Samples arrive in batches of a hundred, and their three clusters move. Each batch is
predicted first, as new data, and then passed to ``partial_fit``. ClAM keeps some of the
samples: of the whole stream or, with ``half_life=200``, mostly recent ones.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import MiniBatchKMeans

from skdiffclust import ClAM, PRCut

n_batches = 40
rng = np.random.RandomState(0)


def draw(time):
    """Return 100 samples and their sources, which move along a third of a circle."""
    angle = 2 * np.pi / 3 * (np.arange(3) + time / 40)
    centers = 4 * np.column_stack([np.cos(angle), np.sin(angle)])
    source = rng.randint(3, size=100)
    return centers[source] + 0.9 * rng.randn(100, 2), source


# %%
# After the first batch, each cluster is identified with its source. A clusterer has to
# keep this correspondence: at the end, each source is where another one was at the
# beginning.

X, source = draw(0)
streams = {
    "ClAM": ClAM(3, random_state=0),
    "ClAM, half_life=200": ClAM(3, half_life=200, random_state=0),
    "PRCut": PRCut(3, encoder="mlp", random_state=0),
    "mini-batch k-means": MiniBatchKMeans(3, n_init=5, random_state=0),
}
names = {}
for name, model in streams.items():
    labels = model.partial_fit(X).predict(X)
    names[name] = np.array(
        [np.bincount(source[labels == c]).argmax() for c in range(3)]
    )

batches = [(X, source)]
accuracy = {name: [] for name in streams}
followed = streams["ClAM, half_life=200"]
track = [followed.cluster_centers_]
for time in range(1, n_batches + 1):
    X, source = draw(time)
    batches.append((X, source))
    for name, model in streams.items():
        accuracy[name].append(np.mean(names[name][model.predict(X)] == source))
        model.partial_fit(X)
    track.append(followed.cluster_centers_)

# %%
# On the left, the first batch (crosses) and the last one (dots), coloured by source,
# and the path of ClAM's memories with a half-life of two batches.

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for (X, source), marker, alpha in zip(
    batches[::n_batches], "x.", (0.35, 1), strict=True
):
    colours = [f"C{number}" for number in source]
    axes[0].scatter(*X.T, c=colours, marker=marker, s=22, alpha=alpha)
for memory in np.swapaxes(track, 0, 1):
    axes[0].plot(*memory.T, "k-", lw=1)
    axes[0].plot(*memory[-1], "k*", markersize=12)
axes[0].set(title="Memories follow the clusters", aspect="equal", xticks=[], yticks=[])
for name, scores in accuracy.items():
    axes[1].plot(np.arange(1, n_batches + 1), scores, label=name)
    print(f"{name:20s} worst batch {min(scores):.2f}")
axes[1].set(
    xlabel="batch",
    ylabel="accuracy on the next batch",
    ylim=(-0.03, 1.03),
    title="Without forgetting, clusters are lost",
)
axes[1].legend()
plt.show()

# %%
# ClAM with a half-life and the perceptron of PRCut follow the clusters. Mini-batch
# k-means and ClAM without a half-life give all batches the same weight, which suits a
# sorted stream, but not one that drifts: the samples of the whole stream lie on a ring,
# which can be divided anywhere.

assert min(min(accuracy[name]) for name in ("PRCut", "ClAM, half_life=200")) > 0.9
assert accuracy["mini-batch k-means"][-1] < 0.5
assert min(accuracy["ClAM"]) < 0.9
