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
_FAILURES = 4  # exchanges of one memory that may fail in a row
_MEDIAN_STEPS = 30
FINE = 1e-7  # the same where the winner is settled on all rows
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
    for c in range(n_clusters):
        mass = np.cumsum(far * weight, axis=1)
        drawn = random_state.uniform(size=(n_init, n_trials if c else 1))
        found = [
            np.searchsorted(line, where * line[-1], side="right")
            for line, where in zip(mass, drawn, strict=True)
        ]
        found = np.minimum(found, n_rows - 1)
        products = Z[found.ravel()] @ Z.T
        if sparse.issparse(products):
            products = products.toarray()
        products = products.astype(np.float64, copy=False)
        gaps = squares + squares[found][..., None]
        gaps -= 2.0 * products.reshape(gaps.shape)
        np.maximum(gaps, 0.0, out=gaps)
        if c:
            np.minimum(gaps, far[:, None], out=gaps)
        best = (gaps @ weight).argmin(axis=1)
        chosen[:, c] = found[restarts, best]
        far = gaps[restarts, best]
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
        for restart, total, size in zip(moving, sums, sizes, strict=True):
            occupied = size > 0
            memories[restart, occupied] = total[occupied] / size[occupied, None]
            empty = np.flatnonzero(~occupied)
            if len(empty):
                # A memory without samples is moved to a sample far from all memories.
                worst = np.argsort(-far[restart] * weight, kind="stable")[: len(empty)]
                memories[restart, empty[: len(worst)]] = _take(Z, worst[None])[0]
            if spherical:
                memories[restart] = on_sphere(memories[restart])
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
    """Return memories (..., d) of unit length; those of length zero stay."""
    lengths = np.linalg.norm(memories, axis=-1, keepdims=True)
    return memories / np.where(lengths > 0, lengths, 1.0)


def exchange(Z, weight, memories, cost, random_state, *, spherical=False):
    """Return memories (k, d) of no higher cost on Z (m, d), and their cost.

    Memories whose samples are almost as near to another one are moved into the clusters
    of the largest cost, and Lloyd's steps follow; moves that do not lower the cost are
    undone, and fewer memories are moved the next time. This corrects an error that
    restarts share: two memories in one group of samples, and one for two groups.
    """
    k = len(memories)
    n_moved = min(_EXCHANGED, k // 2)
    n_failed = 0
    squares = squared_lengths(Z)
    while n_moved and cost > 0.0:
        nearest, first, second = _two_nearest(Z, squares, memories)
        error = np.bincount(nearest, weight * first, minlength=k)
        use = np.bincount(nearest, weight * (second - first), minlength=k)
        # After a failure another memory is moved, or another row drawn.
        skipped = n_failed // 2 if n_moved == 1 else 0
        moved = np.argsort(use, kind="stable")[skipped : skipped + n_moved]
        error[moved] = -np.inf
        crowded = np.argsort(-error, kind="stable")[:n_moved]
        trial = memories.copy()
        for source, target in zip(moved, crowded, strict=True):
            mass = np.cumsum(np.where(nearest == target, weight * first, 0.0))
            drawn = random_state.uniform() * mass[-1]
            row = min(int(np.searchsorted(mass, drawn, side="right")), len(mass) - 1)
            trial[source] = _take(Z, np.array([[row]]))[0, 0]
        trial = trial[None]
        costs = np.full(1, np.inf)
        for n_steps in _EXCHANGE_STEPS:
            if costs[0] == np.inf or costs[0] < _HOPELESS * cost:
                trial, costs = lloyd(
                    Z,
                    squares,
                    weight,
                    trial,
                    n_steps,
                    tol=TOLERANCE,
                    spherical=spherical,
                )
        if costs[0] < (1.0 - _GAIN) * cost:
            memories = trial[0]
            cost = float(costs[0])
            n_failed = 0
        elif n_moved > 1:
            n_moved //= 2
        else:
            n_failed += 1
            n_moved = int(n_failed < min(_FAILURES, k))
    return memories, cost


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
    nearest = None
    for _ in range(_MEDIAN_STEPS):
        before = nearest
        nearest = cdist(Z, memories, "cityblock").argmin(axis=1)
        if before is not None and np.array_equal(before, nearest):
            break
        for m in range(len(memories)):
            members = np.flatnonzero((nearest == m) & (weight > 0))
            if len(members):
                memories[m] = weighted_medians(Z[members], weight[members])
    return memories


def weighted_medians(Z, weight):
    """Return the weighted lower medians (d,) of rows Z (m, d)."""
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
