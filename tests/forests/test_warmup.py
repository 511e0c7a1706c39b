"""After warmup() no fit compiles anything."""

import subprocess
import sys

import pytest

CODE = """
import numpy as np, skdiffclust
from numba.core import event
skdiffclust.warmup()
compiled = []
class Listener(event.Listener):
    def on_start(self, e): compiled.append(e.data["dispatcher"])
    def on_end(self, e): pass
event.register("numba:compile", Listener())
rng = np.random.default_rng(0)
model = skdiffclust.SpanningForestClustering()
model.fit(rng.random((4000, 2))), model.fit(rng.random((3500, 20)))
X = np.repeat(rng.random((1000, 3)), 4, axis=0)
model.fit(X, partial_labels=np.r_[0, 1, np.full(3998, -1)])
D = rng.random((3100, 3100))
skdiffclust.SpanningForestClustering(metric="precomputed").fit(D + D.T)
skdiffclust.SpanningForestClustering(metric="manhattan").fit(rng.random((3100, 2)))
labels, links = np.full(60, -1), np.zeros((60, 60), dtype=int)
labels[:20], links[0, 1], links[2, 3] = np.arange(20) % 3, -1, 1
for constraints in (None, labels, links):
    for noise in ("normal", "gumbel"):
        skdiffclust.forests.perturbed_forest(
            D[:60, :60] + D[:60, :60].T, 5, noise=noise, constraints=constraints,
            n_perturbations=4, return_connectivity=True, random_state=0,
        )
skdiffclust.forests.minimum_spanning_tree_by_blocks(rng.random((500, 4)), n_blocks=4)
skdiffclust.SpanningForestEmbedding(3, max_iter=2).fit(rng.random((60, 2)), labels)
print(compiled)
"""


@pytest.mark.full
def test_nothing_is_left_to_compile():
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert run.stdout.strip() == "[]", run.stderr
