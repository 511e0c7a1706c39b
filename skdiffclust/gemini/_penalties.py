"""The group-lasso penalty on variables, and its proximal operators.

Features that belong together (the one-hot columns of a category, say) form a group,
which is kept or dropped as a whole. Groups are given as the list of their columns,
gathered by size, so that all groups of one size are handled in one array operation.
"""

import numpy as np


def groups_by_size(groups, n_features):
    """Return a list of index arrays (n_groups_of_a_size, size) that cover all features.

    `groups` (n_features,) are ids of any type, None for a group a feature. Within and
    among groups of one size the order is that of the features.
    """
    if groups is None:
        return [np.arange(n_features)[:, None]]
    _, ids, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    members = np.split(np.argsort(ids, kind="stable"), np.cumsum(sizes)[:-1])
    return [
        np.array([columns for columns in members if len(columns) == size])
        for size in np.unique(sizes)
    ]


def group_norms(weights, groups):
    """Return the norm of each group of rows of weights (d, k), at its features (d,)."""
    squares = np.einsum("ij,ij->i", weights, weights)
    norms = np.empty_like(squares)
    for columns in groups:
        norms[columns] = np.sqrt(squares[columns].sum(axis=1, keepdims=True))
    return norms


def group_penalty(weights, groups):
    """Return the sum of the norms of the groups of rows of weights (d, k)."""
    from skdiffclust.gemini._fused import sum_of_norms

    return sum(sum_of_norms(weights, columns) for columns in groups)


def soft_threshold_groups(weights, threshold, groups):
    """Shrink the norm of each group of rows of weights (d, k) in place.

    The proximal operator of threshold * `group_penalty`: a group whose norm is at most
    `threshold` becomes exactly zero. Equation (13) is elementwise, which is another
    penalty; this is its vector form.
    """
    from skdiffclust.gemini._fused import shrink_groups

    for columns in groups:
        shrink_groups(weights, threshold, columns)


def hierarchical_prox(skip, hidden, threshold, hierarchy, groups):
    """Shrink the skip weights (d, k) and bound the hidden weights (d, h), in place.

    The minimiser of ||theta - skip||² / 2 + ||W - hidden||² / 2 + threshold
    sum_g ||theta_g|| under ``max |W_g| <= hierarchy ||theta_g||`` for every group g,
    equation (10): Algorithm 4 of LassoNet, for groups. Where skip_g is zero its
    direction is undefined; if the hidden weights call for a norm all the same, all its
    entries are equal, which moves all clusters alike and hence no assignment.
    """
    for columns in groups:
        v = skip[columns].reshape(len(columns), -1)
        u = hidden[columns].reshape(len(columns), -1)
        norms = np.sqrt(np.einsum("ij,ij->i", v, v))
        lengths = np.maximum(norms - threshold, 0)
        # Where no hidden weight is outside of the box, the two do not meet.
        meet = np.abs(u).max(axis=1) > hierarchy * lengths
        if meet.any():
            lengths[meet] = _joint_length(norms[meet], u[meet], threshold, hierarchy)
        bound = hierarchy * lengths[:, None]
        np.clip(u, -bound, bound, out=u)
        direction = np.full_like(v, 1 / np.sqrt(v.shape[1]))
        np.divide(v, norms[:, None], out=direction, where=norms[:, None] > 0)
        shape = (len(columns), columns.shape[1], -1)
        skip[columns] = (lengths[:, None] * direction).reshape(shape)
        hidden[columns] = u.reshape(shape)


def _joint_length(norms, hidden, threshold, hierarchy):
    """Return the norm (g,) of theta where the box is active; hidden is (g, m).

    With the m largest |W| on the box, the norm is that of a one-dimensional quadratic;
    the right m is the first whose box holds the next largest one.
    """
    largest = -np.sort(-np.abs(hidden), axis=1)
    sums = np.cumsum(largest, axis=1)
    counts = np.arange(1, hidden.shape[1] + 1)
    lengths = np.maximum(norms[:, None] + hierarchy * sums - threshold, 0)
    lengths /= 1 + counts * hierarchy**2
    following = np.zeros_like(largest)
    following[:, :-1] = largest[:, 1:]
    first = np.argmax(hierarchy * lengths >= following, axis=1)
    return lengths[np.arange(len(first)), first]
