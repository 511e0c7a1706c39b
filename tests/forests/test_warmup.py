"""After warmup() no fit compiles anything."""

import os
import subprocess
import sys

import pytest

CODE = """
import numpy as np, skdiffclust, warnings
from scipy.sparse import csr_array
warnings.simplefilter("ignore")
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
model.condensed_tree(), model.n_clusters_curve_, model.outlier_scores_
for min_samples in (None, 5, 70):
    for metric in "euclidean manhattan chebyshev cosine canberra gower".split():
        skdiffclust.SpanningForestClustering(
            "auto", metric=metric, min_samples=min_samples
        ).fit(rng.random((1200, 3)), sample_weight=np.full(1200, 2.0))
X = np.repeat(rng.random((1000, 3)), 4, axis=0)
model.fit(X, partial_labels=np.r_[0, 1, np.full(3998, -1)])
model.fit(X[:400], must_link=[[0, 1], [2, 3]], cannot_link=[[0, 9], [5, 20]])
D = rng.random((3100, 3100))
model = skdiffclust.SpanningForestClustering(metric="precomputed").fit(D + D.T)
model.fit(csr_array(D[:300, :300] + D[:300, :300].T))
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
def test_nothing_is_left_to_compile(tmp_path):
    # With an empty cache, since others have stored what warmup() may have left out.
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", CODE]
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    assert run.stdout.strip() == "[]", run.stderr
