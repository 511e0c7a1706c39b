"""What each estimator is crossed with: a line for each parameter and its levels.

The containers, types, weights, labels, links and checkpoints that every `fit` may get
are added by ``test_crossings.py``, as far as the estimator's `fit` takes them.
"""

from typing import NamedTuple

import numpy as np

from skdiffclust import (
    GEMINI,
    AssociativeImputer,
    ClAM,
    DeepClAM,
    GraphCutClustering,
    PRCut,
    SpanningForestClustering,
    SpanningForestEmbedding,
    SparseGEMINI,
    SparseGEMINICV,
)


class Crossed(NamedTuple):
    """An estimator and what it is crossed with.

    Attributes
    ----------
    estimator : estimator
        With settings for few samples and few iterations.
    levels : dict of str to tuple
        Values of each parameter. Other factors may be restricted by their name, too.
    refused : tuple of (dict, str)
        Levels that do not go together, and the message (a regular expression).
    repeats : bool
        Whether a weight of two is a sample repeated.
    links_are_met : bool
        Whether links are met always. Where they are a penalty, a warning names those
        that are not.
    """

    estimator: object
    levels: dict
    refused: tuple = ()
    repeats: bool = True
    links_are_met: bool = True


SPARSE = "csr_array", "csc_array", "coo_array", "csr_matrix", "csr_array 64-bit"
DENSE = "array", "Fortran", "memory map", "frame", "list"
KNOWN = "all", "integers", "strings"
LINKS = "must pairs", "must groups", "must incidence", "cannot pairs", "both"
KERNELS = "linear", "cosine", "rbf", "laplacian", "poly", "sigmoid"
KERNELS += "chi2", "additive_chi2"
OBJECTIVES = "mmd", "wasserstein", "kl", "chi2", "hellinger", "tv"


def each(factor, levels, message, **others):
    """Return a refusal for each level of a factor."""
    return tuple(({factor: level, **others}, message) for level in levels)


def between(one, levels, other, more, message):
    """Return a refusal for each pair of levels of two factors."""
    return tuple(({one: a, other: b}, message) for a in levels for b in more)


