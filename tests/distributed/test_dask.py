"""Trees by the workers of dask, and predictions for an array in chunks."""

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_blobs

from skdiffclust import ClAM, SpanningForestClustering, SpanningForestEmbedding
from skdiffclust.forests import minimum_spanning_tree, minimum_spanning_tree_by_blocks


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # those of dask and of its workers
def test_the_tree_of_two_processes_is_that_of_one(tmp_path):
    distributed = pytest.importorskip(
        "distributed", reason="dask.distributed is not installed."
    )
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", np.round(rng.normal(size=(2000, 3)), 2))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with (
        cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config("dask"),
    ):
        assert len({info["pid"] for info in client.run(process).values()}) == 2
        tree = minimum_spanning_tree_by_blocks(X, n_blocks=6)
    expected = minimum_spanning_tree(X)
    assert np.array_equal(tree.edges, expected.edges)
    assert np.array_equal(tree.lengths, expected.lengths)


def process():
    """Name the process."""
    import os

    return {"pid": os.getpid()}


@pytest.mark.few_epochs
def test_answers_for_an_array_in_chunks():
    da = pytest.importorskip("dask.array", reason="dask is not installed.")
    X, y = make_blobs(500, n_features=4, centers=3, random_state=0)
    chunks = da.from_array(X, chunks=(77, 4))
    for model in (ClAM(3, random_state=0), SpanningForestClustering(3)):
        model.fit(X)
        labels = chunks.map_blocks(model.predict, dtype=np.int64, drop_axis=1)
        assert np.array_equal(labels.compute(), model.labels_)
    embedding = SpanningForestEmbedding(3, n_components=2, max_iter=1, random_state=0)
    embedding.fit(X, y)
    found = chunks.map_blocks(embedding.transform, dtype=X.dtype, chunks=(77, 2))
    assert np.array_equal(found.compute(), embedding.transform(X))
