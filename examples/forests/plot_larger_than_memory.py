"""
=====================================
Clusters of a file larger than memory
=====================================

The samples are in a file that is only read in parts. The spanning tree is computed
block by block, and is exactly that of all samples; ``SpanningForestClustering`` then
cuts it. ClAM and the mini-batch k-means of scikit-learn stand beside it: they see one
batch at a time, and need no tree. The file here is small, but nothing below depends on
its size.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score

from skdiffclust import ClAM, SpanningForestClustering
from skdiffclust.forests import minimum_spanning_tree_by_blocks

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "samples.npy"
n_batches, n_per_batch = 10, 2000
file = np.lib.format.open_memmap(path, "w+", float, (n_batches * n_per_batch, 2))
rng = np.random.default_rng(0)
y = rng.integers(3, size=len(file))
for rows in np.split(np.arange(len(file)), n_batches):
    angle = rng.uniform(0, 2 * np.pi, n_per_batch)
    radius = np.array([0.0, 2.0, 4.0])[y[rows]]
    circles = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    file[rows] = circles + 0.2 * rng.normal(size=circles.shape)
file.flush()

# %%
# ``mmap_mode`` opens the file without reading it. An array of dask, for example of a
# zarr store (``dask.array.from_zarr``), or one of zarr itself can take its place. With
# ``n_jobs``, the blocks are distributed over processes or machines.

X = np.load(path, mmap_mode="r")
tree = minimum_spanning_tree_by_blocks(X, n_blocks=4)
forest = SpanningForestClustering("auto").fit(X, tree=tree)
print("clusters of the forest:", forest.n_clusters_)

# %%
# The others learn from batches; three clusters are given.

streams = {
    "ClAM": ClAM(3, random_state=0),
    "mini-batch k-means": MiniBatchKMeans(3, n_init=3, random_state=0),
}
for batch in np.split(X, n_batches):
    for model in streams.values():
        model.partial_fit(batch)

# %%
# Labels are predicted batch by batch as well, by any fitted estimator. With dask, this
# is ``array.map_blocks(model.predict, dtype="int64", drop_axis=1)``.

fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
ari = {}
for ax, (name, model) in zip(axes, {"forest": forest, **streams}.items(), strict=True):
    labels = np.concatenate([model.predict(batch) for batch in np.split(X, n_batches)])
    ari[name] = round(adjusted_rand_score(y, labels), 2) + 0.0
    ax.scatter(*X[::10].T, c=[f"C{label}" for label in labels[::10]], s=3)
    ax.set(title=f"{name}: ARI {ari[name]:.2f}", aspect="equal", xticks=[], yticks=[])
plt.show()

# %%
# The forest finds the rings; centres do not, however many batches they see. The tree
# costs a search for neighbours among all samples, and a batch only a step.

assert forest.n_clusters_ == 3
assert ari["forest"] > 0.99
assert max(ari["ClAM"], ari["mini-batch k-means"]) < 0.5
del X, file  # a file that is open cannot be removed everywhere
folder.cleanup()
