"""The units of training: centred samples with features of size about one."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skdiffclust._batches import RowsOnDemand
from skdiffclust._pairwise import extremes, unit_rows
from skdiffclust.memories._medians import weighted_medians

_BLOCK_ENTRIES = 2**21  # of the temporary arrays of a block of samples
_CUT = 10.0  # largest deviation that counts, over the median one
_CUT_ROWS = 8192  # largest number of samples of which the median is computed
_REACH = 5.0  # largest distance from the median, over the median one, of `drawn_in`
_FEW = 0.05  # largest share of the samples beyond it, or one of them


@dataclass(frozen=True)
class MemoryScaling:
    """Shift (d,) and scale from the units of the user to those of training."""

    metric: str
    shift: np.ndarray  # (d,) float64
    scale: float
    fill: np.ndarray  # (d,) float64, training units: initial values of hidden features
    inverse_temperature: float  # in the units of the user
    reach: tuple = (0.0, np.inf)  # centre (d,) and largest distance from it

    @property
    def beta(self):
        """The inverse temperature in training units."""
        power = {"euclidean": 2, "manhattan": 1, "cosine": 0}[self.metric]
        return self.inverse_temperature * self.scale**power

    @property
    def loss_unit(self):
        """One unit of the training loss, in the units of the user."""
        return self.scale if self.metric == "manhattan" else self.scale**2

    def transform(self, X):
        """Return samples (m, d) in training units, new, of the dtype and kind of X."""
        rows = X.astype(np.float64)
        if self.metric == "cosine":
            rows = unit_rows(rows)
        if sparse.issparse(rows):  # its shift is zero
            rows.data /= self.scale
        else:
            rows = drawn_in(rows, *self.reach)
            rows -= self.shift
            rows /= self.scale
        return rows.astype(X.dtype, copy=False)

    def inverse_transform(self, memories):
        """Return memories (k, d), float64, in the units of the user."""
        return memories.astype(np.float64) * self.scale + self.shift


def blocks(n_samples, width):
    """Yield slices of samples that keep arrays with `width` entries a sample small."""
    step = max(1, _BLOCK_ENTRIES // width)
    for start in range(0, n_samples, step):
        yield slice(start, start + step)


def by_blocks(function, X, *others, width=1):
    """Return the results (n, ...) of a function of samples X (n, d), by blocks.

    The function also gets the same samples of `others` (n, ...). `width` is the number
    of entries that it needs for a sample, if that is more than d.
    """
    slices = blocks(X.shape[0], max(width, X.shape[1]))
    parts = [function(X[rows], *(each[rows] for each in others)) for rows in slices]
    return np.concatenate(parts)


def dense(X):
    """Return X as an array; a block of sparse rows becomes one."""
    return X.toarray() if sparse.issparse(X) else X


def drawn_in(X, center, distance):
    """Return X (n, d), its samples moved to a largest distance from a centre.

    X is dense or CSR; in CSR, moved samples have the entries of the centre, too.
    """
    if np.isinf(distance):
        return X
    if sparse.issparse(X):
        far = by_blocks(
            lambda rows: np.sqrt(_deviations(dense(rows), center, "euclidean")), X
        )
        share = distance / far.clip(distance)
        moved = sparse.csr_array((1.0 - share)[:, None]) @ sparse.csr_array([center])
        return sparse.diags_array(share) @ X + moved
    gap = X - center
    far = np.sqrt(np.square(gap).sum(axis=1, keepdims=True))
    return np.where(far > distance, center + distance / far.clip(distance) * gap, X)


def reach_of(X, sample_weight):
    """Return the median (d,) of X, and a distance from it that few samples exceed.

    It is infinite if they are not few. X is dense, or `RowsOnDemand`.
    """
    center, typical = _typical(X, sample_weight, "euclidean")
    far = by_blocks(lambda rows: _deviations(rows, center, "euclidean"), X)
    n_far = np.count_nonzero(far[sample_weight > 0] > _REACH**2 * typical)
    are_few = n_far <= max(1.0, _FEW * np.count_nonzero(sample_weight))
    return center, _REACH * np.sqrt(typical) if are_few and typical > 0 else np.inf


def scaling_of(
    X, sample_weight, metric, mask_value, inverse_temperature, concentration
):
    """Return the `MemoryScaling` of samples X (n, d) under their weights (n,).

    `inverse_temperature` is a number, or "auto": `concentration` over the total
    variance of the samples (twice that of their directions for "cosine", because the
    squared distance of directions is twice one minus the cosine; over the total mean
    absolute deviation for "manhattan"), without what a few far samples add to it. Reads
    X up to five times, by blocks. Sparse samples are not centred, which would make them
    dense.
    """
    # Sums over many samples must not overflow; a power of two changes no bits.
    sample_weight = np.ldexp(sample_weight, -np.frexp(sample_weight.sum())[1])
    moments = _sparse_moments if sparse.issparse(X) else _moments
    mean, spread = moments(X, sample_weight, metric)
    shift = mean
    if sparse.issparse(X) or metric == "cosine":
        shift = np.zeros(X.shape[1])
    hidden = mean
    if mask_value != "mean" and not sparse.issparse(X):
        least, most = extremes(X[sample_weight > 0])
        hidden = least if mask_value == "min" else most
    scale = 1.0
    if metric != "cosine" and spread > 0:
        mean_spread = spread / X.shape[1]
        scale = mean_spread if metric == "manhattan" else np.sqrt(mean_spread)
    if inverse_temperature == "auto":
        if metric != "cosine":
            spread = _cut_spread(X, sample_weight, metric, spread)
        with np.errstate(over="ignore"):
            inverse_temperature = concentration / (spread if spread > 0 else 1.0)
        inverse_temperature *= 2.0 if metric == "cosine" else 1.0
        if not np.isfinite(inverse_temperature):
            raise ValueError(
                "The samples of X must have a variance that can be divided by. Got a "
                f"total of {spread:.3g} instead, for which inverse_temperature='auto' "
                "overflows: rescale X, e.g. with StandardScaler."
            )
    fill = (hidden - shift) / scale
    return MemoryScaling(metric, shift, scale, fill, float(inverse_temperature))


def _moments(X, sample_weight, metric):
    """Return mean (d,) and total spread of dense rows."""
    unit = unit_rows if metric == "cosine" else np.asarray
    # Exact where a feature is constant.
    origin = unit(X[:1].astype(np.float64))[0]
    total = np.zeros(X.shape[1])
    for rows in blocks(*X.shape):
        total += sample_weight[rows] @ (unit(X[rows].astype(np.float64)) - origin)
    mean = origin + total / sample_weight.sum()
    spread = 0.0
    for rows in blocks(*X.shape):
        far = _deviations(unit(X[rows].astype(np.float64)), mean, metric)
        spread += float(sample_weight[rows] @ far)
    return mean, spread / float(sample_weight.sum())


def _cut_spread(X, sample_weight, metric, spread):
    """Return the total spread of rows, in which far samples count less.

    Deviations from the median are cut at a multiple of the median one, unless half of
    the samples are equal but for rounding.
    """
    center, typical = _typical(X, sample_weight, metric)
    cut = _CUT * typical
    if cut <= np.finfo(np.float64).eps * spread:
        return spread
    if sparse.issparse(X):
        far = _deviations(X, center, metric)
    else:
        far = by_blocks(lambda rows: _deviations(rows, center, metric), X)
    total = float(sample_weight @ np.minimum(far, cut))
    return min(spread, total / float(sample_weight.sum()))


def _typical(X, sample_weight, metric):
    """Return the median (d,) of rows, and the median deviation from it."""
    rows = np.flatnonzero(sample_weight)
    rows = rows[:: -(-len(rows) // _CUT_ROWS)]
    weight = sample_weight[rows]
    # Medians of sparse columns need only what is stored.
    stored = X.X[rows] if isinstance(X, RowsOnDemand) else X[rows]
    center = weighted_medians(stored.astype(np.float64), weight)
    far = np.concatenate(
        [
            _deviations(X[rows[block]], center, metric)
            for block in blocks(len(rows), X.shape[1])
        ]
    )
    return center, weighted_medians(far[:, None], weight)[0]


def _deviations(X, center, metric):
    """Return the distances (m,) of rows from a centre, squared if Euclidean."""
    if sparse.issparse(X):
        return _sparse_deviations(X.astype(np.float64), center)
    gap = X.astype(np.float64) - center
    gap = np.abs(gap) if metric == "manhattan" else np.square(gap)
    return gap.sum(axis=1)


def _sparse_deviations(X, center):
    """Return the squared distances (m,) of CSR rows from a centre (d,)."""
    stored = center[X.indices]

    def sums(values):
        return sparse.csr_array((values, X.indices, X.indptr), X.shape).sum(axis=1)

    length = np.square(center).sum()
    others = length - sums(np.square(stored))
    others[others <= 1e-12 * length] = 0.0  # rounding error of the difference
    return sums(np.square(X.data - stored)) + others


def _sparse_moments(X, sample_weight, metric):
    """Return mean (d,) and total variance of CSR rows."""
    rows = X.astype(np.float64)
    if metric == "cosine":
        rows = unit_rows(rows)
    mean = sample_weight @ rows / sample_weight.sum()
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    spread = sample_weight @ squares / sample_weight.sum() - mean @ mean
    # Nothing but rounding error if all samples are equal.
    rounding = 1e-12 * float(squares.max(initial=0.0))
    return mean, float(spread) if spread > rounding else 0.0
