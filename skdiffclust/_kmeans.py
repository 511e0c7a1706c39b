"""k-means, all restarts side by side: Euclidean, and on the sphere.

Samples are rows Z (m, d), dense or CSR, with weights (m,); a weight of two is a
repeated sample. Products with all centres of all restarts are one matrix product, which
makes ten restarts two to four times as fast as scikit-learn's ten.
"""

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from skdiffclust._compiled import compiled
from skdiffclust._threads import small_products

MAX_STEPS = 300
# Relative decrease of the cost below which a restart ends: by default, and where the
# last digits count.
TOLERANCE = 1e-4
FINE = 1e-7
# Factor of the tolerance on the sphere: texts are almost as far from their centre as
# from others, so costs differ by little.
_TOLERANCE_ON_SPHERE = 0.3
_NO_DIRECTION = 1e-14  # length of a mean of directions that is rounding
# Entries of a block of samples, and of its products with all centres, in the cache.
_BLOCK_ENTRIES = 2**17
_LEAST_BLOCK = 256
_SPARSE_BLOCK_ENTRIES = 2**20
# Entries of the distances from the samples to the draws of restarts that run at once,
# and of their centres.
_DRAWN_ENTRIES = 2**24
_CENTER_ENTRIES = 2**18

# Sums may be reordered for vector units; NaN and infinity are kept.
_kernel = compiled(
    nogil=True, fastmath={"contract", "reassoc", "nsz", "arcp"}, error_model="numpy"
)


# Products of blocks are small: threads of BLAS would wait for each other.
@small_products(_BLOCK_ENTRIES)
def kmeans(
    Z,
    weight,
    n_clusters,
    n_init,
    random_state,
    *,
    tol=TOLERANCE,
    max_steps=MAX_STEPS,
    spherical=False,
):
    """Return centres (r, k, d), costs (r,) and labels (r, m) of r runs of k-means.

    The seeds are those of greedy k-means++: as in scikit-learn, each is the best of
    some rows that are drawn in proportion to their squared distance from the seeds
    before. The draws depend neither on the order of the rows nor on whether a row is
    repeated or has a weight of two. A run ends as in `lloyd`. With `spherical`, rows
    are of unit length, and so are the centres. O(r m d k) per iteration.
    """
    weight = np.asarray(weight, dtype=np.float64)
    n_trials = 2 + int(np.log(n_clusters))
    order = np.argsort(Z @ random_state.normal(size=Z.shape[1]), kind="stable")
    shares = random_state.uniform(size=(n_init, n_clusters, n_trials))
    squares = squared_lengths(Z)
    n_rows, n_features = Z.shape
    at_once = max(
        1,
        min(
            _DRAWN_ENTRIES // (n_trials * n_rows),
            _CENTER_ENTRIES // (n_clusters * n_features),
        ),
    )
    runs = []
    for start in range(0, n_init, at_once):
        drawn = shares[start : start + at_once]
        rows = _spread_rows(Z, squares, weight, order, drawn)
        runs.append(
            lloyd(Z, weight, take(Z, rows), max_steps, tol=tol, spherical=spherical)
        )
    centers, costs, labels = zip(*runs, strict=True)
    return np.concatenate(centers), np.concatenate(costs), np.concatenate(labels)


def _spread_rows(Z, squares, weight, order, shares):
    """Return rows (r, k) far apart: the seeds of r runs of greedy k-means++.

    Each seed is the one of t rows that leaves the smallest distances; the first seed is
    the first row that is drawn. The rows are drawn at shares (r, k, t) of the mass,
    which is summed up in an order (m,).
    """
    n_init, n_clusters, n_trials = shares.shape
    n_rows = Z.shape[0]
    seeds = np.empty((n_init, n_clusters), dtype=np.int64)
    far = np.ones((n_init, n_rows))  # squared distances to the nearest seed
    for c in range(n_clusters):
        rows = np.empty((n_init, n_trials if c else 1), dtype=np.int64)
        _draw(far, weight, order, shares[:, c], rows)
        if c == 0:
            far[:] = np.inf
        products = safe_sparse_dot(Z[rows.ravel()], Z.T, dense_output=True)
        _keep_best(products, squares, weight, rows, far, seeds[:, c])
    return seeds


@_kernel
def _draw(far, weight, order, shares, rows):
    """Draw rows (r, t), in place, in proportion to their mass.

    The mass of a row is its squared distance far (r, m) from the nearest seed times its
    weight (m,). It is summed up in an order (m,), and a row is drawn at each of shares
    (r, t) of the total.
    """
    n_init, n_rows = far.shape
    mass = np.empty(n_rows)
    for r in range(n_init):
        total = 0.0
        for i in range(n_rows):
            total += weight[order[i]] * far[r, order[i]]
            mass[i] = total
        for t in range(rows.shape[1]):
            # A search of our own compiles in a fraction of the time of NumPy's.
            share = shares[r, t] * total
            place = 0
            end = n_rows
            while place < end:
                middle = (place + end) // 2
                if mass[middle] <= share:
                    place = middle + 1
                else:
                    end = middle
            # All rows that are left may be at a centre: then the last one is drawn.
            rows[r, t] = order[min(place, n_rows - 1)]


