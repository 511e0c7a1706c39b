"""Splits of a leaf that raise the objective of kernel k-means most.

With sums s(A, B) of the kernel over pairs, a cluster C is worth s(C, C) / |C|. What a
split moves is known from s(L, L) and s(L, C_k) of the left parts L of a leaf for all
thresholds of a feature: cumulated sums in the order of the feature. The kernel is that
of explicit features, or a matrix.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Split:
    """A question, the clusters of those at most and above the threshold, the gain."""

    gain: float
    feature: int = -1
    threshold: float = np.nan
    left: int = -1
    right: int = -1


class FeatureCohesion:
    """Sums of a kernel K = F F' over pairs of samples, from features F (n, r)."""

    def __init__(self, features):
        self._features = np.asarray(features, dtype=np.float64)
        self.squares = np.einsum("ij,ij->i", self._features, self._features)

    def total(self, labels):
        """Return the objective of labels (n,)."""
        members = np.eye(int(labels.max()) + 1)[labels]
        sums = members.T @ self._features
        sizes = np.maximum(members.sum(axis=0), 1)
        return float((np.square(sums).sum(axis=1) / sizes).sum())

    def clusters(self, labels, n_clusters):
        """Return the Clusters of labels (n,)."""
        members = np.eye(n_clusters)[labels]
        sums = members.T @ self._features
        own = np.square(sums).sum(axis=1)
        return Clusters(self, labels, self._features @ sums.T, own, members.sum(axis=0))

    def cumulated(self, rows):
        """Return s(L, L) (m,) of the first 1, 2, ... of rows (m,)."""
        sums = np.cumsum(self._features[rows], axis=0)
        return np.einsum("ij,ij->i", sums, sums)


class MatrixCohesion:
    """Sums of a kernel matrix K (n, n) over pairs of samples."""

    def __init__(self, matrix):
        # Centred, which changes the objective by a constant: an origin that is far away
        # would hide the gains of splits.
        matrix = np.asarray(matrix, dtype=np.float64)
        means = matrix.mean(axis=0)
        self._matrix = matrix - means[:, None]
        self._matrix -= means - means.mean()
        self.squares = self._matrix.diagonal()

    def total(self, labels):
        """Return the objective of labels (n,)."""
        members = np.eye(int(labels.max()) + 1)[labels]
        own = np.einsum("ik,ik->k", members, self._matrix @ members)
        return float((own / np.maximum(members.sum(axis=0), 1)).sum())

    def clusters(self, labels, n_clusters):
        """Return the Clusters of labels (n,)."""
        members = np.eye(n_clusters)[labels]
        linked = self._matrix @ members
        own = np.einsum("ik,ik->k", members, linked)
        return Clusters(self, labels, linked, own, members.sum(axis=0))

    def cumulated(self, rows):
        """Return s(L, L) (m,) of the first 1, 2, ... of rows (m,)."""
        block = self._matrix[np.ix_(rows, rows)]
        before = np.tril(block, -1).sum(axis=1)
        return np.cumsum(2 * before + block.diagonal())


def cohesion_of(relation):
    """Return the sums of a relation of samples."""
    if hasattr(relation, "features"):
        return FeatureCohesion(relation.features)
    return MatrixCohesion(relation.matrix)


@dataclass(frozen=True)
class Clusters:
    """Clusters as they are: labels (n,), s({i}, C_k) (n, k), s(C_k, C_k) and |C_k|."""

    cohesion: object
    labels: np.ndarray
    linked: np.ndarray
    own: np.ndarray
    sizes: np.ndarray


