"""
===============================
Clusters that drift in a stream
===============================

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
    """Return 100 rows and their sources; the sources go round a third of a circle."""
    angle = 2 * np.pi / 3 * (np.arange(3) + time / 40)
    centers = 4 * np.column_stack([np.cos(angle), np.sin(angle)])
    source = rng.randint(3, size=100)
    return centers[source] + 0.9 * rng.randn(100, 2), source


# %%
# The first batch gives each cluster the name of its source. Names must hold from then
# on: at the end, each source is where another one was at the beginning.

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
# Left the first and the last batch, by source, and the way of ClAM's memories with a
# half-life of two batches.

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for (X, source), marker, alpha in zip(
    batches[::n_batches], "x.", (0.35, 1), strict=True
):
    colours = [f"C{number}" for number in source]
    axes[0].scatter(*X.T, c=colours, marker=marker, s=22, alpha=alpha)
for memory in np.swapaxes(track, 0, 1):
    axes[0].plot(*memory.T, "k-", lw=1)
    axes[0].plot(*memory[-1], "k*", markersize=12)
axes[0].set(
    title="crosses: first batch, dots: last", aspect="equal", xticks=[], yticks=[]
)
for name, scores in accuracy.items():
    axes[1].plot(np.arange(1, n_batches + 1), scores, label=name)
    print(f"{name:20s} last batch {scores[-1]:.2f}")
axes[1].set(
    xlabel="batch", ylabel="right before it was learned from", ylim=(-0.03, 1.03)
)
axes[1].legend()
plt.show()

# %%
# ClAM with a half-life and PRCut's perceptron follow the clusters. The running means of
# k-means and the memories of ClAM without a half-life weigh the whole past alike, which
# suits a stream that arrives sorted and not one that drifts: both fall behind.

assert min(accuracy[name][-1] for name in ("PRCut", "ClAM, half_life=200")) > 0.9
assert max(accuracy[name][-1] for name in ("ClAM", "mini-batch k-means")) < 0.5