@_kernel
def _keep_best(products, squares, weight, rows, far, seeds):
    """Choose the seed of each run among t rows, and update the distances, in place.

    The one of rows (r, t) that leaves the smallest sum of squared distances `far` (r,
    m) is written to `seeds` (r,). Distances are computed from products (r * t, m) of
    these rows with all rows, and squared lengths (m,).
    """
    n_init, n_trials = rows.shape
    for r in range(n_init):
        lowest = np.inf
        best = 0
        for t in range(n_trials):
            line = products[r * n_trials + t]
            length = squares[rows[r, t]]
            cost = 0.0
            for i in range(far.shape[1]):
                gap = max(squares[i] + length - 2.0 * line[i], 0.0)
                cost += weight[i] * min(gap, far[r, i])
            if cost < lowest:
                lowest = cost
                best = t
        seeds[r] = rows[r, best]
        line = products[r * n_trials + best]
        length = squares[rows[r, best]]
        for i in range(far.shape[1]):
            gap = max(squares[i] + length - 2.0 * line[i], 0.0)
            far[r, i] = min(gap, far[r, i])


@small_products(_BLOCK_ENTRIES)
def lloyd(Z, weight, centers, n_steps, *, tol=0.0, spherical=False):
    """Return centres (r, k, d) after Lloyd's steps, their costs (r,) and labels (r, m).

    A restart ends when no sample changes its centre, or the cost falls by less than
    `tol` of itself, .3 of that if `spherical`. Costs and labels are those of the
    centres that are returned. Z may be any object with the shape, dtype and slices of
    an array. An empty cluster is moved to a sample far from all centres.
    """
    n_rows = Z.shape[0]
    n_init, k, _ = centers.shape
    centers = on_sphere(centers) if spherical else centers.astype(np.float64)
    squares = np.empty(n_rows)
    for rows in _blocks(Z, k):
        squares[rows] = squared_lengths(Z[rows])
    if spherical:
        tol *= _TOLERANCE_ON_SPHERE
    labels = np.full((n_init, n_rows), -1)
    far = np.empty((n_init, n_rows))
    costs = np.full(n_init, np.inf)
    moving = np.arange(n_init)
    for step in range(n_steps + 1):
        if not len(moving):
            break
        moved, sums, sizes = _assign(
            Z, squares, weight, centers[moving], moving, labels, far
        )
        before = costs[moving]
        costs[moving] = far[moving] @ weight
        if step == n_steps:
            break
        moved &= ~(before - costs[moving] <= tol * costs[moving])
        moving = moving[moved]
        sizes = sizes[moved]
        means = _means(sums[moved], sizes, centers[moving])
        for r in np.flatnonzero((sizes == 0).any(axis=1)):
            lost = np.flatnonzero(sizes[r] == 0)
            mass = far[moving[r]] * weight
            worst = np.argsort(-mass, kind="stable")[: len(lost)]
            means[r, lost[: len(worst)]] = take(Z, worst)
        centers[moving] = on_sphere(means) if spherical else means
    return centers, costs, labels


def _blocks(Z, n_centers):
    """Return slices that cover the rows of Z (m, d), for products with the centres.

    A block and its products with the centres fit the cache of a processor.
    """
    size = _BLOCK_ENTRIES // max(n_centers, Z.shape[1])
    if sparse.issparse(Z):
        size = _SPARSE_BLOCK_ENTRIES // n_centers
    size = max(_LEAST_BLOCK, size)
    return [slice(start, start + size) for start in range(0, Z.shape[0], size)]


def _assign(Z, squares, weight, centers, restarts, labels, far):
    """Assign the rows of Z (m, d) to centres (r, k, d) of some restarts (r,).

    Writes labels and squared distances far, both (n_init, m). Returns which restarts
    have other labels than before, and the weighted sums (r, k, d) and sizes (r, k).
    """
    n_init, k, d = centers.shape
    flat = centers.reshape(-1, d).astype(Z.dtype)
    if sparse.issparse(Z):  # scipy would copy the centres for each block
        flat = np.ascontiguousarray(flat.T)
    norms = np.einsum("rkd,rkd->rk", centers, centers)
    moved = np.zeros(n_init, dtype=bool)
    sums = np.zeros(centers.shape)
    sizes = np.zeros((n_init, k))
    for rows in _blocks(Z, n_init * k):
        block = Z[rows]
        is_sparse = sparse.issparse(block)
        products = np.ascontiguousarray(
            (block @ flat).T if is_sparse else flat @ block.T
        )
        in_block = labels[:, rows]
        moved |= _nearest(
            products,
            norms,
            squares[rows],
            weight[rows],
            restarts,
            in_block,
            far[:, rows],
            sizes,
        )
        if is_sparse:
            entries = block.data, block.indices, block.indptr
            _add_entries(*entries, weight[rows], restarts, in_block, sums)
        else:
            add_members(block, weight[rows], restarts, in_block, sums)
    return moved, sums, sizes


