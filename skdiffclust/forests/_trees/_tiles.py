"""Distances from rows to a tile of columns, laid out for vector units.

Every length that is kept is a sum of squared differences over the features in order, in
float64. With many features a float32 filter comes first, and only the columns that it
does not rule out are measured in float64.
"""

import numpy as np

from skdiffclust._compiled import compiled

# Rows that the float32 filter measures at a time: their features stay in registers.
LANES = 4
_UNIT = 2.0**-24


def single_rows(points):
    """Centred rows in float32 (n, d rounded up to 4), and what bounds their error.

    Scaled by a power of two so that no square overflows. The bounds are (scale,
    absolute error of a scaled distance, relative error of one): 3 floats, (3,).
    """
    n_samples, n_features = points.shape
    single = np.zeros((n_samples, -LANES * (-n_features // LANES)), dtype=np.float32)
    centred = points - points.mean(axis=0)
    largest = np.sqrt(n_features) * np.abs(centred).max(initial=0.0)
    scale = 2.0 ** -np.ceil(np.log2(largest)) if largest > 0 else 1.0
    np.multiply(centred, scale, out=single[:, :n_features], casting="same_kind")
    # Each end is rounded twice, centred and as float32; norms are at most 1.
    return single, np.array([scale, 8 * _UNIT, (n_features + 16) * _UNIT])


@compiled(nogil=True)
def cutoff_of(limit, bounds):
    """Float32 length that no row within the squared distance `limit` exceeds."""
    distance = (np.sqrt(limit) * bounds[0] + bounds[1]) * (1.0 + bounds[2])
    return np.float32(distance * distance * (1.0 + 1e-6))


@compiled(nogil=True, forceinline=True)
def tile_gaps(tiles, leaf, boxes, node, out):
    """Lower bounds (w,) of the squared distances from rows of a leaf to a node."""
    out[:] = 0.0
    for f in range(tiles.shape[1]):
        least = boxes[node, 0, f]
        most = boxes[node, 1, f]
        for w in range(tiles.shape[2]):
            below = least - tiles[leaf, f, w]
            above = tiles[leaf, f, w] - most
            gap = below if below > above else above
            gap = gap if gap > 0.0 else 0.0
            out[w] += gap * gap


@compiled(nogil=True, forceinline=True)
def measure(points, i, tiles, leaf, count, limit, found, hits):
    """List the columns of a leaf within `limit` of row i, in `hits`, with lengths.

    Returns their number; ``found[h]`` is the squared distance of column ``hits[h]``.
    """
    tile_distances(points, i, tiles, leaf, found)
    n_hits = 0
    for w in range(count):
        distance = found[w]
        hits[n_hits] = w
        found[n_hits] = distance
        n_hits += distance <= limit
    return n_hits


@compiled(nogil=True)
def measure_filtered(points, i, block, k, start, count, cutoff, found, hits):
    """As `measure`, from row k of a `block` of float32 lengths."""
    # Most tiles have no such column, and counting them is vectorised.
    n_hits = np.int32(0)
    for w in range(block.shape[1]):
        n_hits += np.int32(block[k, w] <= cutoff)
    if n_hits == 0:
        return 0
    n_hits = 0
    for w in range(count):
        hits[n_hits] = w
        n_hits += block[k, w] <= cutoff
    for h in range(n_hits):
        j = start + hits[h]
        total = 0.0
        for f in range(points.shape[1]):
            total += (points[i, f] - points[j, f]) ** 2
        found[h] = total
    return n_hits


@compiled(nogil=True, forceinline=True)
def tile_distances(points, i, tiles, leaf, out):
    """Squared distances (w,) from a row to those of a leaf, summed in order."""
    n_features = tiles.shape[1]
    width = tiles.shape[2]
    p = points[i, 0]
    q = points[i, 1 if n_features > 1 else 0]
    if n_features == 1:
        for w in range(width):
            out[w] = (tiles[leaf, 0, w] - p) ** 2
    elif n_features == 2:
        for w in range(width):
            out[w] = (tiles[leaf, 0, w] - p) ** 2 + (tiles[leaf, 1, w] - q) ** 2
    else:
        r = points[i, 2]
        for w in range(width):
            total = (tiles[leaf, 0, w] - p) ** 2 + (tiles[leaf, 1, w] - q) ** 2
            out[w] = total + (tiles[leaf, 2, w] - r) ** 2
    f = 3
    while f + 4 <= n_features:
        p = points[i, f]
        q = points[i, f + 1]
        r = points[i, f + 2]
        s = points[i, f + 3]
        for w in range(width):
            total = out[w] + (tiles[leaf, f, w] - p) ** 2
            total = total + (tiles[leaf, f + 1, w] - q) ** 2
            total = total + (tiles[leaf, f + 2, w] - r) ** 2
            out[w] = total + (tiles[leaf, f + 3, w] - s) ** 2
        f += 4
    while f < n_features:
        p = points[i, f]
        for w in range(width):
            out[w] += (tiles[leaf, f, w] - p) ** 2
        f += 1


@compiled(nogil=True, fastmath={"contract"})
def filter_block(single, active, at, tiles, leaf, block):
    """Float32 squared distances from 4 rows to those of a leaf: block (4, w).

    The rows are ``active[at : at + 4]``. Contraction to fused multiply-add is allowed:
    it only makes the result more accurate.
    """
    a = active[at]
    b = active[at + 1]
    c = active[at + 2]
    d = active[at + 3]
    block[:] = np.float32(0.0)
    for f in range(0, single.shape[1], LANES):
        g = f + 1
        h = f + 2
        k = f + 3
        a0 = single[a, f]
        a1 = single[a, g]
        a2 = single[a, h]
        a3 = single[a, k]
        b0 = single[b, f]
        b1 = single[b, g]
        b2 = single[b, h]
        b3 = single[b, k]
        c0 = single[c, f]
        c1 = single[c, g]
        c2 = single[c, h]
        c3 = single[c, k]
        d0 = single[d, f]
        d1 = single[d, g]
        d2 = single[d, h]
        d3 = single[d, k]
        for w in range(tiles.shape[2]):
            p = tiles[leaf, f, w]
            q = tiles[leaf, g, w]
            r = tiles[leaf, h, w]
            s = tiles[leaf, k, w]
            total = block[0, w] + (p - a0) * (p - a0) + (q - a1) * (q - a1)
            block[0, w] = total + (r - a2) * (r - a2) + (s - a3) * (s - a3)
            total = block[1, w] + (p - b0) * (p - b0) + (q - b1) * (q - b1)
            block[1, w] = total + (r - b2) * (r - b2) + (s - b3) * (s - b3)
            total = block[2, w] + (p - c0) * (p - c0) + (q - c1) * (q - c1)
            block[2, w] = total + (r - c2) * (r - c2) + (s - c3) * (s - c3)
            total = block[3, w] + (p - d0) * (p - d0) + (q - d1) * (q - d1)
            block[3, w] = total + (r - d2) * (r - d2) + (s - d3) * (s - d3)
