"""Completion of samples among many memories, with a linear correction, in NumPy.

A sample is attracted by the memories that are near to it in its seen entries; hidden
entries are recalled as their mean under the softmax, the paper's attraction step. The
residuals of the seen entries, the sample minus its recall, correct the hidden ones by a
linear regression of residuals on each other. Without attraction this is the conditional
mean of a normal distribution; without the correction it is a kernel regression on the
seen features.
"""

from dataclasses import dataclass

import numpy as np

from skdiffclust._products import product_by_sample

_COMPLETION_BLOCK_ENTRIES = 2**21
_EM_STEPS = 20
_EM_WORK = 2e10  # approximate number of operations of the fit of a normal distribution
_EM_TOLERANCE = 3e-3  # root mean square change of entries, standardised
_RIDGE = 0.02  # share of the diagonal in a covariance, and more with few samples
_FLOOR = 1e-6  # added to variances of standardised features
# Inverse temperatures that are tried, times the total variance; 0: no attraction.
CONCENTRATIONS = (5.0, 10.0, 20.0, 40.0, 80.0)
_HELD_OUT = 0.1  # share of the seen entries that are hidden to choose
_JUDGED = 500  # samples in which they are hidden, at most


@dataclass(frozen=True)
class Completer:
    """Memories with their units and their regression."""

    mean: np.ndarray  # (d,) of the seen entries
    scale: np.ndarray  # (d,) standard deviation of the seen entries, 1 if constant
    memories: np.ndarray  # (m, d) completed, standardised
    center: np.ndarray  # (d,) recall without attraction, standardised
    precision: np.ndarray  # (d, d) inverse covariance of the residuals of the recall
    inverse_temperature: float  # for standardised features; 0: no attraction
    is_corrected: bool

    def complete(self, X):
        """Return X (n, d), float64, with NaN filled; what is seen stays as it is."""
        X = np.asarray(X, dtype=np.float64)
        filled = X.copy()
        rows = np.flatnonzero(np.isnan(X).any(axis=1))
        step = max(1, _COMPLETION_BLOCK_ENTRIES // max(len(self.memories), X.shape[1]))
        for start in range(0, len(rows), step):
            chosen = rows[start : start + step]
            seen = ~np.isnan(X[chosen])
            Z = np.where(seen, (X[chosen] - self.mean) / self.scale, 0.0)
            recalled = _recall(
                Z, seen, self.memories, self.center, self.inverse_temperature
            )
            found = _complete(Z, seen, recalled, self.precision, self.is_corrected)
            found = found * self.scale + self.mean
            filled[chosen] = np.where(seen, X[chosen], found)
        return filled


def fit_completer(
    X, *, n_memories, inverse_temperature, linear_correction, random_state
):
    """Return the `Completer` of samples X (n, d), NaN where entries are missing.

    Every feature has at least one entry. `n_memories` samples at most are kept;
    `inverse_temperature` for standardised features and `linear_correction` are chosen
    by hiding a tenth of the seen entries where they are "auto".
    """
    X = np.asarray(X, dtype=np.float64)
    seen = ~np.isnan(X)
    count = seen.sum(axis=0)
    mean = np.where(seen, X, 0.0).sum(axis=0) / count
    gaps = np.where(seen, X - mean, 0.0)
    scale = np.sqrt(np.square(gaps).sum(axis=0) / count)
    # A spread within rounding error is that of a constant feature.
    is_constant = scale <= 1e-9 * np.maximum(np.abs(mean), np.abs(gaps).max(axis=0))
    scale = np.where(is_constant | (scale == 0), 1.0, scale)
    Z = gaps / scale
    if len(X) > n_memories:
        kept = np.sort(random_state.choice(len(X), n_memories, replace=False))
        Z = Z[kept]
        seen = seen[kept]

    normal = _fit_normal(Z, seen)
    temperatures = (0.0, *(c / _total_variance(normal[0]) for c in CONCENTRATIONS))
    if inverse_temperature != "auto":
        temperatures = (float(inverse_temperature),)
    corrections = (True, False) if linear_correction == "auto" else (linear_correction,)
    candidates = [(b, fix) for b in temperatures for fix in corrections if b or fix]
    candidates = candidates or [(0.0, False)]
    best = candidates[0]
    if len(candidates) > 1 and seen.sum() > seen.shape[0]:
        best = _choose(Z, seen, candidates, random_state)
    memories, center, precision, recalled = _learn(Z, seen, normal, best[0])
    if best[0]:
        # Memories are completed by the others, as new samples will be.
        memories = _complete(Z, seen, recalled, precision, best[1])
    return Completer(mean, scale, memories, center, precision, *best)


def _total_variance(Z):
    """Return the sum of the variances of features, positive."""
    return max(float(Z.var(axis=0).sum()), _FLOOR)


def _choose(Z, seen, candidates, random_state):
    """Return the candidate that completes hidden entries best: see `fit_completer`."""
    # A separate stream: if the user hid entries with the same seed, the first numbers
    # of the given stream would select the same entries again.
    random_state = np.random.RandomState(random_state.randint(2**31 - 1))
    hidden = seen & (random_state.uniform(size=seen.shape) < _HELD_OUT)
    # Each sample and each feature keeps the entries that completing it needs.
    hidden[seen.sum(axis=1) - hidden.sum(axis=1) < 1] = False
    hidden[:, seen.sum(axis=0) - hidden.sum(axis=0) < 2] = False
    if not hidden.any():
        return candidates[0]
    shown = seen & ~hidden
    Z_shown = np.where(shown, Z, 0.0)
    normal = _fit_normal(Z_shown, shown)
    rows = np.flatnonzero(hidden.any(axis=1))
    if len(rows) > _JUDGED:
        rows = np.sort(random_state.choice(rows, _JUDGED, replace=False))
    learned = {}
    errors = []
    for beta, is_corrected in candidates:
        if beta not in learned:
            learned[beta] = _learn(Z_shown, shown, normal, beta, rows)
        *_, precision, recalled = learned[beta]
        found = _complete(Z_shown[rows], shown[rows], recalled, precision, is_corrected)
        errors.append(float(np.square(found - Z[rows])[hidden[rows]].mean()))
    return candidates[int(np.argmin(errors))]


def _learn(Z, seen, normal, beta, rows=None):
    """Return memories (m, d), center (d,) and precision (d, d) for a temperature.

    The precision is that of all samples, or of some numbers of samples. Also returns
    what these samples recall, each from the other memories.
    """
    filled, mean, covariance = normal
    rows = np.arange(len(Z)) if rows is None else rows
    recalled = _recall(Z[rows], seen[rows], filled, mean, beta, rows)
    if beta:
        rest = filled[rows] - recalled
        covariance = _shrunk(rest.T @ rest / len(rest), len(rest))
    return filled, mean, np.linalg.inv(covariance), recalled


def _complete(Z, seen, recalled, precision, is_corrected):
    """Return completed samples (n, d); hidden entries of Z (n, d) are zeros."""
    found = recalled
    if is_corrected:
        rest = np.where(seen, Z - recalled, 0.0)
        found = recalled + _carry_on(rest, seen, precision)[0]
    return np.where(seen, Z, found)


def _recall(Z, seen, memories, center, beta, itself=None):
    """Return the mean of the memories (n, d) under their attraction of samples.

    With a temperature of 0 it is the center. `itself` (n,) is the number of the memory
    that each sample is, which is left out.
    """
    if not beta:
        return np.broadcast_to(center, Z.shape)
    # A fit may depend on the order of summation over samples, a prediction may not.
    multiply = product_by_sample if itself is None else np.matmul
    recalled = np.empty(Z.shape)
    squares = np.ascontiguousarray(np.square(memories).T)
    transposed = np.ascontiguousarray(memories.T)
    step = max(1, _COMPLETION_BLOCK_ENTRIES // max(len(memories), 1))
    for start in range(0, len(Z), step):
        rows = slice(start, start + step)
        mask = seen[rows].astype(np.float64)
        # Seen entries only, scaled up to all of them.
        far = multiply(mask, squares)
        far -= 2.0 * multiply(Z[rows], transposed)
        far *= (Z.shape[1] / np.maximum(mask.sum(axis=1), 1.0))[:, None]
        if itself is not None:
            far[np.arange(len(far)), itself[rows]] = np.inf
        least = far.min(axis=1, keepdims=True)
        far -= np.where(np.isfinite(least), least, 0.0)
        share = np.exp(-beta * far)
        total = share.sum(axis=1, keepdims=True)
        share /= np.where(total > 0, total, 1.0)
        recalled[rows] = multiply(share, memories)
    return recalled


def _carry_on(rest, seen, precision, with_spread=False):
    """Return hidden entries (n, d) given the seen ones, which are zero in the result.

    Both are of mean zero with an inverse covariance (d, d); `rest` is zero where
    hidden. Also returns the sum (d, d) of the covariances of hidden entries, if
    requested. Samples with as many hidden entries are solved for together.
    """
    n_features = rest.shape[1]
    found = np.zeros(rest.shape)
    spread = np.zeros(n_features**2)
    n_hidden = n_features - seen.sum(axis=1)
    pull = (np.matmul if with_spread else product_by_sample)(rest, precision)
    for size in np.unique(n_hidden[n_hidden > 0]):
        alike = np.flatnonzero(n_hidden == size)
        where = np.nonzero(~seen[alike])[1].reshape(len(alike), size)
        step = max(1, _COMPLETION_BLOCK_ENTRIES // (4 * size * size))
        for start in range(0, len(alike), step):
            rows = alike[start : start + step]
            features = where[start : start + step]
            block = precision[features[:, :, None], features[:, None, :]]
            right = np.take_along_axis(pull[rows], features, axis=1)
            if with_spread:
                inverse = np.linalg.inv(block)
                solved = inverse @ right[:, :, None]
                flat = features[:, :, None] * n_features + features[:, None, :]
                spread += np.bincount(flat.ravel(), inverse.ravel(), n_features**2)
            else:
                solved = np.linalg.solve(block, right[:, :, None])
            found[rows[:, None], features] = -solved[:, :, 0]
    return found, spread.reshape(n_features, n_features)


def _fit_normal(Z, seen):
    """Return completed samples (n, d), mean (d,) and covariance of a normal one.

    By expectation and maximisation, from the covariance of the pairs that are seen.
    """
    n_samples, n_features = Z.shape
    mask = seen.astype(np.float64)
    pairs = mask.T @ mask
    covariance = Z.T @ Z / np.maximum(pairs, 1.0)
    values, vectors = np.linalg.eigh(_shrunk(covariance, n_samples))
    covariance = (vectors * np.maximum(values, _RIDGE)) @ vectors.T
    mean = np.zeros(n_features)
    filled = Z
    work = np.sum((n_features - seen.sum(axis=1)).astype(np.float64) ** 3)
    n_steps = int(np.clip(_EM_WORK / max(work, 1.0), 2, _EM_STEPS))
    for _ in range(n_steps):
        before = filled
        rest = np.where(seen, Z - mean, 0.0)
        found, spread = _carry_on(rest, seen, np.linalg.inv(covariance), True)
        filled = np.where(seen, Z, found + mean)
        mean = filled.mean(axis=0)
        gaps = filled - mean
        covariance = _shrunk((gaps.T @ gaps + spread) / n_samples, n_samples)
        if np.sqrt(np.mean(np.square(filled - before))) < _EM_TOLERANCE:
            break
    return filled, mean, covariance


def _shrunk(covariance, n_samples):
    """Return an invertible covariance (d, d), shrunk towards its diagonal."""
    ridge = min(0.5, _RIDGE + 0.1 * len(covariance) / n_samples)
    diagonal = np.diag(np.diag(covariance))
    return (
        (1.0 - ridge) * covariance + ridge * diagonal + _FLOOR * np.eye(len(diagonal))
    )