@_kernel
def _nearest(products, norms, squares, weight, restarts, labels, far, sizes):
    """Write the nearest centres of a block of b rows; return which restarts changed.

    Distances are computed from products (r * k, b) of centres and rows and their
    squared lengths, norms (r, k) and squares (b,). Results go to the lines `restarts`
    (r,) of labels and far (n_init, b); weights (b,) are added to sizes (r, k). The
    loops over rows have no branches, so that they are vectorised.
    """
    n_init, k = norms.shape
    n_rows = len(squares)
    moved = np.zeros(n_init, dtype=np.bool_)
    gaps = np.empty(n_rows)
    best = np.empty(n_rows, dtype=np.int64)
    for r in range(n_init):
        for i in range(n_rows):
            gaps[i] = np.inf
            best[i] = 0
        for m in range(k):
            norm = norms[r, m]
            for i in range(n_rows):
                gap = norm - 2.0 * products[r * k + m, i]
                is_less = gap < gaps[i]
                best[i] = m if is_less else best[i]
                gaps[i] = gap if is_less else gaps[i]
        line = restarts[r]
        n_moved = 0
        for i in range(n_rows):
            n_moved += labels[line, i] != best[i]
            labels[line, i] = best[i]
            far[line, i] = max(squares[i] + gaps[i], 0.0)
            sizes[r, best[i]] += weight[i]
        moved[r] = n_moved > 0
    return moved


@_kernel
def add_members(rows, weight, restarts, labels, sums):
    """Add weighted rows (b, d) to the sums (r, k, d) of their clusters (n_init, b)."""
    for r in range(len(sums)):
        for i in range(len(rows)):
            m = labels[restarts[r], i]
            for j in range(rows.shape[1]):
                sums[r, m, j] += weight[i] * rows[i, j]


@_kernel
def _add_entries(values, columns, ends, weight, restarts, labels, sums):
    """Add the weighted rows of a CSR matrix, given as its arrays, to sums (r, k, d)."""
    for r in range(len(sums)):
        for i in range(len(weight)):
            m = labels[restarts[r], i]
            for entry in range(ends[i], ends[i + 1]):
                sums[r, m, columns[entry]] += weight[i] * values[entry]


def _means(sums, sizes, centers):
    """Return means (..., k, d) for sums and sizes (..., k), or centres where empty."""
    occupied = (sizes > 0)[..., None]
    return np.divide(sums, sizes[..., None], out=centers.copy(), where=occupied)


def means_of(Z, weight, labels, centers):
    """Return the means (k, d) of clusters of Z (m, d), and their sizes (k,).

    Where a cluster is empty, the mean is its centre, of centres (k, d).
    """
    k = len(centers)
    sizes = np.bincount(labels, weight, minlength=k)
    n_rows = Z.shape[0]
    members = sparse.csr_array((weight, (labels, np.arange(n_rows))), (k, n_rows))
    sums = members @ Z
    sums = sums.toarray() if sparse.issparse(sums) else sums
    return _means(sums, sizes, centers), sizes


def take(Z, rows):
    """Return rows (...) of Z (m, d) by their numbers, dense float64 (..., d)."""
    taken = Z[rows.ravel()]
    taken = taken.toarray() if sparse.issparse(taken) else taken
    return taken.astype(np.float64).reshape(*rows.shape, Z.shape[1])


def squared_lengths(Z):
    """Return the squared lengths (m,), float64, of rows Z (m, d)."""
    if sparse.issparse(Z):
        rows = np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
        values = np.square(Z.data, dtype=np.float64)
        return np.bincount(rows, values, minlength=Z.shape[0])
    return np.einsum("ij,ij->i", Z, Z, dtype=np.float64)


def squared_distances(Z, centers):
    """Return squared distances (m, k), float64, of rows Z (m, d) to centres (k, d)."""
    centers = centers.astype(np.float64, copy=False)
    norms = np.einsum("kj,kj->k", centers, centers)
    far = norms - 2.0 * (Z @ centers.T.astype(Z.dtype)).astype(np.float64)
    far += squared_lengths(Z)[:, None]
    return np.maximum(far, 0.0, out=far)


def on_sphere(centers):
    """Return centres (..., d) of unit length.

    Those of length zero, whose samples have no mean direction, get equal entries: all
    directions are equally far from their samples.
    """
    lengths = np.sqrt(np.einsum("...d,...d->...", centers, centers))
    is_zero = lengths <= _NO_DIRECTION
    directions = centers / np.where(is_zero, 1.0, lengths)[..., None]
    directions[is_zero] = centers.shape[-1] ** -0.5
    return directions
