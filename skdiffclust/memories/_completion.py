"""Completion of samples among many memories, with a linear correction, in NumPy.

A sample is attracted by the memories that are near to it in its seen entries; hidden
entries are recalled as their mean under the softmax, the paper's attraction step. The
residuals of the seen entries, the sample minus its recall, correct the hidden ones by a
linear regression of residuals on each other. Without attraction this is the conditional
mean of a normal distribution; without the correction it is a kernel regression on the
seen features.

Covariances are lists of blocks (features (b,) or all, matrix (b, b)). Of up to 1000
features there is one block; of more there are several, of features that are correlated,
and residuals of different blocks do not depend on each other.
"""

from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from scipy.special import bdtrc
from sklearn.utils.extmath import randomized_svd

from skdiffclust._pairwise import product_by_sample
from skdiffclust._threads import small_products
from skdiffclust.memories._scaling import blocks

# Number of features above which they are divided into blocks of at most half as many.
_MOST_TOGETHER = 1000
_EM_STEPS = 20
_EM_WORK = 2e10  # approximate number of operations of the fit of a normal distribution
_EM_TOLERANCE = 3e-3  # root mean square change of entries, standardised
RIDGES = (0.02, 0.002)  # of the correction, which are tried
_FLOOR = 1e-6  # added to variances of standardised features
# Inverse temperatures that are tried, times the total variance; 0: no attraction.
CONCENTRATIONS = (5.0, 10.0, 20.0, 40.0, 80.0)
_HELD_OUT = (0.1, 0.25)  # least and largest share of seen entries hidden to choose
_HELD_OUT_ENTRIES = 200  # number of them, between these shares
_LARGEST_ERROR = 5.0  # of a hidden entry, in standard deviations: larger ones count so
_JUDGED = 500  # samples in which they are hidden, at most
_FEW = 8  # values of a feature of which none is far, if there are fewer
_LEFT_OUT = 0.002  # share of the values at each end, or one, beyond which a few are far
_EXTREME = 0.02  # share of the values at each end, or one, that are extreme
_APART = 20.0  # multiple of the range of the others beyond which extremes are far
_LONGEST_TAIL = 100.0  # the same multiple, beyond which far values are no tail
_BEYOND = (0.5, 1.0)  # multiples of the range of others beyond which values are far
_LARGEST_TIE = 0.1  # share of equal values that count as extreme
_CHANCE = 0.02  # level at which far values go with extremes by chance
_EXPLAINED = 0.5  # least share of a far value that other values explain


@dataclass(frozen=True)
class Completer:
    """Memories with their units and their regression."""

    mean: np.ndarray  # (d,) of the seen entries
    scale: np.ndarray  # (d,) standard deviation of the seen entries, 1 if constant
    near: np.ndarray  # (2, d) values beyond these are far
    bounds: np.ndarray  # (2, d) of completed values
    memories: np.ndarray  # (m, d) completed, standardised
    center: np.ndarray  # (d,) mean of samples, recall without attraction, standardised
    inverse: list  # of blocks, the inverse covariance of standardised samples
    precision: list  # of blocks, the inverse covariance of the residuals of the recall
    choice: "Choice"

    def complete(self, X):
        """Return X (n, d), float64, with NaN filled; what is seen stays as it is.

        Wrong values of a sample do not count for what is missing in it.
        """
        X = np.asarray(X, dtype=np.float64)
        filled = X.copy()
        incomplete = np.flatnonzero(np.isnan(X).any(axis=1))
        for rows in blocks(len(incomplete), max(len(self.memories), X.shape[1])):
            chosen = incomplete[rows]
            part = X[chosen]
            Z = (part - self.mean) / self.scale
            wrong = wrong_values(part, Z, self.near, self.center, self.inverse)
            seen = ~(np.isnan(part) | wrong)
            Z = np.where(seen, Z, 0.0)
            recalled = _recall(
                Z, seen, self.memories, self.center, self.choice.inverse_temperature
            )
            completed = _complete(Z, seen, recalled, self.precision, self.choice)
            completed = np.clip(completed * self.scale + self.mean, *self.bounds)
            filled[chosen] = np.where(np.isnan(part), completed, part)
        return filled


class Choice(NamedTuple):
    """What is chosen by hiding entries."""

    inverse_temperature: float  # for standardised features; 0: no attraction
    is_corrected: bool
    ridge: float


