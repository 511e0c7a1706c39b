"""Perturbed forests of CUDA tensors: one fused kernel, in Triton.

A program grows the spanning trees of a tile of noisy copies by Prim's algorithm. A step
reads the row of each copy's newest vertex, adds the noise of its pairs, and takes the
heaviest edge that leaves the tree. Nothing is sorted, no noisy matrix is stored, and
the host is never asked. The edges are those of the compiled kernels: the order is
(weight, i, j), the noise is that of the same hash.

With ``TRITON_INTERPRET=1`` in the environment before the import, the same code runs on
the CPU, slowly, which the tests use.
"""

import os

import numpy as np
import torch
import triton
import triton.language as tl
from scipy.special import ndtri

from skdiffclust.forests._perturbed import _hash

# Entries of a row that a warp has, and columns of a block of scores.
_ENTRIES_PER_WARP = 128
_BLOCK = 256
# Noisy copies of a program. In the interpreter a step costs the same for any number.
_MOST_COPIES = 256 if os.environ.get("TRITON_INTERPRET") == "1" else 1


def _constant(value):
    """Return a value as a constant that kernels may read."""
    return tl.constexpr(value)


def _quantile_polynomials():
    """Return coefficients (2, 9), constant term first, of -z / x for u < 1/2.

    z is the normal quantile of u, x = 1 - 2u, and w = -log(1 - x²). The first
    polynomial is in w - 2.5 for w < 5, the second in sqrt(w) - 3 up to the largest w,
    -log(4 · 2^-33).
    """
    polynomials = []
    for first, last, of_w in (
        (1e-9, 5.0, lambda w: w - 2.5),
        (5.0, 21.6, lambda w: np.sqrt(w) - 3.0),
    ):
        angles = np.pi * (np.arange(400) + 0.5) / 400
        w = 0.5 * (first + last) + 0.5 * (last - first) * np.cos(angles)
        # e^-w = 4u(1 - u), without cancellation.
        x = np.sqrt(-np.expm1(-w))
        u = np.exp(-w) / (2 * (1 + x))
        polynomials.append(np.polynomial.Polynomial.fit(of_w(w), -ndtri(u) / x, 8))
    return tuple(
        tuple(float(np.float32(c)) for c in polynomial.convert().coef)
        for polynomial in polynomials
    )


_CENTRE, _TAIL = (_constant(part) for part in _quantile_polynomials())
_GOLDEN = _constant(int(_hash.GOLDEN))
_MIX_A = _constant(int(_hash.MIX_A))
_MIX_B = _constant(int(_hash.MIX_B))
_ROW = _constant(int(_hash.ROW))
_COLUMN = _constant(int(_hash.COLUMN))
_FIRST = _constant(int(_hash.FIRST))
_SECOND = _constant(int(_hash.SECOND))
# Keys below those of all edges, and above them.
_LOW = _constant(-(1 << 62))
_HIGH = _constant(1 << 62)


@triton.jit
def _mix64(h):
    """Return the finalizer of splitmix64 of a uint64."""
    h = (h ^ (h >> 30)) * tl.full((), _MIX_A, tl.uint64)
    h = (h ^ (h >> 27)) * tl.full((), _MIX_B, tl.uint64)
    return h ^ (h >> 31)


@triton.jit
def _row_keys(base, rows):
    """Return the 64-bit keys of the rows of a draw, as uint64."""
    step = tl.full((), _ROW, tl.uint64)
    return _mix64(base + (rows.to(tl.uint64) + 1) * step)


