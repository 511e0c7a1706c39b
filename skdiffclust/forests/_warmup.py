"""Compile in advance the kernels that a first large fit would wait for."""

import numpy as np
from scipy.sparse import diags_array

from skdiffclust.forests._blocks import minimum_spanning_tree_by_blocks
from skdiffclust.forests._perturbed._perturbation import perturbed_forest
from skdiffclust.forests._spanning_forest import SpanningForestClustering
from skdiffclust.forests._trees import _compilation_threshold


def warmup() -> None:
    """Compile the numba kernels of the forests, once per installation.

    :class:`SpanningForestClustering` compiles nothing for up to 5000 samples without
    constraints and perturbations, where kernels that are compiled already are used all
    the same. Larger fits, those with constraints, perturbations or metric="gower", and
    the first call that samples perturbed forests compile what they need. Compiled
    kernels are stored in numba's cache on disk, from which later processes load them.
    Call this function when building a container image, or before measuring times.

    Notes
    -----
    It takes half a minute of processor time if nothing is cached, and three
    seconds if everything is. If numba has no folder that it can write its cache to, the
    compiled code is only available in the current process.

    Examples
    --------
    >>> import skdiffclust
    >>> skdiffclust.warmup()  # doctest: +SKIP
    """
    from skdiffclust.forests._trees._prim import prim_on_matrix, prim_on_points

    # So many samples that nothing runs in Python; there is one edge less.
    n_samples = _compilation_threshold.LINEAR * _compilation_threshold.SMALL + 2
    points = np.random.default_rng(0).random((n_samples, 2))
    for min_samples in (None, 2):
        forest = SpanningForestClustering(min_samples=min_samples)
        forest.fit(points, sample_weight=np.ones(n_samples))
    forest.condensed_tree()
    labels = np.append([0, 0, 1], np.full(200, -1))
    few = points[: len(labels)]
    SpanningForestClustering(algorithm="kruskal").fit(few)
    SpanningForestClustering().fit(few, partial_labels=labels)
    SpanningForestClustering().fit(few, must_link=[[0, 1]], cannot_link=[[2, 3]])
    for min_samples in (None, 2):
        SpanningForestClustering(metric="gower", min_samples=min_samples).fit(few)
    path = diags_array([np.ones(n_samples - 1)] * 2, offsets=[-1, 1]).tocsr()
    SpanningForestClustering(metric="precomputed").fit(path)
    prim_on_points(points[:2], np.arange(2))
    prim_on_matrix(np.zeros((2, 2)), np.arange(2))
    minimum_spanning_tree_by_blocks(points[:4], n_blocks=4)
    affinity = np.zeros((4, 4))
    links = np.zeros((4, 4), dtype=np.int64)
    links[0, 1] = 1
    links[1, 2] = -1
    for constraints in (None, [0, 1, 0, -1], links):
        for noise in ("normal", "gumbel"):  # the first call prunes edges
            perturbed_forest(
                affinity,
                2,
                noise=noise,
                n_perturbations=2,
                constraints=constraints,
                return_connectivity=True,
            )