def far_values(X):
    """Return the least and largest values (2, d) of features that are not far.

    The other seen values of a feature of X (n, d) have a range, without one or two in
    1000 at each end, and so has their central 96 %. A value is far outside the first
    range by half of it, or outside the second by 20 times it. Since several far values
    widen these ranges, so is a value that is outside the range of those that are not
    far, by all of it. The result is infinite for features with fewer than 8 values.
    """
    n_features = X.shape[1]
    # Lower limits are upper ones of the values with the other sign.
    both = np.hstack([-X, X])
    limit, _ = _limits(both, _BEYOND[0])
    is_far = both > limit
    if is_far.any():
        is_far |= np.roll(is_far, n_features, axis=1)
        again, end = _limits(np.where(is_far, np.nan, both), _BEYOND[1])
        limit = np.minimum(limit, again)
        _with_tails(both, limit, end)
    return np.stack([-limit[:n_features], limit[n_features:]])


def _limits(both, multiple):
    """Return upper limits (2 d,) of values, and the ends of their central 96 %."""
    most = _ends(both, _LEFT_OUT)
    limit = most + multiple * _ranges(most)
    end = _ends(both, _EXTREME)
    limit = np.minimum(limit, end + _APART * _ranges(end, where_none=np.inf))
    limit[np.count_nonzero(~np.isnan(both), axis=0) < _FEW] = np.inf
    return limit, end


