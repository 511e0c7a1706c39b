"""Where training starts: principal directions, scales of noise and of steps."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, svds
from sklearn.neighbors import kneighbors_graph

from skdiffclust._affinity import neighbors_graph
from skdiffclust._encoder import Encoder
from skdiffclust._validation import extreme_rows

# Up to so many features their covariance is decomposed, else a product at a time is.
_MOST_FEATURES = 2048
_BLOCK_SAMPLES = 1024
# A step of Adam, in root mean squares of the weights of the first layer.
_STEP = 0.02
_MODULE_LEARNING_RATE = 1e-3
# Batches that the scale of the noise is read from, and its least value.
_N_BATCHES = 8
_LEAST_NOISE = 0.02


class Rates(NamedTuple):
    """What a fit is scaled by: the noise, and the steps of Adam."""

    noise_scale: float
    learning_rate: float


def principal_encoder(X, n_components, random_state):
    """Return the linear Encoder onto the first principal directions of X (n, d).

    The embedding is centred. With more components than min(n, d) the directions are
    rotated at random into all of them, which keeps all distances.
    """
    directions, mean = principal_directions(X, min(n_components, *X.shape))
    n_found = directions.shape[1]
    if n_found < n_components:
        drawn = random_state.normal(size=(n_components, n_found))
        directions = directions @ np.linalg.qr(drawn)[0].T
    dtype = X.dtype
    bias = -mean @ directions
    return Encoder([directions.astype(dtype)], [bias.astype(dtype)])


def principal_directions(X, n_directions):
    """Return orthonormal principal directions (d, n_directions) of X (n, d), the mean.

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
    largest = np.abs(directions).argmax(axis=0)
    signs = np.where(directions[largest, np.arange(n_directions)] < 0, -1.0, 1.0)
    return directions * signs, mean * unit


def _blocks(X, unit):
    """Yield dense blocks of X (n, d) over a unit, in float64."""
    for first in range(0, X.shape[0], _BLOCK_SAMPLES):
        rows = X[first : first + _BLOCK_SAMPLES]
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


def learning_rate_of(parameter, first_weights):
    """Return the step size of Adam: the parameter, or what "auto" is.

    A fiftieth of the root mean square of the weights (n_in, n_out) of the first layer
    at the start; 0.001 for a module, whose weights are None.
    """
    if parameter != "auto":
        return float(parameter)
    if first_weights is None:
        return _MODULE_LEARNING_RATE
    largest = float(np.abs(first_weights).max())
    if not 0 < largest < np.inf:
        return _MODULE_LEARNING_RATE
    shares = first_weights.astype(np.float64) / largest
    return _STEP * largest * float(np.sqrt(np.mean(shares * shares)))


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
