"""The size that each sample has in a cut of a spanning tree: near zero for outliers.

The score of a cut grows with the length of the edge, and so an outlier far enough away
would win over any cluster if it counted as much as a sample of one.
"""

import numpy as np

from skdiffclust.forests._trees._compilation_threshold import compiled_above_small
from skdiffclust.forests._trees._index import small_index

# A part with fewer samples is never dense.
_CORE_SIZE = 5
# A sample counts fully up to this many times the median core distance.
_CORE_RADIUS = 20.0
# A neighbourhood has this weight.
_NEAR = 20
# Outliers lie far from this many samples, alone or in a group of fewer.
_GROUP_SIZES = 20, 50
# Sizes are multiples of this, so that their sums are exact in any order.
_GRAIN = 2.0**-20


def core_radii(tree, weights=None):
    """Return for each sample the length at which its component has a core, (n,).

    It is the length at which single linkage joins the sample to a component of the
    weight 5, or less where there are fewer than 100 samples; the longest finite length
    if it never does. The SpanningTree is in cut order, `weights` (n,) count samples;
    None is one each. O(n) time.
    """
    total = _n_samples(tree, weights)
    pairs = _pairs(tree.edges)
    return _radii(tree, pairs, weights, min(_CORE_SIZE, max(2, total // 20)))


def group_radii(tree, weights=None):
    """Return for each sample how far it, or its group, is from many samples, (n,).

    It is the geometric mean of the lengths at which the sample is joined to components
    of the weights 20 and 50, or of a tenth of all samples if that is less. So samples
    in a group of fewer have larger radii than all others in a dense region.
    """
    most = max(2, _n_samples(tree, weights) // 10)
    pairs = _pairs(tree.edges)
    radii = [_radii(tree, pairs, weights, min(m, most)) for m in _GROUP_SIZES]
    both = np.maximum(radii, 0.0)
    # A power of two, so that no product overflows and the unit makes no difference.
    unit = np.exp2(np.floor(np.log2(both.max()))) if both.max() > 0 else 1.0
    return unit * np.sqrt(np.prod(both / unit, axis=0))


def _n_samples(tree, weights):
    """Return the sum of the weights of samples, or their number."""
    return float(len(tree.edges) + 1 if weights is None else weights.sum())


def _radii(tree, pairs, weights, least):
    """Return the length at which each sample's component has a weight, (n,).

    It is the longest finite length if the component never has it. `pairs` are those of
    `_pairs`.
    """
    if not len(tree.edges):
        return np.zeros(1)
    longest = tree.lengths[np.isfinite(tree.lengths)].max(initial=0.0)
    first = _first_merges(pairs, weights, least)
    radii = np.where(first < 0, 0.0, tree.lengths[first])
    return np.minimum(radii, longest, out=radii)


def core_sizes(radii, tree, weights=None):
    """Return the size (n,) that each sample has in a cut, near zero for outliers.

    With m the median of the positive `radii` (n,), of `core_radii`, the size of a
    sample of radius r is min(1, (20 m / r)²), times its weight. Samples in dense
    regions count fully; groups of fewer than five samples and chains of outliers count
    less the farther away they are, so that the score of the edge that leads to an
    outlier falls with its distance. Where radii are larger in the neighbourhood of the
    sample, m is their geometric mean there: in the first component around it that has
    the weight 20. So a cluster that is much sparser than most counts fully. A weight of
    w is w equal samples. O(n) time.
    """
    n_samples = len(radii)
    counted = radii > 0
    counts = np.ones(n_samples) if weights is None else weights.astype(np.float64)
    if not counted.any():
        return counts
    known = None if weights is None else counts[counted]
    typical = weighted_quantile(radii[counted], known, 0.5)
    far = np.flatnonzero(radii > _CORE_RADIUS * typical)
    if not len(far):
        return counts
    pairs = _pairs(tree.edges)
    near = _first_merges(pairs, weights, _NEAR)[far]
    logs = np.log(radii, out=np.zeros(n_samples), where=counted)
    sums, mass = (
        np.where(near < 0, values[far], _sums_of_merges(pairs, values)[near])
        for values in (counts * logs, counts * counted)
    )
    local = np.exp(
        np.divide(sums, mass, out=np.full(len(far), -np.inf), where=mass > 0)
    )
    radius = _CORE_RADIUS * np.maximum(typical, local)
    sizes = np.minimum(1.0, (radius / radii[far]) ** 2)
    counts[far] *= np.round(sizes / _GRAIN) * _GRAIN
    return counts


def _pairs(edges):
    """Return the components (n - 1, 2) that edges in cut order join, by samples.

    The shortest edge joins first; the second component is called like the first from
    then on.
    """
    pairs = np.empty(edges.shape, dtype=small_index(len(edges)))
    _write_pairs(edges, np.arange(len(edges) + 1, dtype=pairs.dtype), pairs)
    return pairs


@compiled_above_small
def _write_pairs(edges, parents, pairs):
    """Write the components that edges join, the last edge first.

    The length of paths is kept short by halving them, in O(log n) on average.
    """
    for e in range(len(edges) - 1, -1, -1):
        for end in range(2):
            i = edges[e, end]
            while parents[i] != i:
                parents[i] = parents[parents[i]]
                i = parents[i]
            pairs[e, end] = i
        parents[pairs[e, 1]] = pairs[e, 0]


def _first_merges(pairs, weights, least):
    """Return the edge (n,) by which each sample is first in a component of a weight.

    That is -1 for a sample which weighs at least that itself, and 0, the last edge that
    joins, where no component does.
    """
    n_samples = len(pairs) + 1
    sums = np.ones(n_samples) if weights is None else weights.astype(np.float64)
    first = np.where(sums >= least, -1, 0).astype(pairs.dtype)
    _write_first_merges(
        pairs, sums, np.arange(n_samples, dtype=pairs.dtype), least, first
    )
    return first


@compiled_above_small
def _write_first_merges(pairs, sums, following, least, first):
    """Write the edges by which samples are first in components of a weight.

    `following` (n,) are circular lists of the samples of lighter components.
    """
    for e in range(len(pairs) - 1, -1, -1):
        one = pairs[e, 0]
        other = pairs[e, 1]
        total = sums[one] + sums[other]
        for side in range(2):
            root = pairs[e, side]
            if sums[root] < least and total >= least:
                first[root] = e
                i = following[root]
                while i != root:
                    first[i] = e
                    i = following[i]
        sums[one] = total
        i = following[one]
        following[one] = following[other]
        following[other] = i


def _sums_of_merges(pairs, values):
    """Return the sums (n - 1,) of values (n,) in the components that edges make.

    The values are overwritten.
    """
    sums = np.empty(len(pairs))
    _write_sums(pairs, values, sums)
    return sums


@compiled_above_small
def _write_sums(pairs, values, sums):
    """Write the sums of values in the components that edges make."""
    for e in range(len(pairs) - 1, -1, -1):
        values[pairs[e, 0]] += values[pairs[e, 1]]
        sums[e] = values[pairs[e, 0]]


def weighted_quantile(values, weights, share):
    """Return the lower quantile of values (n,), repeated `weights` times, or once."""
    if weights is None:
        place = max(int(np.ceil(share * len(values))) - 1, 0)
        return np.partition(values, place)[place]
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return values[order][np.searchsorted(below, share * below[-1])]
