"""Links and partial labels as a penalty on the assignments."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Supervision:
    """Groups of samples, and pairs of groups that must be separated.

    The penalty on assignments (m, k) is the mean of -log <p_i, q_g> over the samples of
    groups, with q_g the mean of a group, plus the mean of -log (1 - <q_g, q_h>) over
    pairs of groups that must be separated. Both are 0 if hard assignments satisfy
    everything.
    """

    rows: np.ndarray  # (s,), the samples that are in these groups
    member: np.ndarray  # (s,), their groups
    sizes: np.ndarray  # (g,)
    pairs: np.ndarray  # (p, 2)

    @classmethod
    def of(cls, constraints, batch=None):
        """Return what constraints say of the samples of a batch (m,), None for all."""
        groups = constraints.groups if batch is None else constraints.groups[batch]
        present, member = np.unique(groups, return_inverse=True)
        sizes = np.bincount(member)
        pairs = _parted(constraints, present)
        counts = sizes > 1
        counts[pairs] = True
        number = np.cumsum(counts) - 1
        rows = np.flatnonzero(counts[member])
        return cls(rows, number[member[rows]], sizes[counts], number[pairs])

    def penalty(self, assignments):
        """Return the penalty of assignments (m, k), at least 0, and its gradient.

        O(m k + p k).
        """
        gradient = np.zeros_like(assignments)
        dtype = assignments.dtype
        floor = float(np.finfo(dtype).eps)
        assignments = assignments[self.rows]
        sizes = self.sizes[:, None].astype(dtype)
        means = self._sums(assignments) / sizes
        own = means[self.member]
        is_linked = self.sizes[self.member] > 1
        inner = np.einsum("ij,ij->i", assignments, own)
        inner = np.where(is_linked, np.maximum(inner, floor), 1)
        n_linked = max(np.count_nonzero(is_linked), 1)
        value = -float(np.log(inner).sum()) / n_linked
        factor = -(is_linked / (n_linked * inner)).astype(dtype)[:, None]
        by_mean = self._sums(factor * assignments)

        first, second = self.pairs.T
        inner = np.einsum("ij,ij->i", means[first], means[second])
        apart = np.maximum(1 - inner, floor)
        n_pairs = max(len(apart), 1)
        value -= float(np.log(apart).sum()) / n_pairs
        by_inner = (1 / (n_pairs * apart)).astype(dtype)[:, None]
        np.add.at(by_mean, first, by_inner * means[second])
        np.add.at(by_mean, second, by_inner * means[first])
        gradient[self.rows] = factor * own + (by_mean / sizes)[self.member]
        return value, gradient

    def _sums(self, values):
        """Return the sums (g, k) of values (s, k) over the groups."""
        sums = np.zeros((len(self.sizes), values.shape[1]), dtype=values.dtype)
        np.add.at(sums, self.member, values)
        return sums


def broken_links(labels, constraints):
    """Return how many groups labels (n,) split, and how many pairs they join."""
    n_groups = constraints.n_groups
    lowest = np.full(n_groups, labels.max())
    highest = np.zeros(n_groups, dtype=labels.dtype)
    np.minimum.at(lowest, constraints.groups, labels)
    np.maximum.at(highest, constraints.groups, labels)
    first, second = _parted(constraints, np.arange(n_groups)).T
    joined = (lowest[first] <= highest[second]) & (lowest[second] <= highest[first])
    return int(np.count_nonzero(lowest < highest)), int(np.count_nonzero(joined))


def _parted(constraints, present):
    """Return the positions (p, 2) of separated pairs of groups in `present` (g,)."""
    class_of_group = np.full(constraints.n_groups, -1)
    class_of_group[constraints.groups] = constraints.classes
    classes = np.flatnonzero(class_of_group[present] >= 0)
    i, j = np.triu_indices(len(classes), 1)
    position = np.full(constraints.n_groups, -1)
    position[present] = np.arange(len(present))
    ends = position[constraints.cannot]
    ends = ends[(ends >= 0).all(axis=1)]
    return np.concatenate([np.column_stack([classes[i], classes[j]]), ends])
