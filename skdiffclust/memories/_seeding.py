"""Initial memories: the best of several k-means, Euclidean or on the sphere."""

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from skdiffclust.memories._kernels import lloyd_step, lloyd_step_sparse

# Samples used in seeding, racing and selection; more would change little.
MAX_ROWS = 8192
LLOYD_STEPS = 300
TOLERANCE = 1e-4  # relative decrease of the cost below which a restart is abandoned
_EXCHANGED = 4  # largest number of memories that are moved at once
_EXCHANGE_STEPS = (4, 16)  # of Lloyd, before and after the cost is compared
_HOPELESS = 1.005  # relative cost above which an exchange is abandoned
_SINGLE = (4, 16)  # fewest and most ways to move one memory that are tried,
_SOURCES = 4  # memories of least use that are moved,
_SURE = 3.0  # times the gain of dividing a cluster: least cost of uniting two
_AXES = 64  # features up to which clusters have principal axes
_PRODUCTS = 200_000  # of about so many products of entries in all
_REASSIGNED = 500  # samples up to which single ones change their cluster
_MEDIAN_STEPS = 30
FINE = 1e-7  # the same where the winner is settled on all rows
_NO_DIRECTION = 1e-14  # length of a mean of directions that is rounding
_GAIN = 1e-6  # smallest relative gain of an exchange that is kept


def sample_rows(sample_weight, random_state):
    """Return at most MAX_ROWS samples of positive weight, sorted."""
    rows = np.flatnonzero(sample_weight > 0)
    if len(rows) > MAX_ROWS:
        rows = np.sort(random_state.choice(rows, MAX_ROWS, replace=False))
    return rows


def seed_memories(
    Z,
    weight,
    n_clusters,
    init,
    n_init,
    random_state,
    *,
    spherical=False,
    tol=TOLERANCE,
):
    """Return memories (n_init, k, d) and the cost (n_init,) of each restart.

    Z (m, d), dense or CSR, are samples in training units with weights (m,); with
    `spherical` they are of unit length, and so are the memories. "k-means++" settles
    its seeds by Lloyd's steps, which are the gradient steps of eq. (8) in the limit of
    a high inverse temperature: soft steps from raw seeds lose memories, steps from
    settled ones do not; a restart ends when its cost falls by less than `tol` of
    itself. "random" takes samples without any steps.
    """
    weight = np.asarray(weight, dtype=np.float64)
    squares = squared_lengths(Z)
    if init == "random":
        chosen = _random_rows(weight, n_clusters, n_init, random_state)
    else:
        chosen = _spread_rows(Z, squares, weight, n_clusters, n_init, random_state)
    steps = 0 if init == "random" else LLOYD_STEPS
    memories, costs = lloyd(
        Z, squares, weight, _take(Z, chosen), steps, tol=tol, spherical=spherical
    )
    return memories.astype(Z.dtype), costs


def squared_lengths(Z):
    """Return the squared lengths (m,), float64, of rows Z (m, d)."""
    if sparse.issparse(Z):
        squares = np.zeros(Z.shape[0])
        rows = np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
        np.add.at(squares, rows, np.square(Z.data, dtype=np.float64))
        return squares
    return np.einsum("ij,ij->i", Z, Z, dtype=np.float64)


def _take(Z, chosen):
    """Return rows of Z (m, d) by their numbers (r, k), dense float64 (r, k, d)."""
    rows = Z[chosen.ravel()]
    rows = rows.toarray() if sparse.issparse(rows) else rows
    return rows.astype(np.float64).reshape(*chosen.shape, Z.shape[1])


def _random_rows(weight, n_clusters, n_init, random_state):
    """Return distinct rows (n_init, k), by weight, as many as there are clusters."""
    share = weight / weight.sum()
    n_rows = len(weight)
    return np.stack(
        [
            random_state.choice(n_rows, n_clusters, replace=False, p=share)
            for _ in range(n_init)
        ]
    )


def _spread_rows(Z, squares, weight, n_clusters, n_init, random_state):
    """Return the rows (n_init, k) of greedy k-means++, all restarts at once.

    As in scikit-learn, each new row is the best of some that are drawn in proportion
    to their squared distance from the rows before.
    """
    n_trials = 2 + int(np.log(n_clusters))
    n_rows = Z.shape[0]
    restarts = np.arange(n_init)
    chosen = np.empty((n_init, n_clusters), dtype=np.int64)
    far = np.ones((n_init, n_rows))
    # Squared distances to the nearest chosen row less the squared length.
    nearest = np.full((n_init, 1, n_rows), np.inf)
    for c in range(n_clusters):
        mass = np.cumsum(far * weight, axis=1)
        drawn = random_state.uniform(size=(n_init, n_trials if c else 1))
        found = [
            np.searchsorted(line, where * line[-1], side="right")
            for line, where in zip(mass, drawn, strict=True)
        ]
        found = np.minimum(found, n_rows - 1)
        gaps = (-2.0 * Z[found.ravel()]) @ Z.T
        if sparse.issparse(gaps):
            gaps = gaps.toarray()
        gaps = gaps.astype(np.float64, copy=False).reshape(*found.shape, n_rows)
        gaps += squares[found][..., None]
        np.minimum(gaps, nearest, out=gaps)
        best = (gaps @ weight).argmin(axis=1)
        chosen[:, c] = found[restarts, best]
        nearest = gaps[restarts, best][:, None]
        far = np.maximum(nearest[:, 0] + squares, 0.0)
    return chosen


