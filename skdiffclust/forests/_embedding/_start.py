"""Where training starts: the encoder, scales of noise and of steps."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, svds
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from skdiffclust._encoder import Encoder
from skdiffclust._neighbors import neighbors_graph
from skdiffclust._pairwise import extremes

# Up to this number of features, the covariance is decomposed; with more, the inner
# products of samples if they are few, or else a truncated singular value decomposition
# needs only products with X.
_MOST_FEATURES = 2048
_BLOCK_SAMPLES = 1024
# Step size of Adam, relative to the root mean square of the weights of the first layer.
# Distances along discriminant directions are good from the start, so steps are small.
STEPS = {"pca": 0.02, "random": 0.02, "lda": 0.001}
# Discriminant directions are computed in the space of at most this many principal ones.
_N_KEPT = 512
_ROUNDING = 1e-24  # of variances, relative
# Number of parts of the classes, each of which is left out once, and largest number of
# labelled samples that are compared.
_N_PARTS = 4
_MOST_COMPARED = 4096
_MODULE_LEARNING_RATE = 1e-3
# Number of batches from which the scale of the noise is estimated, and its smallest
# value.
_N_BATCHES = 8
_LEAST_NOISE = 0.02


@dataclass(frozen=True)
class EmbeddingSettings:
    """How an embedding is trained.

    Attributes
    ----------
    affinity : {"sqeuclidean", "cosine"}
    n_perturbations : int
        Noisy copies of a batch.
    batch_size : int
    noise_scale, learning_rate : float or "auto"
        "auto" is computed at the start, see `noise_scale_of` and `learning_rate_of`.
    """

    affinity: str
    n_perturbations: int
    batch_size: int
    noise_scale: float | str
    learning_rate: float | str


class Rates(NamedTuple):
    """Scale of the noise and step size of Adam."""

    noise_scale: float
    learning_rate: float


class Axes(NamedTuple):
    """Principal directions of samples (n, d).

    Attributes
    ----------
    directions : ndarray of shape (d, m)
        Orthonormal; the largest entry of each is positive.
    mean : ndarray of shape (d,)
    unit : float
        What the samples are divided by, so that no square overflows.
    variances : ndarray of shape (m,)
        Of the samples in this unit, along the directions.
    """

    directions: np.ndarray
    mean: np.ndarray
    unit: float
    variances: np.ndarray

    def place(self, X):
        """Return the coordinates (n, m) of samples X (n, d), in the unit."""
        return (_dense(X, self.unit) - self.mean / self.unit) @ self.directions


def linear_encoder(init, X, known, n_clusters, n_components, random_state):
    """Return the linear Encoder that training starts from, and how it was made.

    It is "pca" or "lda", the one that `init` names or, with "auto", the better one for
    the Constraints `known` of the samples X (n, d). The embedding is centred. With more
    components than directions these are rotated at random into all of them, which keeps
    all distances.
    """
    n_directions = min(n_components, *X.shape)
    is_tested = init == "auto"
    projection = None
    if init != "pca" and known.n_classes == n_clusters > 1:
        projection = class_directions(
            X, known.classes, n_directions, is_tested=is_tested
        )
    if projection is None and (
        tells_unseen_classes(X, known.classes, n_directions, random_state)
        if is_tested
        else init == "lda"
    ):
        projection = discriminant_directions(X, known.groups, n_directions)
    init = "pca" if projection is None else "lda"
    if projection is None:
        axes = principal_axes(X, n_directions)
        projection = axes.directions, axes.mean
    directions, mean = projection
    n_found = directions.shape[1]
    if n_found < n_components:
        drawn = random_state.normal(size=(n_components, n_found))
        directions = directions @ np.linalg.qr(drawn)[0].T
    bias = -mean @ directions
    return Encoder([directions.astype(X.dtype)], [bias.astype(X.dtype)]), init


def class_directions(X, classes, n_directions, *, is_tested):
    """Return directions (d, m) that separate the classes (n,) of X (n, d); its mean.

    They are those of linear discriminant analysis of the samples with a class, whose
    class is not -1: at most one direction fewer than classes. The covariance of each
    class is shrunk towards its diagonal, by scikit-learn. With more than 512 features,
    the space is that of the first 512 principal directions that vary. The result is
    None if a class has a single sample, or nothing varies inside classes. With
    `is_tested`, it also is if directions of three quarters of the samples tell fewer of
    the others from other classes than as many principal directions do. O(n d² + d³).
    """
    rows = _compared(classes, 2, None)
    labels = classes[rows]
    if np.count_nonzero(np.bincount(labels)) <= classes.max():
        return None
    axes = principal_axes(X, min(_N_KEPT, *X.shape))
    # Scaled to variance 1, a direction of rounding errors would outweigh all others.
    least = max(X.shape) * np.finfo(np.float64).eps * axes.variances[0]
    n_kept = np.count_nonzero(axes.variances >= least)
    points = axes.place(X[rows])[:, :n_kept]
    principal = points[:, :n_directions]
    is_wide = X.shape[1] > _N_KEPT
    if not is_wide:
        points = _dense(X[rows], axes.unit)

    def find(points, labels):
        return _class_discriminants(points, labels, n_directions)

    if is_tested:
        order = np.argsort(labels, kind="stable")
        parts = np.empty(len(labels), dtype=np.int64)
        parts[order] = np.arange(len(labels)) % _N_PARTS
        if not _gain(points, principal, labels, parts, find) >= 0:
            return None
    directions = find(points, labels)
    if directions is None:
        return None
    if is_wide:
        directions = axes.directions[:, :n_kept] @ directions
    return _with_signs(directions), axes.mean


def _class_discriminants(points, labels, n_directions):
    """Return directions (m, n_directions) of points (n, m) that separate labels (n,).

    The result is None if a label has a single point, or the points of all labels are
    equal.
    """
    sizes = np.unique(labels, return_counts=True)[1]
    scaler = StandardScaler()
    analysis = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")
    if len(sizes) < 2 or sizes.min() < 2:
        return None
    try:
        analysis.fit(scaler.fit_transform(points), labels)
    except np.linalg.LinAlgError:
        return None
    directions = analysis.scalings_[:, : min(n_directions, len(sizes) - 1)]
    return directions / scaler.scale_[:, None]


def discriminant_directions(X, groups, n_directions):
    """Return directions (d, m) that separate the groups (n,) of X (n, d); its mean.

    They are `n_directions` generalised eigenvectors v of the covariance T of all
    samples and the shrunk one S inside groups: T v = λ S v, the largest λ first, with
    vᵀ S v the mean variance inside groups. The result is None if no two samples share a
    group, or if all that do are equal. S is (1 - a) W + a tr(W) / d I, where W is the
    pooled covariance and a the square root of the shrinkage of Ledoit and Wolf. That is
    more than they advise, since W is that of few classes and used for all. The space is
    that of the first 512 principal directions. O(n d² + d³).
    """
    axes = principal_axes(X, min(_N_KEPT, *X.shape))
    rows = np.flatnonzero(np.bincount(groups)[groups] > 1)
    discriminants = _discriminants(
        axes, axes.place(X[rows]), groups[rows], n_directions
    )
    if discriminants is None:
        return None
    return _with_signs(axes.directions @ discriminants), axes.mean


def _discriminants(axes, points, groups, n_directions):
    """Return the discriminant directions (m, n_directions) in the space of Axes.

    The points (n, m) are in this space, and each of groups (n,) has several points. The
    result is None if there are no groups, or if the points of each are equal.
    """
    _, numbers, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), points.shape[1]))
    np.add.at(sums, numbers, points)
    inside = points - (sums / sizes[:, None])[numbers]
    # Rounding: samples of a group that are equal may differ from their mean.
    if not np.sum(inside**2) > _ROUNDING * len(points) * axes.variances.sum():
        return None
    shrinkage = np.sqrt(ledoit_wolf_shrinkage(inside, assume_centered=True))
    within = inside.T @ inside / (len(points) - len(sizes))
    d = len(within)
    variance = np.trace(within) / d
    # A little more keeps the matrix regular where the shrinkage is almost zero.
    shrunk = (1.0 - shrinkage) * within / variance + (shrinkage + 1e-9) * np.eye(d)
    first = d - n_directions
    total = np.diag(axes.variances) / variance
    return eigh(total, shrunk, subset_by_index=(first, d - 1))[1][:, ::-1]


def tells_unseen_classes(X, classes, n_directions, random_state):
    """Whether discriminant directions are better than principal ones for new classes.

    A quarter of the classes (n,) is left out at a time. `classes` are -1 where unknown.
    False with fewer than four classes of two samples. The cost is that of
    `discriminant_directions`.
    """
    rows = _compared(classes, 2, random_state)
    names, numbers = np.unique(classes[rows], return_inverse=True)
    if len(names) < _N_PARTS:
        return False
    axes = principal_axes(X, min(_N_KEPT, *X.shape))
    points = axes.place(X[rows])

    def find(points, labels):
        return _discriminants(axes, points, labels, n_directions)

    parts = numbers % _N_PARTS
    return _gain(points, points[:, :n_directions], numbers, parts, find) > 0


def _compared(classes, least, random_state):
    """Return the samples whose class (n,) has at least `least` samples; -1 is none.

    With a random state, at most 4096 samples are drawn first.
    """
    rows = np.flatnonzero(classes >= 0)
    if random_state is not None and len(rows) > _MOST_COMPARED:
        rows = np.sort(random_state.choice(rows, _MOST_COMPARED, replace=False))
    return rows[np.bincount(classes[rows])[classes[rows]] >= least]


def _gain(points, principal, labels, parts, find):
    """Return how many more points (n, m) have a nearest neighbour of their label.

    Neighbours are those along the directions that ``find(points, labels)`` returns for
    the points of the other parts (n,), compared with those by principal coordinates (n,
    p). The result is NaN if it finds none.
    """
    is_alike = _has_alike_neighbor(principal, labels)
    gain = 0
    for part in range(_N_PARTS):
        judged = parts == part
        discriminants = find(points[~judged], labels[~judged])
        if discriminants is None:
            return np.nan
        gain += np.count_nonzero(
            _has_alike_neighbor(points @ discriminants, labels)[judged]
        )
        gain -= np.count_nonzero(is_alike[judged])
    return gain


def _has_alike_neighbor(points, labels):
    """Return whether the nearest neighbour of each of points (n, m) has its label."""
    nearest = NearestNeighbors(n_neighbors=1).fit(points)
    return labels[nearest.kneighbors(return_distance=False)[:, 0]] == labels


def principal_axes(X, n_directions):
    """Return the first `n_directions` Axes of X (n, d), dense or sparse, in float64.

    O(n d²), or from 2049 features on O(n d n_directions).
    """
    (n, d) = X.shape
    unit = float(np.abs(extremes(X)).max()) or 1.0
    mean = sum(rows.sum(axis=0) for rows in _blocks(X, unit)) / n
    if d <= _MOST_FEATURES or n_directions == d:
        covariance = np.zeros((d, d))
        for rows in _blocks(X, unit):
            rows -= mean
            covariance += rows.T @ rows
        values, vectors = np.linalg.eigh(covariance)
        values = values[::-1][:n_directions]
        directions = vectors[:, ::-1][:, :n_directions]
    elif n <= 4 * n_directions:
        centred = _dense(X, unit) - mean
        values, vectors = np.linalg.eigh(centred @ centred.T)
        values = values[::-1][:n_directions]
        vectors = vectors[:, ::-1][:, :n_directions]
        directions = np.linalg.qr(centred.T @ vectors)[0]
    else:
        centred = LinearOperator(
            (n, d),
            matvec=lambda v: X @ v.ravel() / unit - mean @ v.ravel(),
            rmatvec=lambda u: X.T @ u.ravel() / unit - mean * u.sum(),
            dtype=np.float64,
        )
        # The start is not constant: centred samples are orthogonal to that.
        start = 1.0 + np.arange(min(n, d))
        _, roots, vectors = svds(centred, n_directions, v0=start)
        values = roots[::-1] ** 2
        directions = vectors[::-1].T
    variances = np.maximum(values, 0.0) / n
    return Axes(_with_signs(directions), mean * unit, unit, variances)


def _with_signs(directions):
    """Return directions (d, m) whose largest entry is positive."""
    largest = np.abs(directions).argmax(axis=0)
    columns = np.arange(directions.shape[1])
    return directions * np.where(directions[largest, columns] < 0, -1.0, 1.0)


def _blocks(X, unit):
    """Yield dense blocks of X (n, d) over a unit, in float64."""
    for first in range(0, X.shape[0], _BLOCK_SAMPLES):
        yield _dense(X[first : first + _BLOCK_SAMPLES], unit)


def _dense(X, unit):
    """Return samples (n, d) over a unit, as a dense float64 array."""
    X = X.toarray() if issparse(X) else X
    return X.astype(np.float64, order="C") / unit


def neighbors_of(X, n_neighbors):
    """Return the csr_array (n, n) of pairs of samples X (n, ...) that are neighbours.

    One of the two is among the `n_neighbors` nearest, at most n - 1, of the other.
    """
    n_neighbors = min(n_neighbors, X.shape[0] - 1)
    if not issparse(X):
        X = X.reshape(len(X), -1)
    return neighbors_graph(X, n_neighbors)


def learning_rate_of(parameter, first_weights, step):
    """Return the step size of Adam: the parameter, or what "auto" stands for.

    "auto" is `step` times the root mean square of the weights (n_in, n_out) of the
    first layer at the start, and 0.001 for a module, whose weights are None.
    """
    if parameter != "auto":
        return float(parameter)
    if first_weights is None:
        return _MODULE_LEARNING_RATE
    largest = float(np.abs(first_weights).max())
    if not 0 < largest < np.inf:
        return _MODULE_LEARNING_RATE
    shares = first_weights.astype(np.float64) / largest
    return step * largest * float(np.sqrt(np.mean(shares * shares)))


def noise_scale_of(parameter, affinity_of, n_samples, batch_size, random_state):
    """Return the scale of the noise: the parameter, or what "auto" stands for.

    "auto" is the gap over √2. The noise of two pairs then differs by the gap, in
    standard deviation, and exchanges the two in one of six draws. The gap is how much
    more similar the nearest other sample of a batch is than the second, the mean over
    the samples of a few batches at the start. ``affinity_of(rows)`` is the
    standardised affinity (b, b) of samples.
    """
    if parameter != "auto":
        return float(parameter)
    batch_size = min(batch_size, n_samples)
    if batch_size < 3:
        return _LEAST_NOISE
    gaps = []
    for _ in range(_N_BATCHES):
        rows = random_state.choice(n_samples, batch_size, replace=False)
        affinity = np.array(affinity_of(rows))
        np.fill_diagonal(affinity, -np.inf)
        nearest = np.partition(affinity, batch_size - 2, axis=1)[:, -2:]
        gaps.append(nearest[:, 1] - nearest[:, 0])
    scale = float(np.mean(gaps)) / np.sqrt(2.0)
    return max(scale, _LEAST_NOISE) if np.isfinite(scale) else _LEAST_NOISE
