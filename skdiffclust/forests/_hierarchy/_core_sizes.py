"""The size that each sample has in a cut of a spanning tree: near zero for outliers.

The score of a cut grows with the length of the edge, and so an outlier far enough away
would win over any cluster if it counted as much as a sample of one.
"""

import numpy as np

from skdiffclust.forests._trees._compilation_threshold import compiled_above_small

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


def core_radii(linkage, weights=None):
    """Return for each sample the length at which its component has a core, (n,).

    It is the length at which single linkage joins the sample to a component of the
    weight 5, or less where there are fewer than 100 samples; the longest finite length
    if it never does. `linkage` (n - 1, 4) is that of the tree, `weights` (n,) count
    samples; None is one each. O(n log n) time.
    """
    sums = _weights_of_nodes(linkage, weights)
    return _radii(linkage, sums, min(_CORE_SIZE, max(2, sums[-1] // 20)))


def group_radii(linkage, weights=None):
    """Return for each sample how far it, or its group, is from many samples, (n,).

    It is the geometric mean of the lengths at which the sample is joined to components
    of the weights 20 and 50, or of a tenth of all samples if that is less. So samples
    in a group of fewer have larger radii than all others in a dense region.
    """
    sums = _weights_of_nodes(linkage, weights)
    most = max(2, sums[-1] // 10)
    both = np.maximum([_radii(linkage, sums, min(m, most)) for m in _GROUP_SIZES], 0.0)
    # A power of two, so that no product overflows and the unit makes no difference.
    unit = np.exp2(np.floor(np.log2(both.max()))) if both.max() > 0 else 1.0
    return unit * np.sqrt(np.prod(both / unit, axis=0))


def _radii(linkage, sums, least):
    """Return the length at which each sample's component has a weight, (n,).

    It is the longest finite length if the component never has it.
    """
    heights = linkage[:, 2]
    longest = heights[np.isfinite(heights)].max(initial=0.0)
    lengths = np.concatenate([np.zeros(len(linkage) + 1), heights])
    return np.minimum(lengths[nodes_of(linkage, sums, least)], longest)


def core_sizes(radii, linkage, weights=None):
    """Return the size (n,) that each sample has in a cut, near zero for outliers.

    With m the median of the positive `radii` (n,), of `core_radii`, the size of a
    sample of radius r is min(1, (20 m / r)²), times its weight. Samples in dense
    regions count fully; groups of fewer than five samples and chains of outliers count
    less the farther away they are, so that the score of the edge that leads to an
    outlier falls with its distance. Where radii are larger in the neighbourhood of the
    sample, m is their geometric mean there: in the first component of `linkage`
    (n - 1, 4) around it that has the weight 20. So a cluster that is much sparser than
    most counts fully. A weight of w is w equal samples. O(n log n) time.
    """
    n_samples = len(radii)
    counted = radii > 0
    counts = np.ones(n_samples) if weights is None else weights.astype(np.float64)
    if not counted.any():
        return counts
    typical = weighted_quantile(radii[counted], counts[counted], 0.5)
    far = np.flatnonzero(radii > _CORE_RADIUS * typical)
    if not len(far):
        return counts
    near = nodes_of(linkage, _weights_of_nodes(linkage, weights), _NEAR)[far]
    logs = np.log(radii, out=np.zeros(n_samples), where=counted)
    sums = sums_below(linkage, counts * logs)[near]
    mass = sums_below(linkage, counts * counted)[near]
    local = np.exp(
        np.divide(sums, mass, out=np.full(len(far), -np.inf), where=mass > 0)
    )
    radius = _CORE_RADIUS * np.maximum(typical, local)
    sizes = np.minimum(1.0, (radius / radii[far]) ** 2)
    counts[far] *= np.round(sizes / _GRAIN) * _GRAIN
    return counts


def _weights_of_nodes(linkage, weights):
    """Return the weights (2 n - 1,) of samples (n,) and of their components."""
    if weights is None:
        return np.concatenate([np.ones(len(linkage) + 1), linkage[:, 3]])
    return sums_below(linkage, weights.astype(np.float64))


@compiled_above_small
def nodes_of(linkage, sums, least):
    """Return the first node (n,) above each sample that weighs at least `least`.

    It is the root if no node does. `sums` (2 n - 1,) are the weights of all nodes.
    """
    n_samples = len(linkage) + 1
    nodes = np.empty(len(sums), dtype=np.int64)
    nodes[-1] = len(sums) - 1
    for t in range(len(linkage) - 1, -1, -1):
        for side in range(2):
            child = int(linkage[t, side])
            nodes[child] = child if sums[child] >= least else nodes[n_samples + t]
    return nodes[:n_samples]


def weighted_quantile(values, weights, share):
    """Return the lower quantile of values (n,), each repeated `weights` times."""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return values[order][np.searchsorted(below, share * below[-1])]


@compiled_above_small
def sums_below(linkage, weights):
    """Return the sums of the weights (n,) of the samples below each node."""
    n_samples = len(weights)
    sums = np.empty(n_samples + len(linkage))
    for i in range(n_samples):  # assigned as arrays, these compile for seconds
        sums[i] = weights[i]
    for t in range(len(linkage)):
        sums[n_samples + t] = sums[int(linkage[t, 0])] + sums[int(linkage[t, 1])]
    return sums