def lloyd(Z, squares, weight, memories, n_steps, *, tol=0.0, spherical=False):
    """Return memories (r, k, d) after Lloyd's steps on Z (m, d), and costs (r,).

    A restart ends when no sample changes its memory, or the cost falls by less than
    `tol` of itself. The costs are those of the memories that are returned.
    """
    n_rows = Z.shape[0]
    (n_init, k, d) = memories.shape
    memories = on_sphere(memories) if spherical else memories.copy()
    nearest = np.full((n_init, n_rows), -1)
    far = np.empty((n_init, n_rows))
    costs = np.full(n_init, np.inf)
    moving = np.arange(n_init)
    n_steps = n_steps if n_init else -1
    for step in range(n_steps + 1):
        part = memories[moving]
        norms = np.einsum("rkd,rkd->rk", part, part)
        products = Z @ part.reshape(-1, d).T.astype(Z.dtype)
        is_last = step == n_steps
        sums = np.zeros(part.shape)
        sizes = np.zeros((len(moving), k))
        if sparse.issparse(Z):
            moved = lloyd_step_sparse(
                squares, weight, products, norms, moving, nearest, far, sizes
            )
            if not is_last:
                for r, line in enumerate(nearest[moving]):
                    sums[r] = member_sums(Z, weight, line, k)
        else:
            moved = lloyd_step(
                Z, squares, weight, products, norms, moving, nearest, far, sums, sizes
            )
        before = costs[moving]
        costs[moving] = far[moving] @ weight
        if is_last:
            break
        moved &= ~(before - costs[moving] <= tol * costs[moving])
        moving = moving[moved]
        sums = sums[moved]
        sizes = sizes[moved]
        occupied = sizes > 0
        means = sums / np.where(occupied, sizes, 1.0)[..., None]
        empty = ~occupied.all(axis=1)
        means[~occupied] = memories[moving][~occupied]
        for r in np.flatnonzero(empty):
            # A memory without samples is moved to a sample far from all memories.
            lost = np.flatnonzero(~occupied[r])
            worst = np.argsort(-far[moving[r]] * weight, kind="stable")[: len(lost)]
            means[r, lost[: len(worst)]] = _take(Z, worst[None])[0]
        memories[moving] = on_sphere(means) if spherical else means
        if not len(moving):
            break
    return memories, costs


def member_sums(Z, weight, labels, n_clusters):
    """Return the weighted sums (k, d), dense, of the rows of each cluster."""
    where = labels, np.arange(len(labels))
    members = sparse.csr_array((weight, where), shape=(n_clusters, len(labels)))
    sums = members @ Z
    return sums.toarray() if sparse.issparse(sums) else sums


def on_sphere(memories):
    """Return memories (..., d) of unit length.

    Those of length zero, whose samples have no mean direction, get equal entries: all
    directions are equally far from their samples.
    """
    lengths = np.linalg.norm(memories, axis=-1, keepdims=True)
    is_zero = lengths <= _NO_DIRECTION
    directions = memories / np.where(is_zero, 1.0, lengths)
    return np.where(is_zero, memories.shape[-1] ** -0.5, directions)


