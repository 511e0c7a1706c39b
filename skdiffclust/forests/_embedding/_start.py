"""Where training starts: the encoder, scales of noise and of steps."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, svds
from sklearn.neighbors import NearestNeighbors, kneighbors_graph

from skdiffclust._encoder import Encoder
from skdiffclust._neighbors import neighbors_graph
from skdiffclust._validation import extreme_rows

# Up to this number of features, the covariance is decomposed; with more, a truncated
# singular value decomposition needs only products with X.
_MOST_FEATURES = 2048
_BLOCK_SAMPLES = 1024
# Step size of Adam, relative to the root mean square of the weights of the first layer.
# Distances along discriminant directions are good from the start, so steps are small.
STEP = 0.02
STEP_FROM_DISCRIMINANTS = 0.001
# With more features, discriminant directions are computed in the space of the first
# principal ones, at most this many.
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


class Rates(NamedTuple):
    """Scale of the noise and step size of Adam."""

    noise_scale: float
    learning_rate: float


def principal_encoder(X, n_components, random_state):
    """Return the linear Encoder onto the first principal directions of X (n, d).

    The embedding is centred. With more components than min(n, d) the directions are
    rotated at random into all of them, which keeps all distances.
    """
    directions, mean = principal_directions(X, min(n_components, *X.shape))
    return _encoder_of(directions, mean, n_components, X.dtype, random_state)


def discriminant_encoder(X, groups, n_components, random_state):
    """Return the linear Encoder onto directions along which groups are compact.

    As `principal_encoder`, but for the directions: those of the largest variance of all
    samples of X (n, d), with or without a label, relative to that inside the groups
    (n,), which is shrunk. None where no two samples share a group, or all that do are
    equal.
    """
    n_directions = min(n_components, *X.shape)
    found = discriminant_directions(X, groups, n_directions)
    if found is None:
        return None
    return _encoder_of(*found, n_components, X.dtype, random_state)


def _encoder_of(directions, mean, n_components, dtype, random_state):
    """Return the Encoder onto directions (d, m) from a mean (d,)."""
    n_found = directions.shape[1]
    if n_found < n_components:
        drawn = random_state.normal(size=(n_components, n_found))
        directions = directions @ np.linalg.qr(drawn)[0].T
    bias = -mean @ directions
    return Encoder([directions.astype(dtype)], [bias.astype(dtype)])


class _Spread(NamedTuple):
    """Covariance of samples X (n, d), divided by a unit, in a basis.

    Attributes
    ----------
    mean : ndarray of shape (d,)
        In the units of X.
    unit : float
    basis : ndarray of shape (d, m)
    covariance : ndarray of shape (m, m)
    """

    mean: np.ndarray
    unit: float
    basis: np.ndarray
    covariance: np.ndarray


def _spread_of(X):
    """Return the _Spread of X (n, d); from 2049 features on, in 512 directions."""
    basis, mean = principal_directions(X, min(_N_KEPT, *X.shape))
    if X.shape[1] <= _MOST_FEATURES:
        basis = np.eye(X.shape[1])
    unit = float(np.abs(extreme_rows(X)).max()) or 1.0
    center = mean / unit
    covariance = np.zeros((basis.shape[1], basis.shape[1]))
    for rows in _blocks(X, unit):
        rows = (rows - center) @ basis
        covariance += rows.T @ rows
    return _Spread(mean, unit, basis, covariance / X.shape[0])


def discriminant_directions(X, groups, n_directions):
    """Return directions (d, n_directions) of X (n, d) that separate groups; its mean.

    Generalised eigenvectors v of the covariance T of all samples and the shrunk one S
    inside groups (n,): T v = λ S v, the largest λ first, with vᵀ S v the mean variance
    inside groups. None where that is zero. S is (1 - a) W + a tr(W) / d I, where W is
    the pooled covariance and a the square root of the shrinkage of Ledoit and Wolf,
    more than they advise, since W is that of few classes and used for all. O(n d² +
    d³); from 2049 features on, in the space of the first 512 principal directions.
    """
    spread = _spread_of(X)
    directions = _directions_of_groups(X, groups, n_directions, spread)
    return None if directions is None else (directions, spread.mean)


def _directions_of_groups(X, groups, n_directions, spread):
    """Return what `discriminant_directions` does, for the _Spread of X, or None."""
    _, unit, basis, total = spread
    d = len(total)
    within = np.zeros((d, d))
    fourth = 0.0
    n_rows = 0
    n_groups = 0
    for rows, numbers in _pieces(groups):
        sizes = np.bincount(numbers)
        points = next(_blocks(X[rows], unit, len(rows))) @ basis
        sums = np.zeros((len(sizes), d))
        np.add.at(sums, numbers, points)
        points -= (sums / sizes[:, None])[numbers]
        within += points.T @ points
        fourth += np.sum(np.einsum("ij,ij->i", points, points) ** 2)
        n_rows += len(rows)
        n_groups += len(sizes)
    # Rounding: samples of a group that are equal may differ from their mean.
    if not np.trace(within) > _ROUNDING * n_rows * np.trace(total):
        return None
    shrinkage = np.sqrt(_shrinkage(within / n_rows, fourth / n_rows, n_rows))
    within /= n_rows - n_groups
    variance = np.trace(within) / d
    shrunk = (1.0 - shrinkage) * within / variance + shrinkage * np.eye(d)
    # Keeps the matrix regular where the shrinkage is almost zero.
    shrunk += 1e-9 * np.eye(d)
    first = d - n_directions
    vectors = eigh(total / variance, shrunk, subset_by_index=(first, d - 1))[1]
    return _with_signs(basis @ vectors[:, ::-1])


def tells_unseen_classes(X, groups, classes, n_components, random_state):
    """Whether discriminant directions are better than principal ones for new classes.

    The classes are left out by parts: directions of X (n, d) come from the groups (n,)
    of the other samples, and count the samples of the classes left out whose nearest
    labelled one is of their class. As many principal directions of all samples are
    compared on the same ones. `classes` (n,) are -1 where unknown. False with fewer
    than four classes of two samples. O(n d² + d³), as `discriminant_directions`, which
    is computed four times for one covariance of all samples.
    """
    rows = np.flatnonzero(classes >= 0)
    if len(rows) > _MOST_COMPARED:
        rows = np.sort(random_state.choice(rows, _MOST_COMPARED, replace=False))
    labels = classes[rows]
    names, sizes = np.unique(labels, return_counts=True)
    names = names[sizes > 1]
    if len(names) < _N_PARTS:
        return False
    n_directions = min(n_components, *X.shape)
    spread = _spread_of(X)
    basis = spread.basis
    center = spread.mean / spread.unit
    samples = np.concatenate(
        [(block - center) @ basis for block in _blocks(X[rows], spread.unit)]
    )
    d = len(spread.covariance)
    principal = eigh(spread.covariance, subset_by_index=(d - n_directions, d - 1))[1]
    is_alike = _has_alike_neighbor(samples @ principal, labels)
    balance = 0
    # A single sample is a group without a pair.
    alone = groups.max() + 1 + np.arange(len(groups))
    for first in range(_N_PARTS):
        left_out = names[first::_N_PARTS]
        seen = np.where(np.isin(classes, left_out), alone, groups)
        directions = _directions_of_groups(X, seen, n_directions, spread)
        if directions is None:
            return False
        judged = np.isin(labels, left_out)
        balance += np.count_nonzero(
            _has_alike_neighbor(samples @ (basis.T @ directions), labels)[judged]
        )
        balance -= np.count_nonzero(is_alike[judged])
    return balance > 0


def _has_alike_neighbor(points, labels):
    """Return whether the nearest neighbour of each of points (n, m) has its label."""
    nearest = NearestNeighbors(n_neighbors=1).fit(points)
    return labels[nearest.kneighbors(return_distance=False)[:, 0]] == labels


def _pieces(groups):
    """Yield blocks of samples (m,) that share groups (n,), and their groups from 0 on.

    A group of more samples than a block holds is divided; single samples are left out.
    """
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    pieces = []
    for group in np.split(order, starts[1:]):
        n_parts = -(-len(group) // _BLOCK_SAMPLES)
        pieces += [part for part in np.array_split(group, n_parts) if len(part) > 1]
    while pieces:
        sizes = np.cumsum([len(piece) for piece in pieces])
        n_taken = max(1, int(np.searchsorted(sizes, _BLOCK_SAMPLES, side="right")))
        taken = pieces[:n_taken]
        pieces = pieces[n_taken:]
        numbers = np.repeat(np.arange(n_taken), [len(piece) for piece in taken])
        yield np.concatenate(taken), numbers


def _shrinkage(covariance, fourth, n_samples):
    """Return the shrinkage of Ledoit and Wolf (2004) for a covariance (d, d).

    `fourth` is the mean fourth power of the lengths of the samples.
    """
    d = len(covariance)
    squares = np.sum(covariance**2)
    distance = squares - np.trace(covariance) ** 2 / d
    error = (fourth - squares) / n_samples
    return min(max(error, 0.0) / distance, 1.0) if distance > 0 else 1.0


def principal_directions(X, n_directions):
    """Return orthonormal principal directions (d, n_directions) of X (n, d); its mean.

    Dense or sparse X, float64 results; the largest entry of a direction is positive.
    O(n d²), or O(n d n_directions) from 2049 features on.
    """
    (n, d) = X.shape
    extremes = extreme_rows(X)
    unit = float(np.abs(extremes).max()) or 1.0
    mean = sum(rows.sum(axis=0) for rows in _blocks(X, unit)) / n
    if d <= _MOST_FEATURES or n_directions == min(n, d):
        covariance = np.zeros((d, d))
        for rows in _blocks(X, unit):
            rows -= mean
            covariance += rows.T @ rows
        _, vectors = np.linalg.eigh(covariance)
        directions = vectors[:, ::-1][:, :n_directions]
    else:
        centred = LinearOperator(
            (n, d),
            matvec=lambda v: X @ v.ravel() / unit - mean @ v.ravel(),
            rmatvec=lambda u: X.T @ u.ravel() / unit - mean * u.sum(),
            dtype=np.float64,
        )
        start = np.ones(min(n, d))
        start[1::2] = -0.5
        directions = svds(centred, n_directions, v0=start)[2][::-1].T
    return _with_signs(directions), mean * unit


def _with_signs(directions):
    """Return directions (d, m) whose largest entry is positive."""
    largest = np.abs(directions).argmax(axis=0)
    columns = np.arange(directions.shape[1])
    return directions * np.where(directions[largest, columns] < 0, -1.0, 1.0)


def _blocks(X, unit, step=_BLOCK_SAMPLES):
    """Yield dense blocks of X (n, d) over a unit, in float64."""
    for first in range(0, X.shape[0], step):
        rows = X[first : first + step]
        rows = rows.toarray() if issparse(rows) else rows
        yield rows.astype(np.float64, order="C") / unit


def neighbors_of(X, n_neighbors):
    """Return the csr_array (n, n) of pairs of samples X (n, ...) that are neighbours.

    Of the `n_neighbors` nearest of either, at most n - 1.
    """
    n_neighbors = min(n_neighbors, X.shape[0] - 1)
    if not issparse(X):
        return neighbors_graph(X.reshape(len(X), -1), n_neighbors)
    graph = kneighbors_graph(X, n_neighbors)
    graph = (graph + graph.T).tocsr()
    graph.sort_indices()
    return graph


def learning_rate_of(parameter, first_weights, step=STEP):
    """Return the step size of Adam: the parameter, or what "auto" is.

    `step` root mean squares of the weights (n_in, n_out) of the first layer at the
    start; 0.001 for a module, whose weights are None.
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


def noise_scale_of(parameter, similarity_of, n_samples, batch_size, random_state):
    """Return the scale of the noise: the parameter, or what "auto" is.

    The gap over √2, so that the noise of two pairs differs by the gap, in standard
    deviation, and exchanges the two in one of six draws. The gap is how much more
    similar the nearest other sample of a batch is than the second, the mean over the
    samples of a few batches at the start.
    ``similarity_of(rows)`` is the standardised similarity (b, b) of samples.
    """
    if parameter != "auto":
        return float(parameter)
    batch_size = min(batch_size, n_samples)
    if batch_size < 3:
        return _LEAST_NOISE
    gaps = []
    for _ in range(_N_BATCHES):
        rows = random_state.choice(n_samples, batch_size, replace=False)
        similarity = np.array(similarity_of(rows))
        np.fill_diagonal(similarity, -np.inf)
        nearest = np.partition(similarity, batch_size - 2, axis=1)[:, -2:]
        gaps.append(nearest[:, 1] - nearest[:, 0])
    scale = float(np.mean(gaps)) / np.sqrt(2.0)
    return max(scale, _LEAST_NOISE) if np.isfinite(scale) else _LEAST_NOISE