GEMINI_LEVELS = {
    "objective": OBJECTIVES,
    "mode": ("auto", "ova", "ovo"),
    "kernel": KERNELS,
    "metric": ("euclidean", "cosine", "manhattan"),
    "batch_size": (None, 16),
}
PATH_LEVELS = {
    **GEMINI_LEVELS,
    "model": ("linear", "mlp"),
    "groups": (None, (0, 0, 1, 1, 2)),
}
# Fits that choose a number, or a penalty, are hundreds: few levels, and no objective
# that solves linear programs.
FEW = "array", "coo_array"
CHOICE_LEVELS = {
    "objective": ("mmd", "tv"),
    "kernel": ("linear", "chi2"),
    "fitted on": FEW,
    "asked about": FEW,
    "labels": (None, "all"),
    "links": (None, "both"),
    "read-only": (False, True),
    "type": ("float64", "float32"),
}
# Parameters of the estimator in SparseGEMINICV.
WRAPPED = {name: f"estimator__{name}" for name in ("objective", "kernel", "model")}
DENSE_KERNELS = tuple(
    ({form: container, "kernel": kernel, "objective": "mmd", **model}, "support sparse")
    for form, models in {
        "fitted on": [{}],
        # A free model has no score.
        "asked about": [{"model": "linear"}, {"model": "mlp"}],
    }.items()
    for model in models
    for container in SPARSE
    for kernel in ("chi2", "additive_chi2")
)
DENSE_GRAPHS = tuple(
    case
    for form in ("fitted on", "asked about")
    for case in between(form, SPARSE, "affinity", ("rbf", "cosine"), "for sparse X")
)
CROSSED = {
    "SpanningForestClustering": Crossed(
        SpanningForestClustering(),
        {
            "n_clusters": (3, "auto"),
            "metric": ("euclidean", "cosine", "manhattan", "chebyshev"),
            "cut_rule": ("size_weighted", "longest"),
            "min_cluster_size": (1, 4),
            "min_samples": (None, 3),
            "n_perturbations": (0, 5),
            "algorithm": ("auto", "prim", "boruvka", "kruskal"),
            "n_jobs": (None, 2),
        },
        between("fitted on", SPARSE, "metric", ("manhattan", "chebyshev"), "dense data")
        + between(
            "asked about", SPARSE, "metric", ("manhattan", "chebyshev"), "dense data"
        )
        + between(
            "n_perturbations", (5,), "labels", KNOWN, "must be 0 with constraints"
        )
        + between(
            "n_perturbations", (5,), "links", LINKS, "must be 0 with constraints"
        ),
    ),
    "SpanningForestEmbedding": Crossed(
        SpanningForestEmbedding(n_components=2, max_iter=2, n_perturbations=4),
        {
            "n_clusters": (3, "auto"),
            "encoder": ("linear", "mlp"),
            "init": ("auto", "lda", "pca", "random"),
            "affinity": ("sqeuclidean", "cosine"),
            "n_neighbors": (3, None),
            "batch_size": (64, 16),
        },
        between("labels", KNOWN, "links", LINKS, "Got both")
        + between("n_clusters", ("auto",), "labels", KNOWN[1:], "must be an integer")
        + between(
            "n_clusters", ("auto",), "links", LINKS, "must be an integer|Got both"
        )
        + (({"n_clusters": "auto", "labels": None}, "must be an integer|requires y"),)
        + (({"labels": None, "links": None}, "requires y"),),
    ),
    "ClAM": Crossed(
        ClAM(max_iter=3, n_init=2),
        {
            "n_clusters": (3, "auto"),
            "checkpoint": (None,),
            "metric": ("euclidean", "cosine", "manhattan"),
            "mask_value": ("mean", "min", "max"),
            "self_supervised": (True, False),
            "weighted": (False, True),
            "init": ("k-means++", "random"),
            "batch_size": (1024, 16),
        },
        between("fitted on", SPARSE, "metric", ("manhattan",), "dense data")
        + between("asked about", SPARSE, "metric", ("manhattan",), "dense data")
        + (({"weighted": True, "metric": "manhattan"}, "must be False or an array"),),
        repeats=False,
    ),
    "DeepClAM": Crossed(
        DeepClAM(max_iter=3, n_init=2),
        {
            "n_clusters": (3, "auto"),
            "mask_probability": (0.15, 0.0),
            "inverse_temperature": ("auto", 1.0),
            "batch_size": (1024, 16),
        },
        repeats=False,
    ),
    "GraphCutClustering": Crossed(
        GraphCutClustering(n_neighbors=5, n_init=2),
        {
            "n_clusters": (3, "auto"),
            "affinity": ("ranked_neighbors", "nearest_neighbors", "rbf", "cosine"),
            "metric": ("euclidean", "cosine"),
            "cut": ("normalized", "ratio"),
            "min_cluster_size": ("auto", 5),
            "max_imbalance": (None, 0.5),
            "small_components": ("place", "noise"),
            "init": ("multilevel", "spectral"),
        },
        DENSE_GRAPHS,
        repeats=False,
    ),
    "PRCut": Crossed(
        PRCut(n_neighbors=5, max_iter=3, hidden_layer_sizes=8, n_init=1),
        {
            "n_clusters": (3, "auto"),
            "affinity": ("ranked_neighbors", "nearest_neighbors", "rbf", "cosine"),
            "metric": ("euclidean", "cosine"),
            "cut": ("normalized", "ratio"),
            "objective": ("exact", "bound"),
            "encoder": ("mlp", "linear"),
            "init": (None, "random"),
            "batch_size": (256, 16),
        },
        DENSE_GRAPHS
        + between("init", ("random",), "links", LINKS, "need init=None")
        + between("init", ("random",), "labels", KNOWN, "need init=None"),
        repeats=False,
    ),
    "GEMINI": Crossed(
        GEMINI(3, max_iter=3, n_init=1),
        {**GEMINI_LEVELS, "model": ("linear", "mlp", "free")},
        DENSE_KERNELS,
        links_are_met=False,
    ),
    "GEMINI auto": Crossed(
        GEMINI("auto", max_iter=2, n_init=1),
        {**CHOICE_LEVELS, "model": ("linear",)},
        DENSE_KERNELS,
        links_are_met=False,
    ),
    "SparseGEMINI": Crossed(
        SparseGEMINI(3, max_iter=3, n_init=1),
        {**PATH_LEVELS, "dynamic": (False, True)},
        DENSE_KERNELS,
        links_are_met=False,
    ),
    "SparseGEMINICV": Crossed(
        SparseGEMINICV(SparseGEMINI(max_iter=2, n_init=1), n_alphas=2, n_resamples=2),
        {
            **{WRAPPED.get(name, name): row for name, row in CHOICE_LEVELS.items()},
            "n_clusters": (3, "auto"),
            "estimator__model": ("linear",),
            "estimator__groups": PATH_LEVELS["groups"],
        },
        tuple(
            ({WRAPPED.get(name, name): level for name, level in case.items()}, message)
            for case, message in DENSE_KERNELS
        ),
        repeats=False,
        links_are_met=False,
    ),
    "AssociativeImputer": Crossed(
        AssociativeImputer(),
        {
            "linear_correction": ("auto", True, False),
            "n_memories": (5000, 10),
            "add_indicator": (False, True),
            "keep_empty_features": (False, True),
            "missing_values": (np.nan, 0),
            "type": ("float64", "float32"),
        },
    ),
}