@triton.jit
def _noise(keys, larger, is_mirrored, GUMBEL: tl.constexpr):
    """Return the noise of pairs, from the keys of their rows and their larger ends."""
    x = larger.to(tl.uint32) * tl.full((), _COLUMN, tl.uint32)
    x += (keys & 0xFFFFFFFF).to(tl.uint32)
    x = (x ^ (x >> 16)) * tl.full((), _FIRST, tl.uint32)
    x ^= (keys >> 32).to(tl.uint32)
    x = (x ^ (x >> 15)) * tl.full((), _SECOND, tl.uint32)
    x ^= x >> 15
    is_upper = (x >> 31).to(tl.int32) != is_mirrored
    depth = x & 0x7FFFFFFF
    # Twice the probability of the tail.
    both = (depth * 2 + 1).to(tl.float32) * (0.5**32)
    if GUMBEL:
        u = 0.5 * both
        # -log(1 - u); of small u by its series.
        series = u * (1 + u * (1 / 2 + u * (1 / 3 + u * (1 / 4 + u / 5))))
        rare = tl.where(u < 0.03, series, -tl.log(1 - u))
        return -tl.log(tl.where(is_upper, rare, -tl.log(u)))
    x = ((0x7FFFFFFF - depth) * 2 + 1).to(tl.float32) * (0.5**32)
    w = -tl.log(both * (2 - both))
    is_tail = w >= 5
    t = tl.where(is_tail, tl.sqrt(w) - 3, w - 2.5)
    z = tl.where(is_tail, _TAIL[8], _CENTRE[8])
    for i in tl.static_range(8):
        z = z * t + tl.where(is_tail, _TAIL[7 - i], _CENTRE[7 - i])
    z = z * x
    return tl.where(is_upper, z, -z)


@triton.jit
def _edge_key(weight, i, j):
    """Return the order of edges by (weight, i, j) as int64: the heaviest is largest."""
    bits = (weight + 0.0).to(tl.int32, bitcast=True)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    code = tl.minimum(i, j) * 4096 + tl.maximum(i, j)
    return (ordered.to(tl.int64) << 24) | (0xFFFFFF - code).to(tl.int64)


@triton.jit
def _ends_of(key):
    """Return the smaller and the larger end of the edge of a key, int32."""
    code = 0xFFFFFF - (key & 0xFFFFFF).to(tl.int32)
    return code >> 12, code & 4095


