"""Find the groups in embeddings, tables with gaps, cells, texts and graphs.

The clusterers are scikit-learn estimators, which also use the few labels that there
are; `skdiffclust.nn` has the losses of the same methods, for networks in torch.

- `SpanningForestClustering`: embeddings, clusters of any shape; chooses their number
- `ClAM`: tables with missing values, texts; compact clusters
- `GraphCutClustering`: cells and graphs; `PRCut` trains an encoder on the same cut
- `GEMINI`, `SparseGEMINI`, `SparseGEMINICV`: kernels, and the selection of features
- `SpanningForestEmbedding`, `DeepClAM`: features that a network learns
- `AssociativeImputer`: fills gaps for any estimator
- `model_selection.compare_clusterers`: which of them for these data?
"""

from importlib import import_module

__version__ = "0.1.0"

# Public name -> the module that defines it. Names are imported on first use, so that
# `import skdiffclust` does not import NumPy.
_ESTIMATORS = {
    "AssociativeImputer": "skdiffclust.memories",
    "ClAM": "skdiffclust.memories",
    "DeepClAM": "skdiffclust.memories",
    "GEMINI": "skdiffclust.gemini",
    "GraphCutClustering": "skdiffclust.cuts",
    "PRCut": "skdiffclust.cuts",
    "SpanningForestClustering": "skdiffclust.forests",
    "SpanningForestEmbedding": "skdiffclust.forests",
    "SparseGEMINI": "skdiffclust.gemini",
    "SparseGEMINICV": "skdiffclust.gemini",
    "warmup": "skdiffclust.forests._warmup",
}
_MODULES = {
    "cuts",
    "datasets",
    "forests",
    "gemini",
    "inspection",
    "memories",
    "metrics",
    "model_selection",
    "nn",
    "plotting",
}

# Without nn, so that `from skdiffclust import *` does not import torch.
__all__ = [
    "AssociativeImputer",
    "ClAM",
    "DeepClAM",
    "GEMINI",
    "GraphCutClustering",
    "PRCut",
    "SpanningForestClustering",
    "SpanningForestEmbedding",
    "SparseGEMINI",
    "SparseGEMINICV",
    "__version__",
    "cuts",
    "datasets",
    "forests",
    "gemini",
    "inspection",
    "memories",
    "metrics",
    "model_selection",
    "plotting",
    "show_versions",
    "warmup",
]


def show_versions() -> None:
    """Print the versions of Python, the package and its dependencies.

    Include the output in bug reports. The versions are read from the metadata of the
    installed packages, which are not imported.

    See Also
    --------
    sklearn.show_versions : The same for scikit-learn, including BLAS and OpenMP.

    Examples
    --------
    >>> import skdiffclust
    >>> skdiffclust.show_versions()  # doctest: +ELLIPSIS
    python        3...
    machine       ...
    skdiffclust   ...
    numpy         ...
    """
    import platform
    from importlib import metadata

    print(f"{'python':13s} {platform.python_version()}")
    print(f"{'machine':13s} {platform.platform()}")
    print(f"{'skdiffclust':13s} {__version__}")
    names = (
        "numpy scipy scikit-learn numba torch matplotlib rich POT pandas polars skops"
    )
    for name in names.split():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = "not installed"
        print(f"{name:13s} {version}")


def __getattr__(name):
    """Import a public name when it is first requested (PEP 562)."""
    if name in _ESTIMATORS:
        return getattr(import_module(_ESTIMATORS[name]), name)
    if name in _MODULES:
        return import_module(f"skdiffclust.{name}")
    raise AttributeError(f"module 'skdiffclust' has no attribute {name!r}")


def __dir__():
    """List the public names, imported or not."""
    return sorted(__all__)