def best_split(X, rows, clusters, least):
    """Return the best Split of a leaf with these rows (m,) of X (n, d).

    Both parts have at least `least` rows.
    """
    best = Split(gain=0.0)
    if len(rows) < 2 * least:
        return best
    whole = clusters.cohesion.cumulated(rows)[-1]
    for feature in range(X.shape[1]):
        order = np.argsort(X[rows, feature], kind="stable")
        values = X[rows[order], feature]
        cuts = np.flatnonzero(values[1:] > values[:-1])
        cuts = cuts[(cuts + 1 >= least) & (len(rows) - cuts - 1 >= least)]
        if not len(cuts):
            continue
        gains, left, right = _gains(rows[order], cuts, whole, clusters)
        at = int(np.argmax(gains))
        if gains[at] > best.gain:
            cut = cuts[at]
            middle = values[cut] / 2 + values[cut + 1] / 2
            # Between two neighbours of floating point there is no middle.
            if not values[cut] <= middle < values[cut + 1]:
                middle = values[cut]
            best = Split(
                float(gains[at]), feature, float(middle), int(left[at]), int(right[at])
            )
    return best


def _gains(rows, cuts, whole, clusters):
    """Return the gains (c,) of cuts after rows (m,), and the clusters of both parts.

    `whole` is s of the leaf with itself.
    """
    home = int(clusters.labels[rows[0]])
    linked = np.cumsum(clusters.linked[rows], axis=0)
    by_left = linked[cuts]
    by_right = linked[-1] - by_left
    own_left = clusters.cohesion.cumulated(rows)[cuts]
    # The same from the other end.
    own_right = clusters.cohesion.cumulated(rows[::-1])[len(rows) - 2 - cuts]
    n_left = cuts + 1.0
    n_right = len(rows) - n_left

    worth = _worth(clusters.own[home], clusters.sizes[home])
    without_left = _worth(
        clusters.own[home] - 2 * by_left[:, home] + own_left,
        clusters.sizes[home] - n_left,
    )
    without_right = _worth(
        clusters.own[home] - 2 * by_right[:, home] + own_right,
        clusters.sizes[home] - n_right,
    )
    rest = clusters.own[home] - 2 * linked[-1, home] + whole
    without_both = _worth(rest, clusters.sizes[home] - len(rows))
    joins_left = _joining(by_left, own_left, n_left, clusters, home)
    joins_right = _joining(by_right, own_right, n_right, clusters, home)

    gains = np.full(len(cuts), -np.inf)
    left = np.full(len(cuts), home)
    right = np.full(len(cuts), home)
    if joins_left.shape[1] < 2:
        return gains, left, right
    best_left = joins_left.argmax(axis=1)
    best_right = joins_right.argmax(axis=1)
    at = np.arange(len(cuts))

    moved = joins_left[at, best_left] + without_left - worth
    gains = moved
    left = best_left.copy()
    moved = joins_right[at, best_right] + without_right - worth
    better = moved > gains
    gains = np.where(better, moved, gains)
    left = np.where(better, home, left)
    right = np.where(better, best_right, right)

    # Both move, to different clusters: one of them may have to take its second best.
    for first, second in ((joins_left, joins_right), (joins_right, joins_left)):
        one = first.argmax(axis=1)
        others = second.copy()
        others[at, one] = -np.inf
        two = others.argmax(axis=1)
        moved = first[at, one] + others[at, two] + without_both - worth
        better = moved > gains
        gains = np.where(better, moved, gains)
        pair = (one, two) if first is joins_left else (two, one)
        left = np.where(better, pair[0], left)
        right = np.where(better, pair[1], right)
    return gains, left, right


def _joining(linked, own, sizes, clusters, home):
    """Return what parts (c,) add to the clusters (c, k) that they join.

    Minus infinity for the cluster that they are in.
    """
    together = clusters.own + 2 * linked + own[:, None]
    added = together / (clusters.sizes + sizes[:, None])
    added -= _worth(clusters.own, clusters.sizes)
    added[:, home] = -np.inf
    return added


def _worth(own, sizes):
    """Return s(C, C) / |C|, 0 of none."""
    return np.divide(own, sizes, out=np.zeros_like(own * sizes), where=sizes > 0)