def exchange(Z, weight, memories, cost, random_state, *, spherical=False):
    """Return memories (k, d) of no higher cost on Z (m, d), their cost, and whether the
    clusters are so far apart that no other place of one memory lowers it.

    Memories whose samples are almost as near to another one are moved into the clusters
    of the largest cost, and Lloyd's steps follow; moves that do not lower the cost are
    undone, and fewer memories are moved the next time, a single one in several ways at
    once. This corrects an error that restarts share: two memories in one group of
    samples, and one for two groups.
    """
    n_moved = min(_EXCHANGED, len(memories) // 2)
    n_single = int(np.clip(_PRODUCTS // (memories.size * Z.shape[0]), *_SINGLE))
    squares = squared_lengths(Z)
    options = {"tol": TOLERANCE, "spherical": spherical}
    few, more = _EXCHANGE_STEPS
    is_best = False
    while n_moved and cost > 0.0:
        near = _two_nearest(Z, squares, memories)
        is_best = _has_no_better_place(Z, weight, memories, near, spherical)
        if is_best:
            break
        n_trials = n_single if n_moved == 1 else 1
        trials = _moved(Z, weight, memories, near, n_moved, n_trials, random_state)
        trials, costs = lloyd(Z, squares, weight, trials, few, **options)
        trials = trials[costs < _HOPELESS * cost]
        trials, costs = lloyd(Z, squares, weight, trials, more, **options)
        if (costs < (1.0 - _GAIN) * cost).any():
            best = int(np.argmin(costs))
            memories = trials[best]
            cost = float(costs[best])
        else:
            n_moved //= 2
    if Z.shape[0] <= _REASSIGNED and not spherical:
        memories, cost = reassign(Z, weight, memories, cost)
    return memories, cost, is_best


def reassign(Z, weight, memories, cost):
    """Return memories (k, d) of no higher cost on Z (m, d), and their cost.

    Samples change their cluster one by one where that lowers the cost of clusters whose
    means follow (Hartigan's rule), which is possible after Lloyd's steps have ended.
    """
    Z = Z.astype(np.float64, copy=False)
    rows = np.arange(Z.shape[0])
    labels, _ = nearest_memory(Z, memories)
    for _ in rows:
        means, sizes = _means(Z, weight, labels, memories)
        far = _squared_distances(Z, means)
        left = sizes[labels] - weight
        share = np.divide(sizes[labels], left, out=np.zeros(len(rows)), where=left > 0)
        saved = weight * share * far[rows, labels]
        far *= weight[:, None] * sizes / (sizes + weight[:, None])
        far[rows, labels] = np.inf
        gain = saved - far.min(axis=1)
        moved = int(np.argmax(gain))
        if gain[moved] <= _GAIN * cost:
            break
        labels[moved] = far[moved].argmin()
    means, _ = _means(Z, weight, labels, memories)
    lower = float(weight @ _squared_distances(Z, means)[rows, labels])
    return (means, lower) if lower < cost else (memories, cost)


def _squared_distances(Z, means):
    """Return squared distances (m, k) of Z (m, d), dense or CSR, to means (k, d)."""
    if not sparse.issparse(Z):
        return cdist(Z, means, "sqeuclidean")
    lengths = np.einsum("kj,kj->k", means, means) + squared_lengths(Z)[:, None]
    return np.maximum(lengths - 2.0 * (Z @ means.T), 0.0)


def _means(Z, weight, labels, memories):
    """Return the means (k, d) of clusters of Z (m, d), and their sizes (k,).

    Where a cluster is empty, its memory (d,) stands for the mean.
    """
    members = np.zeros((len(memories), Z.shape[0]))
    members[labels, np.arange(Z.shape[0])] = weight
    sizes = members.sum(axis=1)
    occupied = sizes > 0
    means = memories.copy()
    means[occupied] = (members @ Z)[occupied] / sizes[occupied, None]
    return means, sizes


def _has_no_better_place(Z, weight, memories, near, spherical):
    """Return whether uniting any two clusters costs much more than dividing one gains.

    `near` is what `_two_nearest` returns for Z (m, d) and memories (k, d). The gain is
    at most the sum of squares along the first principal axis of a cluster. Other
    clusters adapt to a move, so that it must be several times smaller than the cost.
    """
    k, d = memories.shape
    nearest, first, _ = near
    # On the sphere the cost falls with the length of the sum of a cluster's samples.
    size = weight * (1.0 - 0.5 * first) if spherical else weight
    rise = _least_union(memories, np.bincount(nearest, size, minlength=k)) / _SURE
    error = np.bincount(nearest, weight * first, minlength=k)
    if rise > error.max():
        return True
    if rise * d <= error.max() or d > _AXES or spherical or sparse.issparse(Z):
        return False
    for m in np.flatnonzero(error >= rise):
        own = nearest == m
        gaps = Z[own] - memories[m]
        squares = (weight[own, None] * gaps).T @ gaps
        if np.linalg.eigvalsh(squares)[-1] >= rise:
            return False
    return True


def _moved(Z, weight, memories, near, n_moved, n_trials, random_state):
    """Return memories (t, k, d) of which some are moved, another way in each trial.

    `near` is what `_two_nearest` returns for Z (m, d) and memories (k, d).
    """
    k = len(memories)
    nearest, first, second = near
    error = np.bincount(nearest, weight * first, minlength=k)
    use = np.bincount(nearest, weight * (second - first), minlength=k)
    skipped = np.zeros(n_trials, dtype=np.int64)
    if n_moved == 1:
        skipped = np.arange(n_trials) // 2 % min(k - 1, _SOURCES)
    sources = np.argsort(use, kind="stable")[skipped[:, None] + np.arange(n_moved)]
    left = np.tile(error, (n_trials, 1))
    np.put_along_axis(left, sources, -np.inf, axis=1)
    targets = np.argsort(-left, axis=1, kind="stable")[:, :n_moved]
    drawn = random_state.uniform(size=targets.shape)
    rows = np.empty(targets.shape, dtype=np.int64)
    for target in np.unique(targets):
        mass = np.cumsum(np.where(nearest == target, weight * first, 0.0))
        here = targets == target
        found = np.searchsorted(mass, drawn[here] * mass[-1], side="right")
        rows[here] = np.minimum(found, len(mass) - 1)
    trials = np.tile(memories, (n_trials, 1, 1))
    trials[np.arange(n_trials)[:, None], sources] = _take(Z, rows)
    return trials


def _least_union(memories, sizes):
    """Return the least rise of the cost if two of the memories (k, d) become one.

    Ward's rule for sizes (k,), at most the rise on the sphere for lengths of sums.
    """
    used = sizes > 0
    memories, sizes = memories[used], sizes[used]
    if len(sizes) < len(used):
        return 0.0
    gaps = cdist(memories, memories, "sqeuclidean")
    gaps *= sizes[:, None] * sizes / (sizes[:, None] + sizes)
    np.fill_diagonal(gaps, np.inf)
    return gaps.min()


def lloyd_by_blocks(rows, slices, weight, memories, *, spherical=False):
    """Return memories (k, d) after Lloyd's steps on all samples, read block by block.

    `rows` returns samples in training units for a slice, `slices` cover all samples.
    """
    cost = np.inf
    for _ in range(LLOYD_STEPS):
        sums = np.zeros(memories.shape)
        sizes = np.zeros(len(memories))
        total = 0.0
        for chosen in slices:
            Z = rows(chosen)
            nearest, far = nearest_memory(Z, memories)
            sums += member_sums(Z, weight[chosen], nearest, len(memories))
            sizes += np.bincount(nearest, weight[chosen], minlength=len(memories))
            total += float(far @ weight[chosen])
        if cost - total <= FINE * total:
            break
        cost = total
        occupied = sizes > 0
        memories = memories.copy()
        memories[occupied] = sums[occupied] / sizes[occupied, None]
        memories = on_sphere(memories) if spherical else memories
    return memories


def lloyd_medians(Z, weight, memories):
    """Return memories (k, d) after Lloyd's steps by city-block distances on Z (m, d).

    Each memory becomes the weighted median of its samples, feature by feature.
    """
    Z = Z.astype(np.float64, copy=False)
    memories = memories.copy()
    nearest = np.full(len(Z), -1)
    for _ in range(_MEDIAN_STEPS):
        before = nearest
        nearest = cdist(Z, memories, "cityblock").argmin(axis=1)
        moved = before != nearest
        if not moved.any():
            break
        for m in np.union1d(before[moved], nearest[moved]):
            members = np.flatnonzero((nearest == m) & (weight > 0))
            if len(members):
                memories[m] = weighted_medians(Z[members], weight[members])
    return memories


def weighted_medians(Z, weight):
    """Return the weighted lower medians (d,) of rows Z (m, d)."""
    if (weight == weight[0]).all():
        # NumPy's sort is faster than its partition on most processors.
        return np.sort(np.ascontiguousarray(Z.T))[:, (len(Z) - 1) // 2]
    order = np.argsort(Z, axis=0, kind="stable")
    reached = np.cumsum(weight[order], axis=0) >= 0.5 * weight.sum()
    reached[-1] = True  # despite rounding of the sum
    chosen = order[reached.argmax(axis=0), np.arange(Z.shape[1])]
    return Z[chosen, np.arange(Z.shape[1])]


def _two_nearest(Z, squares, memories):
    """Return the nearest memory (m,), and squared distances to it and to the next."""
    norms = np.einsum("kj,kj->k", memories, memories)
    far = norms - 2.0 * (Z @ memories.T.astype(Z.dtype)).astype(np.float64)
    far += squares[:, None]
    nearest = far.argmin(axis=1)
    first, second = np.partition(far, 1, axis=1)[:, :2].T
    return nearest, np.maximum(first, 0.0), np.maximum(second, 0.0)


def nearest_memory(Z, memories):
    """Return the nearest memory (m,) of rows Z (m, d) and squared distances (m,)."""
    memories = memories.astype(np.float64, copy=False)
    norms = np.einsum("kj,kj->k", memories, memories)
    gaps = norms - 2.0 * (Z @ memories.T.astype(Z.dtype)).astype(np.float64)
    nearest = gaps.argmin(axis=1)
    distances = squared_lengths(Z) + gaps[np.arange(Z.shape[0]), nearest]
    return nearest, np.maximum(distances, 0.0)