@triton.jit
def _weight_of(key):
    """Return the weight of the edge of a key, float32."""
    ordered = (key >> 24).to(tl.int32)
    bits = ordered ^ ((ordered >> 31) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _is_edge(key):
    """Whether a key is that of an edge, and not of a vertex that a tree began at."""
    return (key > -(1 << 60)) & (key < (1 << 60))


@triton.jit
def _prim(
    matrix,
    start,
    parts,
    draw,
    n,
    N: tl.constexpr,
    TILE: tl.constexpr,
    GUMBEL: tl.constexpr,
    INSIDE: tl.constexpr,
):
    """Grow the heaviest spanning trees of noisy copies of a matrix (n, n).

    A vertex joins by the largest key; start (TILE, N) are keys to begin with, of which
    those above all edges are vertices that the tree holds from the start, and those
    below begin a tree where no edge leads. INSIDE keeps to edges inside a component,
    whose numbers parts (TILE, 1) point to. Returns the key by which each vertex joined.
    """
    base, is_mirrored, scale = draw
    columns = tl.arange(0, N)[None, :]
    keys = _row_keys(base, columns)
    key = start
    is_outside = tl.zeros((TILE, N), tl.int32) + (columns < n).to(tl.int32) > 0
    for _ in range(n):
        newest = tl.argmax(tl.where(is_outside, key, 2 * _LOW), axis=1)[:, None]
        is_outside = is_outside & (columns != newest)
        row = tl.load(matrix + newest * n + columns, mask=columns < n, other=0.0)
        if N == 4096:
            # Too many registers: keys are computed again.
            own = _row_keys(base, tl.minimum(columns, newest))
        else:
            own = tl.where(columns < newest, keys, _row_keys(base, newest))
        larger = tl.maximum(columns, newest)
        row += scale * _noise(own, larger, is_mirrored, GUMBEL)
        is_near = is_outside
        if INSIDE:
            part = tl.load(parts + columns, mask=columns < n, other=-1)
            is_near = is_near & (part == tl.load(parts + newest))
        found = _edge_key(row, columns, newest)
        key = tl.where(is_near, tl.maximum(key, found), key)
    return key


@triton.jit
def _without_lightest(key, n_edges, N: tl.constexpr, TILE: tl.constexpr):
    """Return which keys (TILE, N) are edges, without the lightest n_edges of them."""
    is_kept = _is_edge(key)
    for _ in range(n_edges):
        lightest = tl.min(tl.where(is_kept, key, _HIGH), axis=1)[:, None]
        is_kept = is_kept & (key != lightest)
    return is_kept


@triton.jit
def _count(counts, key, is_kept, sign, n):
    """Add edges to counts (n, n), and return the weight of each forest (TILE, 1)."""
    i, j = _ends_of(key)
    tl.atomic_add(counts + i * n + j, tl.zeros_like(i) + sign, is_kept, sem="relaxed")
    weights = tl.where(is_kept, _weight_of(key).to(tl.float64), 0.0)
    return tl.sum(weights, axis=1)[:, None]


@triton.jit
def forests_kernel(
    affinities,
    sizes,
    seeds,
    scale,
    first_of_class,
    n_classes,
    counts,
    totals,
    edges,
    n,
    n_samples,
    N: tl.constexpr,
    TILE: tl.constexpr,
    GUMBEL: tl.constexpr,
    FREE: tl.constexpr,
    LABELLED: tl.constexpr,
):
    """Count the edges of forests of noisy copies: free ones, less those under labels.

    affinities (b, n, n) float32; sizes (b,) int32, numbers of trees; seeds (b,)
    int64; first_of_class (b, n) int32, the first sample of the class of each, -1
    without a label, and n_classes (b,) int32; counts (b, n, n) int32, of i < j; totals
    (b, s) float64, weights; edges (b, s, n) int32, i * 4096 + j or -1, scratch where
    there are both kinds of forests.
    """
    item = tl.program_id(0).to(tl.int64)
    sample = tl.program_id(1) * TILE + tl.arange(0, TILE)[:, None]
    is_sample = sample < n_samples
    columns = tl.arange(0, N)[None, :]
    matrix = affinities + item * n * n
    counts += item * n * n
    seed = tl.load(seeds + item).to(tl.uint64, bitcast=True)
    step = tl.full((), _GOLDEN, tl.uint64)
    base = _mix64(seed + ((sample // 2).to(tl.uint64) + 1) * step)
    draw = base, sample % 2, scale
    # Where no edge leads, the first vertex comes next.
    begin = tl.zeros((TILE, N), tl.int64) + _LOW + (N - columns)
    # The last copies of a tile may be none.
    own = tl.minimum(sample, n_samples - 1)
    parts = edges + (item * n_samples + own) * n
    n_trees = tl.load(sizes + item)
    key = begin
    is_kept = is_sample & (columns < n)
    if FREE:
        key = _prim(matrix, begin, parts, draw, n, N, TILE, GUMBEL, False)
        is_kept = _without_lightest(key, n_trees - 1, N, TILE) & is_sample
        total = _count(counts, key, is_kept, 1, n)
        tl.store(totals + item * n_samples + sample, total, mask=is_sample)
    if LABELLED:
        place = item * n + columns
        first = tl.load(first_of_class + place, mask=columns < n, other=-1)
        is_root = tl.zeros((TILE, N), tl.int32) + first >= 0
        roots = tl.where(is_root, begin - 2 * _LOW, begin)
        key = _prim(matrix, roots, parts, draw, n, N, TILE, GUMBEL, False)
        n_roots = tl.maximum(tl.load(n_classes + item), 1)
        is_kept = _without_lightest(key, n_trees - n_roots, N, TILE)
        i, j = _ends_of(key)
        parent = tl.where(is_kept, i + j - columns, columns)
        # Read again, which takes fewer registers than keeping it.
        tl.debug_barrier()
        first = tl.load(first_of_class + place, mask=columns < n, other=-1)
        parent = tl.where(first >= 0, first, parent)
        # Through memory: a gather inside a block spills registers.
        is_held = is_sample & (columns < n)
        tl.store(parts + columns, parent, mask=is_held)
        tl.debug_barrier()
        reach = 1
        while reach < n:
            parent = tl.load(parts + parent, mask=is_held, other=0)
            tl.debug_barrier()
            tl.store(parts + columns, parent, mask=is_held)
            tl.debug_barrier()
            reach *= 2
        key = _prim(matrix, begin, parts, draw, n, N, TILE, GUMBEL, True)
        is_kept = _is_edge(key) & is_held
        total = -_count(counts, key, is_kept, -1, n)
        if FREE:
            total += tl.load(totals + item * n_samples + sample, mask=is_sample)
        tl.store(totals + item * n_samples + sample, total, mask=is_sample)
    if FREE != LABELLED:
        i, j = _ends_of(key)
        code = tl.where(is_kept, i * 4096 + j, -1)
        tl.debug_barrier()
        tl.store(parts + columns, code, mask=is_sample & (columns < n))


@triton.jit
def scores_kernel(
    seeds,
    coefficients,
    sums,
    n,
    n_samples,
    BLOCK: tl.constexpr,
    GUMBEL: tl.constexpr,
):
    """Sum coefficients (b, s) float32 times the scores of noise to sums (b, n, n).

    A program has BLOCK columns of a row i, of which it writes those above i.
    """
    item = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1)
    columns = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)[None, :]
    seed = tl.load(seeds + item).to(tl.uint64, bitcast=True)
    step = tl.full((), _GOLDEN, tl.uint64)
    row = tl.zeros((1, 1), tl.int32) + i
    total = tl.zeros((1, BLOCK), tl.float32)
    is_above = (tl.program_id(2) + 1) * BLOCK > i + 1
    for sample in range(n_samples * is_above.to(tl.int32)):
        draw = tl.zeros((1, 1), tl.int32) + sample // 2
        base = _mix64(seed + (draw.to(tl.uint64) + 1) * step)
        z = _noise(_row_keys(base, row), columns, sample % 2, GUMBEL)
        if GUMBEL:
            z = 1 - tl.exp(-z)
        total += tl.load(coefficients + item * n_samples + sample) * z
    place = (item * n + i) * n + columns
    tl.store(sums + place, total, mask=(columns > i) & (columns < n))


def _grid(n, n_samples):
    """Return the padded n, the copies of a program, the programs, and their warps."""
    padded = triton.next_power_of_2(n)
    tile = min(triton.next_power_of_2(n_samples), _MOST_COPIES)
    warps = min(max(padded // _ENTRIES_PER_WARP, 1), 16)
    return padded, tile, triton.cdiv(n_samples, tile), warps


def find_forests(matrices, sizes, seeds, noise, classes=None, *, free=True):
    """Find the forests of noisy copies of a batch of matrices, in one launch.

    Parameters
    ----------
    matrices : tensor of shape (b, n, n), float32
        Symmetric affinities; 2 <= n <= 4096.
    sizes : tensor of shape (b,), int32
        Numbers of trees, at least 1 and at least the number of classes.
    seeds : tensor of shape (b,), int64
        Seed of the noise of each matrix, instead of that of `noise`.
    noise : Noise
    classes : tuple of tensors of shapes (b, n) and (b,), int32, or None
        The first sample of the class of each sample, -1 without a label, and the number
        of classes.
    free : bool
        Whether to find free forests. With `classes` as well, the forests under labels
        are subtracted from them.

    Returns
    -------
    counts : tensor of shape (b, n, n), int32
        In how many forests each pair i < j is an edge.
    totals : tensor of shape (b, s), float64
        Weights of the forests, each edge once.
    edges : tensor of shape (b, s, n), int32
        Edges i * 4096 + j of each forest, in no order, and -1; undefined for the
        difference of two forests.
    """
    (b, n) = matrices.shape[:2]
    like = {"device": matrices.device}
    counts = torch.zeros((b, n, n), dtype=torch.int32, **like)
    totals = torch.empty((b, noise.n_samples), dtype=torch.float64, **like)
    edges = torch.empty((b, noise.n_samples, n), dtype=torch.int32, **like)
    padded, tile, n_programs, warps = _grid(n, noise.n_samples)
    first_of_class, n_classes = (sizes, sizes) if classes is None else classes
    forests_kernel[(b, n_programs)](
        matrices,
        sizes,
        seeds,
        float(noise.scale),
        first_of_class,
        n_classes,
        counts,
        totals,
        edges,
        n,
        noise.n_samples,
        N=padded,
        TILE=tile,
        GUMBEL=noise.kind == "gumbel",
        FREE=free,
        LABELLED=classes is not None,
        num_warps=warps,
    )
    if not free:
        counts.neg_()
        totals.neg_()
    return counts, totals, edges


def sum_of_scores(coefficients, seeds, noise, n):
    """Return the sums (b, n, n) over samples of coefficient (b, s) times score.

    float32, symmetric, 0 on the diagonal; seeds (b,) as for `find_forests`.
    """
    (b, n_samples) = coefficients.shape
    sums = coefficients.new_zeros((b, n, n), dtype=torch.float32)
    scores_kernel[(b, n, triton.cdiv(n, _BLOCK))](
        seeds,
        coefficients.to(torch.float32).contiguous(),
        sums,
        n,
        n_samples,
        BLOCK=_BLOCK,
        GUMBEL=noise.kind == "gumbel",
    )
    return sums + sums.mT
