"""Initial models: k-means, partitions improved from it, and random weights.

The cells of k-means are those of a linear model, whose logits are minus half the
squared distances to the centres, up to what all clusters share. Scaled up, its softmax
is the hard partition. A hard partition has no gradient, so it is a candidate as it is,
and its soft version is trained.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

from skdiffclust._assignments import adjusted_rand, order_by_size, softmax
from skdiffclust._encoder import Encoder
from skdiffclust._history import warn_of_convergence
from skdiffclust._n_clusters import are_separated
from skdiffclust.gemini._models import MODELS, FreeAssignments, SkipPerceptron
from skdiffclust.gemini._objectives import mmd_of_sums
from skdiffclust.gemini._problem import Problem
from skdiffclust.gemini._sparse_rows import (
    SparseRows,
    near_one,
    numbers_of_rows,
    squared_norms,
)
from skdiffclust.gemini._supervision import broken_links
from skdiffclust.gemini._training import loss_and_gradients

# Runs of k-means. It does not depend on the number of samples, since a weight of two is
# a repeated sample.
_N_RUNS = 12
MAX_ITER = 100
# Share of the probability of a sample that its cluster has in a soft start, on average.
_SOFT = 0.9
# A partition is sharp enough if sharpening it further gains less than this share of the
# loss.
_GAIN = 1e-7
# The largest mean difference of logits of a soft start, and steps of four after it.
_SHARPEST = 1e6
_MOST_STEPS = 20
# Relative gain of an iteration that rounding may explain.
_ROUNDING = 1e-12
# Values that differ by less than this, relative to them, are equal up to rounding.
_EQUAL = 1e-9
# For more samples, only the start from k-means is trained.
_MANY_SAMPLES = 20_000
# Agreement with the clear clusters of k-means below which a fit warns.
_LEAST_AGREEMENT = 0.8
# Samples that partitions are searched on; the best one is improved on all samples.
_MOST_SEARCHED = 1000
_MOST_PER_CLUSTER = 50


class Starts(NamedTuple):
    """Initial models: `n_trained` and, if `has_sharp`, a last one that is sharp.

    They are of the samples of `problem`, which are numbers for free assignments. The
    one with the number `final` is not trained, as it has no gradient but rounding.
    `rows` (m,), None for all, have the labels `k_means` (m,) by k-means, which are None
    with links or if the objective is not the MMD with a linear kernel.
    """

    problem: Problem
    n_trained: int
    has_sharp: bool
    models: Iterator
    final: int | None = None
    rows: np.ndarray | None = None
    k_means: np.ndarray | None = None


def make_starts(problem, settings, rng):
    """Return the Starts of a Problem under Settings.

    The first model is soft and made from the cells of k-means, the others are
    random, and a last one is sharp and made from the same cells. Without features,
    or with too few hidden units, all are random.
    """
    kind = settings.kind
    n_clusters = settings.n_clusters
    dtype = problem.X.dtype
    sizes = settings.layer_sizes(problem.X.shape[1])
    numbered = problem
    if kind == "free":
        numbered = replace(problem, X=numbers_of_rows(problem.X))
        sizes[0] = int(numbered.X.max()) + 1

    def new():
        return MODELS[kind].with_random_weights(sizes, rng, dtype)

    template = new()
    is_narrow = kind == "mlp" and min(sizes[1:-1]) < 2 * n_clusters
    if is_narrow or settings.is_precomputed:
        n_trained = _n_trained(problem, settings, None)
        others = (new() for _ in range(n_trained - 1))
        return Starts(numbered, n_trained, False, chain([template], others))
    is_linear = settings.has_linear_kernel and hasattr(problem.relation, "features")
    mode = settings.compares if is_linear else None
    rows = rows_to_start(problem, n_clusters)
    cells, k_means = initial_cells(problem, rows, n_clusters, mode, rng)
    labels = labels_in(problem.X, cells)
    n_trained = _n_trained(problem, settings, labels)
    if not n_trained:
        # A few evaluations are not worth the compilation of loops.
        numbered = replace(numbered, compiled_mode=None)
    some = numbered if rows is None else numbered.take(rows)
    if kind == "free":
        family = family_of_labels(labels, numbered.X, n_clusters, dtype)
    else:
        family = family_of_cells(kind, *cells, template)

    def models():
        for number in range(n_trained):
            yield new() if number else family(soft_factor(family, some))
        # The more samples, the closer are some to the border of two clusters.
        factor = len(problem.X) / len(some.X)
        yield family(factor * sharp_factor(family, some))

    # Links and l2 have a gradient at a hard partition, the objective has none.
    has_links = problem.constraints is not None
    final = None if n_trained and (has_links or problem.l2) else n_trained
    k_means = None if has_links or mode is None else k_means
    return Starts(numbered, n_trained, True, models(), final, rows, k_means)


def _n_trained(problem, settings, labels):
    """Return how many initial models are trained beside the cells of k-means.

    It is 0 if no soft assignments can be better than hard ones. This is so for the MMD
    of a linear model and kernel, which grows with the sharpness of the best partition,
    if the loss has no other term; links add none if the labels (n,) of k-means satisfy
    all of them. For many samples only the first model is trained.
    """
    links = problem.constraints
    is_whole = settings.batch(len(problem.X)) >= len(problem.X)
    is_linear = settings.has_linear_kernel and hasattr(problem.relation, "features")
    if (
        settings.kind == "linear"
        and is_linear
        and not problem.l2
        and is_whole
        and (links is None or not any(broken_links(labels, links)))
    ):
        return 0
    is_large = np.count_nonzero(problem.row_weights) > _MANY_SAMPLES
    return 1 if is_large and is_whole and links is None else settings.n_init


def warn_if_unequal(samples, labels, starts, name):
    """Warn if k-means found clear clusters of less even sizes than those of a fit.

    The fit is that of an estimator `name`, with labels (n,), on Samples from the
    Starts, which a fit that was resumed does not have.
    """
    if starts is None or starts.k_means is None:
        return
    rows, others = starts.rows, starts.k_means
    if rows is None:
        rows = np.flatnonzero(samples.row_weights > 0)
        others = others[rows]
    labels, weights = labels[rows], samples.row_weights[rows]
    own, of_k_means = (np.bincount(each, weights) for each in (labels, others))
    is_less_even = of_k_means @ of_k_means > own @ own
    if (
        is_less_even
        and adjusted_rand(labels, others, weights) < _LEAST_AGREEMENT
        and are_separated(near_one(samples.X[rows]), weights, others)
    ):
        sizes, others = (
            ", ".join(f"{100 * share:.3g}" for share in np.sort(each)[::-1])
            for each in (own / own.sum(), of_k_means / of_k_means.sum())
        )
        warn_of_convergence(
            f"{name} finds other clusters than k-means, whose clusters are clearly "
            f"separated: they have {sizes} % of the samples, those of k-means {others} "
            "%. The objective favours clusters of similar sizes. Use ClAM or KMeans "
            "for unequal ones.",
        )


def start_partitions(points, row_weights, n_clusters, random_state):
    """Return the partitions (n,) of several runs of k-means, the best one first.

    `points` (n, d) are centred. Those of a sparse X are not, which changes rounding
    only. The draws do not depend on the order of the points, and a point of weight two
    is drawn like two points.
    """
    # numba is imported here, because it would slow down the import of the package.
    from skdiffclust._kmeans import kmeans

    if isinstance(points, SparseRows):
        points = points.matrix
    points = points.astype(np.float64, copy=False)
    if points.shape[1] == 0:  # equal samples
        points = np.zeros((points.shape[0], 1))
    weights = np.asarray(row_weights, dtype=np.float64)
    _, costs, partitions = kmeans(
        points, weights, n_clusters, _N_RUNS, random_state, max_steps=MAX_ITER
    )
    labels = []
    for i in np.argsort(costs, kind="stable"):
        if not any(np.array_equal(partitions[i], other) for other in labels):
            labels.append(partitions[i])
    return labels


def voronoi(X, row_weights, labels, n_clusters):
    """Return weights (d, k) and biases (k,) of the cells around the means of clusters.

    Both are float64. Empty clusters have the mean of all samples, and no cell if there
    is another cluster.
    """
    sums, sizes = _cluster_sums(X, row_weights, labels, n_clusters)
    means = np.divide(sums, sizes, out=np.zeros_like(sums), where=sizes > 0)
    biases = -np.einsum("ij,ij->j", means, means) / 2
    biases[sizes == 0] = biases.min() - np.square(means).sum()
    return means, biases


def silhouette_of_means(X, labels, weights):
    """Return the mean of (b - a) / max(a, b) of samples X (n, d) with labels (n,).

    a is the distance to the mean of the others of the cluster, and b the smallest one
    to the mean of another cluster. Samples that are alone in a cluster count as 0.
    A sample of weight two, of `weights` (n,), counts as two equal ones.
    """
    sizes = np.bincount(labels, weights)
    if np.count_nonzero(sizes) < 2:
        return 0.0
    means, biases = voronoi(X, weights, labels, len(sizes))
    squares = squared_norms(X)[:, None] - 2 * (X @ means + biases)
    distances = np.sqrt(np.maximum(squares, 0.0))
    rows = np.arange(len(labels))
    # With the sample itself, the mean is nearer by this factor.
    others = sizes[labels] - np.minimum(weights, 1)
    own = distances[rows, labels]
    own *= sizes[labels] / np.where(others > 0, others, 1)
    distances[rows, labels] = np.inf
    distances[:, sizes == 0] = np.inf
    nearest = distances.min(axis=1)
    largest = np.maximum(own, nearest)
    values = np.zeros(len(labels))
    is_known = (others > 0) & (largest > 0)
    np.divide(nearest - own, largest, out=values, where=is_known)
    return float(weights @ values / weights.sum())


def _cluster_sums(X, row_weights, labels, n_clusters):
    """Return weighted sums (d, k) of the rows of clusters, and sizes (k,), float64."""
    sizes = np.bincount(labels, row_weights, minlength=n_clusters)
    weights = np.asarray(row_weights, dtype=np.float64)
    if isinstance(X, SparseRows):
        n_samples = len(labels)
        members = csr_array(
            (weights, labels, np.arange(n_samples + 1)), shape=(n_samples, n_clusters)
        )
        return (X.matrix.T @ members).toarray() - np.outer(X.means, sizes), sizes
    from skdiffclust._kmeans import add_members

    sums = np.zeros((1, n_clusters, X.shape[1]))
    add_members(X, weights, np.zeros(1, dtype=np.int64), labels[None], sums)
    return sums[0].T, sizes


def ascend(X, row_weights, labels, n_clusters, mode):
    """Return the value, weights (d, k) and biases (k,) of cells of larger linear MMD.

    Labels become argmax_k of the gradient by the assignments, which is linear in the
    samples, for as long as the objective grows by more than rounding. One-vs-all is
    convex in the assignments and never decreases. O(n d k) per iteration.
    """
    cells = voronoi(X, row_weights, labels, n_clusters)
    value, *_ = _response(X, row_weights, labels_in(X, cells), n_clusters, mode)
    _, *response = _response(X, row_weights, labels, n_clusters, mode)
    for _ in range(MAX_ITER):
        labels = labels_in(X, response)
        new, *following = _response(X, row_weights, labels, n_clusters, mode)
        if not new > value * (1 + _ROUNDING):
            break
        cells = response
        value = new
        response = following
    return value, *cells


def labels_in(X, cells):
    """Return the labels (n,) of X (n, d) in cells of weights (d, k) and biases (k,)."""
    weights, biases = (array.astype(X.dtype, copy=False) for array in cells)
    return (X @ weights + biases).argmax(axis=1)


def _response(X, row_weights, labels, n_clusters, mode):
    """Return the MMD of a hard partition, and its gradient as weights and biases."""
    sums, share = _cluster_sums(X, row_weights, labels, n_clusters)
    sums -= np.outer(sums.sum(axis=1), share)
    value, mixing, shift = mmd_of_sums(sums.T @ sums, share, mode)
    return value, sums @ mixing.T, shift


def soft_factor(family, problem):
    """Return the factor at which a model of a family is soft enough for training.

    A family is a function from the factor of its logits to a model.
    """
    logits, _ = family(1.0).forward(problem.X)
    logits = logits.astype(np.float64)
    spread = float(problem.row_weights @ np.ptp(logits, axis=1))
    if not spread > 0:
        return 1.0
    factor = 1 / spread
    while factor * spread < _SHARPEST:
        certainty = softmax(factor * logits).max(axis=1)
        if problem.row_weights @ certainty >= _SOFT:
            break
        factor *= 1.5
    return factor


def sharp_factor(family, problem):
    """Return about the factor at which a model of a family has the lowest loss.

    Factors are tried in steps of four, from a soft one on. Of those that are as good,
    the least sharp is returned. The loss may rise on the way.
    """
    factors = soft_factor(family, problem) * 4.0 ** np.arange(_MOST_STEPS)
    losses = []
    for factor in factors:
        losses.append(loss_and_gradients(family(factor), problem)[0])
        # Assignments that are hard change no more.
        if losses[-2:] == 2 * losses[-1:]:
            break
    lowest = min(losses)
    is_good = [not loss > lowest + _GAIN * abs(lowest) for loss in losses]
    return factors[int(np.argmax(is_good))]


def softened(model, problem):
    """Return a model with logits that are soft multiples of those of another."""

    def scaled(factor):
        return model.scaled(model.arrays[0].dtype.type(factor))

    return scaled(soft_factor(scaled, problem))


def ordered(model, logits, row_weights):
    """Return a model with its clusters ordered by size on samples of logits (n, k)."""
    labels = logits.argmax(axis=1)
    order = order_by_size(labels, logits.shape[1], row_weights)
    return model.permute_outputs(order)


def matched(model, predicted, labels):
    """Return a model with its clusters in the order in which they agree with labels.

    `predicted` (n,) are its own labels; as many samples as possible have the same in
    both.
    """
    n_clusters = model.arrays[-1].shape[-1]
    table = np.zeros((n_clusters, n_clusters))
    np.add.at(table, (labels, predicted), 1)
    _, order = linear_sum_assignment(table, maximize=True)
    return model.permute_outputs(order)


def family_of_cells(kind, weights, biases, template):
    """Return a function from a factor to a model with multiples of logits of cells.

    `weights` (d, k) and `biases` (k,) are those of the cells, `template` is a new,
    random model of this kind. In a perceptron two ReLUs represent a logit, so it needs
    two units for each cluster; the other units start without any effect.
    """
    dtype = template.arrays[0].dtype

    def cells(factor):
        return (factor * weights).astype(dtype), (factor * biases).astype(dtype)

    if kind == "linear":
        return lambda factor: Encoder(*([array] for array in cells(factor)))
    if kind == "skip":
        return lambda factor: _beside_skip(template, *cells(factor))
    return lambda factor: _within_perceptron(template, *cells(factor))


def _beside_skip(template, weights, biases):
    """Return skip weights (d, k) and biases (k,) beside a perceptron of no effect."""
    perceptron = template.perceptron
    last = perceptron.weights[-1]
    perceptron = Encoder(
        [*(w.copy() for w in perceptron.weights[:-1]), np.zeros_like(last)],
        [*(b.copy() for b in perceptron.biases[:-1]), biases],
    )
    return SkipPerceptron(weights, perceptron)


def _within_perceptron(template, weights, biases):
    """Return a perceptron with the logits of weights (d, k) and biases (k,)."""
    n_clusters = len(biases)
    own = slice(0, 2 * n_clusters)
    layers = [w.copy() for w in template.weights]
    shifts = [b.copy() for b in template.biases]
    # Two units carry the positive and the negative part of each logit.
    layers[0][:, own] = np.hstack([weights, -weights])
    shifts[0][own] = np.concatenate([biases, -biases])
    for layer, shift in zip(layers[1:-1], shifts[1:-1], strict=True):
        layer[:, own] = 0
        layer[own, own] = np.eye(2 * n_clusters)
        shift[own] = 0
    layers[-1][...] = 0
    layers[-1][own] = np.vstack([np.eye(n_clusters), -np.eye(n_clusters)])
    shifts[-1][...] = 0
    return Encoder(layers, shifts)


def family_of_labels(labels, numbers, n_clusters, dtype):
    """Return a function from a factor to free assignments for labels (n,).

    `numbers` (n,) are those of the distinct samples.
    """
    table = np.zeros((int(numbers.max()) + 1, n_clusters), dtype=dtype)
    table[numbers, labels] = 1
    return lambda factor: FreeAssignments(table * table.dtype.type(factor))


def group_means(points, row_weights, groups):
    """Return the weighted mean (n, d) of the group that each of points (n, d) is in."""
    weights = np.asarray(row_weights, dtype=np.float64)
    shape = int(groups.max()) + 1, len(points)
    members = csr_array((weights, (groups, np.arange(len(points)))), shape=shape)
    sizes = np.bincount(groups, weights)
    sizes = np.where(sizes > 0, sizes, 1.0)
    if isinstance(points, SparseRows):
        means = (members @ points.matrix).multiply(1 / sizes[:, None]).tocsr()
        return SparseRows(means[groups], points.means)
    means = members @ np.asarray(points, dtype=np.float64)
    means /= sizes[:, None]
    return means[groups]


def rows_to_start(problem, n_clusters):
    """Return rows (m,) of a problem that partitions are searched on, None for all.

    Among many samples, some of weights above 0 are taken, at equal distances in an
    order of values, not of positions. With links, which may be between any samples, all
    are used.
    """
    n_most = max(_MOST_SEARCHED, _MOST_PER_CLUSTER * n_clusters)
    present = np.count_nonzero(problem.row_weights)
    if problem.constraints is not None or present <= n_most:
        return None
    factors = np.random.RandomState(0).normal(size=problem.X.shape[1])
    order = np.argsort(problem.X @ factors)
    order = order[problem.row_weights[order] > 0]
    places = np.linspace(0, present - 1, n_most).astype(np.int64)
    return np.sort(order[places])


def initial_cells(problem, rows, n_clusters, linear_mode, random_state):
    """Return weights (d, k) and biases (k,) of the cells that models start from.

    Also returns the labels (m,) of the best run of k-means. `linear_mode` is "ova" or
    "ovo" for the MMD with a linear kernel, and None for all else. Partitions are
    searched on some `rows` (m,), None for all. If there are more features than samples,
    the features of a linear kernel take the place of X: they are as far apart, in fewer
    dimensions. Linked samples are placed at their mean, which amounts to k-means under
    must-links.
    """
    some = problem if rows is None else problem.take(rows)
    points = some.X if linear_mode is None else some.relation.features
    if some.constraints is not None:
        points = group_means(points, some.row_weights, some.constraints.groups)
    partitions = start_partitions(points, some.row_weights, n_clusters, random_state)
    cells = best_cells(some, partitions, n_clusters, linear_mode)
    if rows is None:
        return cells, partitions[0]
    labels = labels_in(problem.X, cells)
    if linear_mode is None:
        cells = voronoi(problem.X, problem.row_weights, labels, n_clusters)
    else:
        _, *cells = ascend(
            problem.X, problem.row_weights, labels, n_clusters, linear_mode
        )
    return cells, partitions[0]


def best_cells(problem, partitions, n_clusters, linear_mode):
    """Return weights (d, k) and biases (k,) of the cells of the best of partitions.

    `linear_mode` is "ova" or "ovo" for the MMD with a linear kernel, for which all
    partitions are improved first; None for all else, where it is the first partition.
    With links, which the improvement ignores, it is the best one that satisfies them,
    and the first partition if there is none.
    """
    X = problem.X
    row_weights = problem.row_weights
    links = problem.constraints
    improved = [
        ascend(X, row_weights, labels, n_clusters, linear_mode)
        for labels in (partitions if linear_mode else [])
    ]
    if links is not None:
        improved = [
            each
            for each in improved
            if not any(broken_links(labels_in(X, each[1:]), links))
        ]
    if not improved:
        return voronoi(X, row_weights, partitions[0], n_clusters)
    # The first of the best: values of one partition differ by rounding only.
    largest = max(value for value, *_ in improved)
    lowest = largest - _EQUAL * abs(largest)
    return next(cells for value, *cells in improved if value >= lowest)
