"""Labels and links of the samples of an embedding: checked and counted."""

from numbers import Real

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d

from skdiffclust._constraints import (
    as_constraints,
    bounds_of_clusters,
    numbers_of_names,
)
from skdiffclust._history import warn_of_convergence
from skdiffclust._validation import refuse_container, refuse_many_clusters
from skdiffclust.forests._constrained._search import chains

_NAME = "SpanningForestEmbedding"


def check_target(y, n_samples):
    """Return y as int64 (n_samples,) of labels of at least -1.

    Strings become numbers in their order. Unknown are -1 and, in an array of objects,
    None and NaN, and "-1", which NumPy makes of -1 in a list of strings.
    """
    refuse_container(y, name="y")
    y = column_or_1d(y, warn=True)
    check_consistent_length(np.empty(n_samples), y)
    if y.dtype.kind in "TUO":
        y = numbers_of_names(y, f"The 'y' parameter of {_NAME}")
    if y.dtype.kind not in "biuf" and not all(isinstance(v, Real) for v in y):
        odd = next(value for value in y if not isinstance(value, Real))
        raise ValueError(
            f"The 'y' parameter of {_NAME} must be integers or strings, with -1 for "
            f"unknown. Got values of type {type(odd).__name__} instead. Encode classes "
            "with LabelEncoder first."
        )
    numbers = y.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"Input y contains NaN or infinity: the 'y' parameter of {_NAME} must be "
            "integers. Got another value instead. Use -1 for unknown."
        )
    labels = numbers.astype(np.int64)
    wrong = (labels != numbers) | (labels < -1)
    if wrong.any():
        raise ValueError(
            f"Unknown label type: the 'y' parameter of {_NAME} must be integers of at "
            f"least -1, which means unknown. Got {numbers[wrong][0]} instead. Encode "
            "classes as 0, 1, ...."
        )
    return labels


def known_constraints(n_samples, y, must_link, cannot_link):
    """Return the constraints of labels (n,) or links; one of the two must be given."""
    linked = must_link is not None or cannot_link is not None
    if y is not None and linked:
        raise ValueError(
            f"The 'y' parameter of {_NAME} must be None where links are given. Got "
            "both instead. Convert the labels to links, or leave the links out."
        )
    if y is not None:
        return as_constraints(n_samples, partial_labels=y)
    if not linked:
        raise ValueError(
            f"{_NAME} requires y to be passed, but the target y is None. Pass y, with "
            "-1 for unknown, or must_link or cannot_link."
        )
    return as_constraints(n_samples, must_link=must_link, cannot_link=cannot_link)


def link_pairs(constraints):
    """Return pairs of samples (m, 2) that the links of closed constraints connect.

    They are a chain through every group of several samples, and a pair of samples for
    each two groups that must be separated.
    """
    first = np.unique(constraints.groups, return_index=True)[1]
    return np.concatenate([chains(constraints.groups), first[constraints.cannot]])


def check_number_of_clusters(n_clusters, y, known):
    """Return the number of clusters, which "auto" needs a label of every sample for.

    It is at least what the constraints `known` need, with a warning where more was not
    asked for.
    """
    n_samples = len(known.groups)
    if n_clusters == "auto":
        if y is None or (y < 0).any():
            what = "links do" if y is None else "samples without a label do"
            raise ValueError(
                f"The 'n_clusters' parameter of {_NAME} must be an integer here, since "
                f"{what} not tell how many classes there are. Got 'auto' instead. Pass "
                "the number of classes, those without any label included."
            )
        n_clusters = len(np.unique(y))
    refuse_many_clusters(_NAME, n_clusters, n_samples)
    least, _ = bounds_of_clusters(known)
    if n_clusters < least:
        what = "the classes in y" if y is not None else "the groups that links separate"
        warn_of_convergence(
            f"{_NAME} was asked for {n_clusters} clusters, fewer than {what}, {least}. "
            f"It takes {least}. Set n_clusters; if a name in y means unknown, replace "
            "it by -1.",
        )
    return int(max(n_clusters, least))