def _ends(both, share):
    """Return the largest values (2 d,) after a share of the values is left out.

    At least one value is left out.
    """
    count = np.count_nonzero(~np.isnan(both), axis=0)
    few = np.maximum(1, (share * count).astype(np.int64))
    few = np.minimum(few, (count - 1) // 2)
    return np.sort(both, axis=0)[count - 1 - few, np.arange(len(count))]


def _ranges(end, where_none=0.0):
    """Return ranges (2 d,) from upper ends of features and of their negatives.

    A range of zero, of a feature whose values are nearly all equal, is `where_none`.
    """
    ranges = end + np.roll(end, len(end) // 2)
    return np.where(ranges > 0, ranges, where_none)


def _with_tails(both, limit, end):
    """Raise upper limits (2 d,), in place, so that tails of features are within them.

    A tail is far values whose samples `both` (n, 2 d) are also extreme in another
    feature, beyond its `end` (2 d,), more often than by chance. Ranks decide, so that
    it does not matter how far wrong values are. A limit is raised by at most 100 times
    the range of the central 96 %.
    """
    is_far = both > limit
    tails = np.flatnonzero(is_far.any(axis=0))
    far = is_far[:, tails].astype(np.float64)
    seen = (~np.isnan(both)).astype(np.float64)
    extreme = both >= end
    is_tied = extreme.sum(axis=0) > _LARGEST_TIE * seen.sum(axis=0)
    extreme[:, is_tied] = (both > end)[:, is_tied]
    extreme = extreme.astype(np.float64)
    share = np.maximum(extreme.sum(axis=0) / seen.sum(axis=0), _EXTREME)
    n_seen = (far.T @ seen).astype(np.int64)
    chance = bdtrc(far.T @ extreme - 1.0, n_seen, share)
    itself = (tails[:, None] - np.arange(len(end))) % (len(end) // 2) == 0
    goes_with = (len(end) * chance < _CHANCE) & ~itself
    partners = goes_with.T.astype(np.float64)
    is_tail = (far > 0) & (2.0 * extreme @ partners > seen @ partners)
    longest = end + _LONGEST_TAIL * _ranges(end, where_none=np.inf)
    for tail, column in zip(tails, is_tail.T, strict=True):
        if column.sum() > 1:
            # Half of the range beyond all values but one, as elsewhere.
            value = np.sort(both[column, tail])[-2]
            beyond = value + 0.5 * (value + np.roll(end, len(end) // 2)[tail])
            limit[tail] = max(limit[tail], min(beyond, longest[tail]))


def wrong_values(X, Z, near, center, precision):
    """Return (n, d) True for values of samples X that are taken as missing.

    These values are far, and a regression on the values of the sample that are not
    wrong does not explain half of their distance from the center. If all values of a
    sample are far, it is an unusual sample, and none is wrong. Z (n, d) are the
    standardised samples; `center` (d,) and `precision`, the blocks of an inverse
    covariance, belong to them.
    """
    is_far = (X < near[0]) | (X > near[1])
    seen = ~np.isnan(X)
    n_far = is_far.sum(axis=1)
    is_far[(n_far > 1) & (n_far == seen.sum(axis=1))] = False
    wrong = np.zeros(X.shape, dtype=bool)
    rows, columns = np.nonzero(is_far)
    far = Z[rows, columns] - center[columns]
    itself = np.arange(len(rows)), columns
    n_before = -1
    while wrong.sum() > n_before:
        n_before = wrong.sum()
        others = seen[rows] & ~wrong[rows]
        others[itself] = False
        rest = np.where(others, Z[rows] - center, 0.0)
        unexplained = far - _carry_on(rest, others, precision)[itself]
        is_wrong = np.abs(unexplained) > (1.0 - _EXPLAINED) * np.abs(far)
        wrong[rows[is_wrong], columns[is_wrong]] = True
    return wrong


def fit_completer(
    X,
    *,
    n_memories,
    inverse_temperature,
    linear_correction,
    random_state,
    far="missing",
):
    """Return the `Completer` of samples X (n, d), NaN where entries are missing.

    Every feature has at least one entry; there may be no feature. `n_memories` samples
    at most are kept; `inverse_temperature` for standardised features, and
    `linear_correction`, are chosen by hiding a tenth of the seen entries where they are
    "auto". Far values are "missing" unless others explain them, or "observed".
    Completed values are between those that are seen and not missing.
    """
    X = np.asarray(X, dtype=np.float64)
    near = np.array([[-np.inf], [np.inf]]) * np.ones(X.shape[1])
    if far == "missing":
        near = far_values(X)
    kept = slice(None)
    if len(X) > n_memories:
        kept = np.sort(random_state.choice(len(X), n_memories, replace=False))
    seed = random_state.randint(2**31 - 1)
    shown = X
    is_far = (X < near[0]) | (X > near[1])
    with small_products(X.size * max(X.shape)):
        if is_far.any():
            # Whether they are wrong is decided without them.
            mean, scale, Z, seen = _standardised(np.where(is_far, np.nan, X), kept)
            _, center, covariance = _fit_normal(Z, seen, min(RIDGES))
            inverse = _inverse(covariance)
            wrong = wrong_values(X, (X - mean) / scale, near, center, inverse)
            shown = np.where(wrong, np.nan, X)
        mean, scale, Z, seen = _standardised(shown, kept)
        fits = []
        for ridge in RIDGES if linear_correction else RIDGES[:1]:
            normal = _fit_normal(Z, seen, ridge)
            choices = _choices(normal, ridge, inverse_temperature, linear_correction)
            fits.append((*_choose(Z, seen, choices, seed), normal))
        _, choice, normal = min(fits, key=itemgetter(0))
        memories, center, covariance = normal
        rows = np.arange(len(Z))
        recalled = _recall(Z, seen, memories, center, choice.inverse_temperature, rows)
        precision = _precision(normal, recalled, choice, rows)
        if choice.inverse_temperature:
            # Memories are completed by the others, as new samples will be.
            memories = _complete(Z, seen, recalled, precision, choice)
        inverse = _inverse(covariance)
    return Completer(
        mean=mean,
        scale=scale,
        near=near,
        bounds=np.stack([np.nanmin(shown, axis=0), np.nanmax(shown, axis=0)]),
        memories=memories,
        center=center,
        inverse=inverse,
        precision=precision,
        choice=choice,
    )


def _standardised(X, kept):
    """Return units (d,) of X (n, d), its standardised `kept` samples, and what is seen.

    The units are the means and the standard deviations of the seen values. Hidden
    entries of the samples are zero.
    """
    mean = np.nanmean(X, axis=0)
    gaps = X - mean
    largest = np.nanmax(np.abs(gaps), axis=0)
    # The squares of these ratios do not underflow.
    ratios = gaps / np.where(largest > 0, largest, 1.0)
    scale = largest * np.sqrt(np.nanmean(np.square(ratios), axis=0))
    # A spread within rounding error is that of a constant feature.
    is_constant = scale <= 1e-9 * np.maximum(np.abs(mean), largest)
    scale = np.where(is_constant | (scale == 0), 1.0, scale)
    seen = ~np.isnan(X[kept])
    return mean, scale, np.where(seen, (X[kept] - mean) / scale, 0.0), seen


def _choices(normal, ridge, inverse_temperature, linear_correction):
    """Return the choices that a fit has, with one memory for each sample."""
    variance = max(float(normal[0].var(axis=0).sum()), _FLOOR)
    temperatures = (0.0, *(c / variance for c in CONCENTRATIONS))
    if inverse_temperature != "auto":
        temperatures = (float(inverse_temperature),)
    is_open = linear_correction == "auto"
    corrections = (True, False) if is_open else (linear_correction,)
    return [
        Choice(beta, is_corrected, ridge)
        for beta in temperatures
        for is_corrected in corrections
    ]


def _choose(Z, seen, choices, seed):
    """Return the least squared error of completing hidden entries, and its choice.

    Some of the seen entries of Z (n, d) are hidden for that.
    """
    # A separate stream: if the user hid entries with the same seed, the first numbers
    # of the given stream would select the same entries again.
    random_state = np.random.RandomState(seed)
    share = np.clip(_HELD_OUT_ENTRIES / max(seen.sum(), 1), *_HELD_OUT)
    hidden = seen & (random_state.uniform(size=seen.shape) < share)
    # Each sample and each feature keeps the entries that completing it needs.
    hidden[seen.sum(axis=1) - hidden.sum(axis=1) < 1] = False
    hidden[:, seen.sum(axis=0) - hidden.sum(axis=0) < 2] = False
    if not hidden.any():
        return 0.0, choices[0]
    shown = seen & ~hidden
    Z_shown = np.where(shown, Z, 0.0)
    normal = _fit_normal(Z_shown, shown, choices[0].ridge)
    rows = np.flatnonzero(hidden.any(axis=1))
    if len(rows) > _JUDGED:
        rows = np.sort(random_state.choice(rows, _JUDGED, replace=False))
    recalled = {}
    errors = []
    for choice in choices:
        beta = choice.inverse_temperature
        if beta not in recalled:
            recalled[beta] = _recall(
                Z_shown[rows], shown[rows], *normal[:2], beta, rows
            )
        precision = _precision(normal, recalled[beta], choice, rows)
        completed = _complete(
            Z_shown[rows], shown[rows], recalled[beta], precision, choice
        )
        squares = np.square(completed - Z[rows])[hidden[rows]]
        # No single entry decides then.
        errors.append(float(np.minimum(squares, _LARGEST_ERROR**2).mean()))
    best = int(np.argmin(errors))
    return errors[best], choices[best]


def _precision(normal, recalled, choice, rows):
    """Return the inverse covariance of the residuals of samples by number."""
    filled, _, covariance = normal
    if choice.inverse_temperature:
        rest = filled[rows] - recalled
        parts = [(columns, rest[:, columns]) for columns, _ in covariance]
        covariance = [
            (columns, _shrunk(part.T @ part / len(rest), len(rest), choice.ridge))
            for columns, part in parts
        ]
    return _inverse(covariance)


def _inverse(covariance):
    """Return the inverse of the blocks of a covariance."""
    return [(columns, np.linalg.inv(matrix)) for columns, matrix in covariance]


def _complete(Z, seen, recalled, precision, choice):
    """Return completed samples (n, d); hidden entries of Z (n, d) are zeros."""
    completed = recalled
    if choice.is_corrected:
        rest = np.where(seen, Z - recalled, 0.0)
        completed = recalled + _carry_on(rest, seen, precision)
    return np.where(seen, Z, completed)


def _recall(Z, seen, memories, center, beta, itself=None):
    """Return the mean of the memories (n, d) under their attraction of samples.

    With `beta` 0 it is the center. `itself` (n,) is the number of the memory that each
    sample is, which is left out.
    """
    if not beta:
        return np.broadcast_to(center, Z.shape)
    # A fit may depend on the order of summation over samples, a prediction may not.
    multiply = product_by_sample if itself is None else np.matmul
    recalled = np.empty(Z.shape)
    squares = np.ascontiguousarray(np.square(memories).T)
    transposed = np.ascontiguousarray(memories.T)
    for rows in blocks(len(Z), len(memories)):
        mask = seen[rows].astype(np.float64)
        # Only seen entries count, scaled up to all of them.
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


def _carry_on(rest, seen, precision):
    """Return the conditional means (n, d) of hidden entries given the seen ones.

    Entries have mean zero, and `precision` are the blocks of their inverse covariance.
    `rest` is zero where hidden, and the result is zero where seen.
    """
    carried = np.empty(rest.shape)
    for columns, matrix in precision:
        carried[:, columns] = _carry_on_block(
            rest[:, columns], seen[:, columns], matrix
        )[0]
    return carried


def _carry_on_block(rest, seen, precision, with_spread=False):
    """Return the conditional means (n, b) of one block, of inverse covariance (b, b).

    Also returns the sum (b, b) of the covariances of hidden entries, if requested.
    Samples with as many hidden entries are solved for together.
    """
    n_features = rest.shape[1]
    carried = np.zeros(rest.shape)
    spread = np.zeros(n_features**2)
    n_hidden = n_features - seen.sum(axis=1)
    pull = (np.matmul if with_spread else product_by_sample)(rest, precision)
    sizes = np.unique(n_hidden[n_hidden > 0])
    with small_products(sizes.max(initial=0) ** 3):
        for size in sizes:
            alike = np.flatnonzero(n_hidden == size)
            where = np.nonzero(~seen[alike])[1].reshape(len(alike), size)
            for some in blocks(len(alike), 4 * size * size):
                rows = alike[some]
                features = where[some]
                block = precision[features[:, :, None], features[:, None, :]]
                right = np.take_along_axis(pull[rows], features, axis=1)
                if with_spread:
                    inverse = np.linalg.inv(block)
                    solved = inverse @ right[:, :, None]
                    flat = features[:, :, None] * n_features + features[:, None, :]
                    spread += np.bincount(flat.ravel(), inverse.ravel(), len(spread))
                else:
                    solved = np.linalg.solve(block, right[:, :, None])
                carried[rows[:, None], features] = -solved[:, :, 0]
    return carried, spread.reshape(n_features, n_features)


def _fit_normal(Z, seen, ridge):
    """Return completed samples (n, d), mean (d,) and blocks of a covariance."""
    n_features = Z.shape[1]
    parts = [slice(None)]
    if n_features > _MOST_TOGETHER:
        parts = _correlated(Z, np.arange(n_features))
    filled = np.empty(Z.shape)
    mean = np.empty(n_features)
    covariance = []
    for columns in parts:
        filled[:, columns], mean[columns], matrix = _fit_block(
            Z[:, columns], seen[:, columns], ridge
        )
        covariance.append((columns, matrix))
    return filled, mean, covariance


def _correlated(Z, columns):
    """Return columns of Z (n, d), zero where hidden, in blocks of correlated ones.

    Columns are divided into halves by their weights in the principal direction of the
    samples, after each is centred. Halves are divided further until a block has at most
    500 columns.
    """
    if len(columns) <= _MOST_TOGETHER // 2:
        return [columns]
    part = Z[:, columns]
    centred = part - part.mean(axis=1, keepdims=True)
    weights = randomized_svd(centred, 1, random_state=0)[2][0]
    order = np.argsort(weights, kind="stable")
    halves = np.array_split(columns[order], 2)
    return [block for half in halves for block in _correlated(Z, half)]


def _fit_block(Z, seen, ridge):
    """Return completed samples (n, b), mean (b,) and covariance (b, b) of a block.

    They are found by expectation and maximisation, which starts from the covariance of
    the pairs that are seen.
    """
    n_samples, n_features = Z.shape
    mask = seen.astype(np.float64)
    covariance = Z.T @ Z / np.maximum(mask.T @ mask, 1.0)
    values, vectors = np.linalg.eigh(_shrunk(covariance, n_samples, ridge))
    covariance = (vectors * np.maximum(values, ridge)) @ vectors.T
    mean = np.zeros(n_features)
    filled = Z
    work = np.sum((n_features - seen.sum(axis=1)).astype(np.float64) ** 3)
    n_steps = int(np.clip(_EM_WORK / max(work, 1.0), 2, _EM_STEPS))
    for _ in range(n_steps):
        before = filled
        rest = np.where(seen, Z - mean, 0.0)
        carried, spread = _carry_on_block(rest, seen, np.linalg.inv(covariance), True)
        filled = np.where(seen, Z, carried + mean)
        mean = filled.mean(axis=0)
        gaps = filled - mean
        covariance = _shrunk((gaps.T @ gaps + spread) / n_samples, n_samples, ridge)
        if np.linalg.norm(filled - before) <= _EM_TOLERANCE * np.sqrt(filled.size):
            break
    return filled, mean, covariance


def _shrunk(covariance, n_samples, ridge):
    """Return an invertible covariance (d, d), shrunk towards its diagonal."""
    ridge = min(0.5, ridge + 0.1 * len(covariance) / n_samples)
    diagonal = np.diag(np.diag(covariance))
    return (
        (1.0 - ridge) * covariance + ridge * diagonal + _FLOOR * np.eye(len(diagonal))
    )
