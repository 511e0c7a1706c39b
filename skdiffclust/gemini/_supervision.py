"""Links and partial labels as a penalty on the assignments."""

import numpy as np


def supervision_with_gradient(assignments, constraints, rows=None):
    """Return a penalty on assignments (m, k), at least 0, and its gradient (m, k).

    It is the mean of -log <p_i, q_g> over the samples of groups, with q_g the mean of a
    group, plus the mean of -log (1 - <q_g, q_h>) over pairs of groups that must be
    separated. Both are 0 if hard assignments satisfy everything. `rows` (m,) are the
    samples of a batch among those of the constraints, None for all. O(m k + pairs k).
    """
    groups = constraints.groups if rows is None else constraints.groups[rows]
    present, member = np.unique(groups, return_inverse=True)
    sizes = np.bincount(member)
    means = _sums(assignments, member, len(present)) / sizes[:, None]
    floor = float(np.finfo(assignments.dtype).eps)
    gradient = np.zeros_like(assignments)
    by_mean = np.zeros_like(means)
    value = 0.0

    linked = sizes[member] > 1
    if linked.any():
        count = np.count_nonzero(linked)
        inner = np.einsum("ij,ij->i", assignments, means[member])
        inner = np.maximum(inner, floor)
        factor = -(linked / (count * inner)).astype(assignments.dtype)[:, None]
        value -= float(np.log(inner[linked]).sum()) / count
        gradient += factor * means[member]
        by_mean += _sums(factor * assignments, member, len(present))

    first, second = _parted(constraints, present)
    if len(first):
        inner = np.einsum("ij,ij->i", means[first], means[second])
        apart = np.maximum(1 - inner, floor)
        factor = (1 / (len(first) * apart)).astype(assignments.dtype)[:, None]
        value -= float(np.log(apart).mean())
        np.add.at(by_mean, first, factor * means[second])
        np.add.at(by_mean, second, factor * means[first])
    gradient += (by_mean / sizes[:, None])[member]
    return value, gradient.astype(assignments.dtype, copy=False)


def broken_links(labels, constraints):
    """Return how many groups labels (n,) split, and how many pairs they join."""
    n_groups = constraints.n_groups
    lowest = np.full(n_groups, labels.max())
    highest = np.zeros(n_groups, dtype=labels.dtype)
    np.minimum.at(lowest, constraints.groups, labels)
    np.maximum.at(highest, constraints.groups, labels)
    first, second = _parted(constraints, np.arange(n_groups))
    joined = (lowest[first] <= highest[second]) & (lowest[second] <= highest[first])
    return int(np.count_nonzero(lowest < highest)), int(np.count_nonzero(joined))


def _sums(values, member, n_groups):
    """Return the sums (g, k) of values (m, k) over the groups of samples."""
    sums = np.zeros((n_groups, values.shape[1]), dtype=values.dtype)
    np.add.at(sums, member, values)
    return sums


def _parted(constraints, present):
    """Return the positions in `present` (g,) of the groups of each separated pair."""
    class_of_group = np.full(constraints.n_groups, -1)
    class_of_group[constraints.groups] = constraints.classes
    classes = np.flatnonzero(class_of_group[present] >= 0)
    i, j = np.triu_indices(len(classes), 1)
    position = np.full(constraints.n_groups, -1)
    position[present] = np.arange(len(present))
    ends = position[constraints.cannot]
    ends = ends[(ends >= 0).all(axis=1)]
    return np.r_[classes[i], ends[:, 0]], np.r_[classes[j], ends[:, 1]]
