"""Clusterers in the packages that they plug into; each test needs its package.

``.ci/full`` installs the extra ``integrations`` in an environment of its own and runs
them there.
"""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from skdiffclust import GEMINI, ClAM, GraphCutClustering, SpanningForestClustering
from skdiffclust.forests import minimum_spanning_tree_by_blocks

pytestmark = pytest.mark.full

DOCUMENTS = [
    f"{subject} {verb} number {i}"
    for subject, verb in [
        ("cats and dogs", "sleep in the garden"),
        ("stars and planets", "shine at night"),
        ("trains and buses", "stop in the station"),
    ]
    for i in range(20)
]
TOPICS = np.repeat([0, 1, 2], 20)


def same_partition(labels, other):
    """Whether two labellings are equal up to the names of the clusters."""
    pairs = set(zip(labels, other, strict=True))
    return len(pairs) == len(set(labels)) == len(set(other))


def blobs(sizes):
    """Return separated groups of the given sizes, one after the other."""
    return make_blobs(sizes, 8, cluster_std=0.5, shuffle=False, random_state=0)[0]


@pytest.mark.filterwarnings("ignore")  # those of BERTopic
@pytest.mark.parametrize(
    "clusterer",
    [
        SpanningForestClustering("auto"),
        ClAM(3, random_state=0),
        GEMINI(3, random_state=0),
        GraphCutClustering(3, random_state=0),
    ],
    ids=lambda clusterer: type(clusterer).__name__,
)
def test_topics_of_bertopic(clusterer, monkeypatch):
    """The clusterer stands in for HDBSCAN, and no document is left as noise."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no network
    bertopic = pytest.importorskip("bertopic")
    from bertopic.dimensionality import BaseDimensionalityReduction

    embeddings = blobs([20, 20, 20])
    model = bertopic.BERTopic(
        embedding_model=None,
        umap_model=BaseDimensionalityReduction(),
        hdbscan_model=clusterer,
    )
    topics, probabilities = model.fit_transform(DOCUMENTS, embeddings)
    if hasattr(clusterer, "predict_proba"):
        found = clusterer.predict_proba(embeddings).max(axis=1)
        np.testing.assert_allclose(probabilities, found, rtol=1e-6)
    else:
        assert probabilities is None
    assert same_partition(topics, TOPICS)
    assert min(topics) == 0
    predicted, _ = model.transform(DOCUMENTS[::7], embeddings[::7])
    np.testing.assert_array_equal(predicted, np.array(topics)[::7])
    words = {word for topic in range(3) for word, _ in model.get_topic(topic)}
    assert {"cats", "stars", "trains"} <= words


@pytest.mark.filterwarnings("ignore")  # those of toponymy
def test_layers_of_toponymy(monkeypatch):
    """The layers of topics are the cuts of one tree, which are nested."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no network
    clustering = pytest.importorskip("toponymy.clustering")
    from toponymy.cluster_layer import ClusterLayerText

    X = blobs([20] * 12)
    forest = SpanningForestClustering(12).fit(X)
    cuts = [forest.cut(n_clusters) for n_clusters in (12, 6, 3)]
    tree = clustering.build_cluster_tree(cuts)
    layers = [
        ClusterLayerText(cut, clustering.centroids_from_labels(cut, X), layer_id=i)
        for i, cut in enumerate(cuts)
    ]
    assert [len(layer.centroid_vectors) for layer in layers] == [12, 6, 3]
    children = [child for below in tree.values() for child in below]
    assert {child for child in children if child[0] == 0} == {(0, i) for i in range(12)}
    assert len(children) == len(set(children))


@pytest.mark.filterwarnings("ignore")  # those of scanpy
@pytest.mark.parametrize("key", ["connectivities", "distances"])
def test_graph_of_scanpy(key):
    """Connectivities are affinities; distances are a graph for spanning forests."""
    scanpy = pytest.importorskip("scanpy")
    anndata = pytest.importorskip("anndata")

    X, y = make_blobs([80, 50, 30], 10, random_state=1)
    cells = anndata.AnnData(X.astype(np.float32))
    scanpy.pp.neighbors(cells, n_neighbors=15, use_rep="X")
    graph = cells.obsp[key]
    if key == "connectivities":
        model = GraphCutClustering(3, affinity="precomputed", random_state=0)
    else:
        graph = graph.maximum(graph.T)
        model = SpanningForestClustering(3, metric="precomputed")
    labels = model.fit_predict(graph)
    assert same_partition(labels, y)


@pytest.mark.filterwarnings("ignore")  # those of scanpy
def test_cells_of_anndata():
    """Principal components in, labels of known and of new cells out."""
    scanpy = pytest.importorskip("scanpy")
    anndata = pytest.importorskip("anndata")
    pandas = pytest.importorskip("pandas")

    X, y = make_blobs([80, 50, 30], 40, random_state=1)
    cells = anndata.AnnData(X.astype(np.float32))
    scanpy.pp.pca(cells, n_comps=10)
    cells.obs["type"] = pandas.Categorical(y)
    known, new = cells[::2].copy(), cells[1::2].copy()
    scanpy.pp.neighbors(known, n_neighbors=15, use_rep="X_pca")
    cut = GraphCutClustering("auto", random_state=0).fit(known.obsm["X_pca"])
    known.obs["clusters"] = pandas.Categorical(cut.labels_)
    new.obs["clusters"] = pandas.Categorical(cut.predict(new.obsm["X_pca"]))
    of_graph = GraphCutClustering("auto", affinity="precomputed", random_state=0)
    by_graph = of_graph.fit_predict(known.obsp["connectivities"])
    assert same_partition(known.obs["clusters"], known.obs["type"])
    assert same_partition(new.obs["clusters"], new.obs["type"])
    assert same_partition(by_graph, known.obs["type"])


@pytest.mark.filterwarnings("ignore")  # those of zarr
def test_trees_of_samples_in_zarr(tmp_path):
    """Blocks are read from zarr by dask; the tree is that of the array in memory."""
    zarr = pytest.importorskip("zarr")
    dask_array = pytest.importorskip("dask.array")

    X = blobs([150, 100, 50])
    stored = zarr.create_array(
        tmp_path / "X", shape=X.shape, dtype=X.dtype, chunks=(100, 8)
    )
    stored[:] = X
    chunks = dask_array.from_zarr(stored)
    tree = minimum_spanning_tree_by_blocks(chunks, n_blocks=3)
    in_memory = minimum_spanning_tree_by_blocks(X, n_blocks=3)
    np.testing.assert_array_equal(tree.edges, in_memory.edges)
    labels = SpanningForestClustering(3).fit(X, tree=tree).labels_
    np.testing.assert_array_equal(labels, np.repeat([0, 1, 2], [150, 100, 50]))
