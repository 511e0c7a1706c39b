"""What distinguishes the clusters of any method: features, and a rule for each."""

from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from sklearn.metrics import precision_recall_fscore_support
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from skdiffclust._columns import categorical_mask, levels_of, read_columns
from skdiffclust._compat import Interval, check_pandas_support, validate_params
from skdiffclust._constraints import numbers_of_names
from skdiffclust._drawing import axes_of
from skdiffclust._validation import (
    canonical_rows,
    check_dense_size,
    refuse_silent_conversion,
)

if TYPE_CHECKING:
    import pandas

__all__ = ["ClusterDescription", "ClusterDescriptionDisplay", "describe_clusters"]


@dataclass(frozen=True)
class ClusterDescription:
    """Result of `describe_clusters`.

    A feature is a column of numbers, or a level of a column of categories: its value is
    1 for the samples of that level and 0 for the others. Of booleans, there is the
    level True only.

    Attributes
    ----------
    clusters : ndarray of shape (n_clusters,)
        Labels of the clusters, in increasing order.
    sizes : ndarray of shape (n_clusters,), int64
        Number of samples.
    rules : tuple of str
        Rule of each cluster.
    precision : ndarray of shape (n_clusters,), float64
        Share of the held-out samples selected by the rule that are in the cluster: the
        median over five halves. NaN for a cluster of a single sample.
    recall : ndarray of shape (n_clusters,), float64
        Share of the held-out samples of the cluster that the rule selects, likewise.
    features : ndarray of shape (n_features,), object
        Names, "island is Biscoe" for a level.
    inside : ndarray of shape (n_clusters, n_features), float64
        Mean of the feature in the cluster, a share for a level. NaN where no value is
        known.
    outside : ndarray of shape (n_clusters, n_features), float64
        Mean of the feature in all other samples, likewise.
    effects : ndarray of shape (n_clusters, n_features), float64
        For a number, the probability that it is larger in a sample of the cluster than
        in another one, plus half the probability that both are equal: 0.5 means no
        difference. For a level, the difference of the shares: 0 means no difference.
    strengths : ndarray of shape (n_clusters, n_features), float64
        Effects on one scale from -1 to 1: the probability that the feature is larger
        inside than outside, minus the probability that it is smaller. It is
        ``2 * effects - 1`` for numbers and `effects` for levels.
    listed : ndarray of shape (n_clusters, n_listed), int64
        Features that are listed for each cluster, in decreasing order of the absolute
        value of `strengths`.

    See Also
    --------
    describe_clusters : Compute a description.
    ClusterDescriptionDisplay : Draw a description.
    """

    clusters: np.ndarray
    sizes: np.ndarray
    rules: tuple
    precision: np.ndarray
    recall: np.ndarray
    features: np.ndarray
    inside: np.ndarray
    outside: np.ndarray
    effects: np.ndarray
    strengths: np.ndarray
    listed: np.ndarray

    def __repr__(self) -> str:
        """Return the numbers of clusters and features."""
        return "ClusterDescription({} clusters, {} features)".format(
            *self.effects.shape
        )

    def to_frame(self) -> "pandas.DataFrame":
        """Return a table with a row for each cluster.

        Returns
        -------
        pandas.DataFrame
            Table indexed by cluster: "size", "rule", "precision" and "recall".

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = check_pandas_support("ClusterDescription.to_frame")
        return pd.DataFrame(
            {
                "size": self.sizes,
                "rule": self.rules,
                "precision": self.precision,
                "recall": self.recall,
            },
            index=pd.Index(self.clusters, name="cluster"),
        )

    def features_to_frame(self) -> "pandas.DataFrame":
        """Return a table with a row for each listed feature of each cluster.

        Returns
        -------
        pandas.DataFrame
            Columns "cluster", "feature", "inside", "outside" and "effect".

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = check_pandas_support("ClusterDescription.features_to_frame")
        at = (np.indices(self.listed.shape)[0].ravel(), self.listed.ravel())
        return pd.DataFrame(
            {
                "cluster": self.clusters[at[0]],
                "feature": self.features[at[1]],
                "inside": self.inside[at],
                "outside": self.outside[at],
                "effect": self.effects[at],
            }
        )

    def plot(self, ax=None) -> "ClusterDescriptionDisplay":
        """Plot the effects of the listed features.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created.

        Returns
        -------
        display : ClusterDescriptionDisplay
            Object that stores the plotted data and artists.
        """
        return ClusterDescriptionDisplay(self).plot(ax)


class ClusterDescriptionDisplay:
    """Visualization of the features that distinguish each cluster.

    A row for each feature that is listed for any cluster, and a column for each
    cluster: the colour is the strength of the effect, the number is the mean of the
    feature in the cluster, or the share of a level.

    Parameters
    ----------
    description : ClusterDescription
        Result of `describe_clusters`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot. Available after `plot`.
    figure_ : matplotlib Figure
        Figure of these axes.
    image_ : matplotlib AxesImage
        Image of the strengths. Available after `plot`.
    texts_ : list of matplotlib Text
        Numbers, feature by feature. Available after `plot`.

    See Also
    --------
    describe_clusters : Compute what is plotted.

    Examples
    --------
    >>> from skdiffclust.inspection import ClusterDescriptionDisplay, describe_clusters
    >>> description = describe_clusters([[0, 5], [1, 6], [7, 5], [8, 6]], [0, 0, 1, 1])
    >>> display = ClusterDescriptionDisplay(description).plot()
    >>> display.image_.get_array().shape
    (2, 2)
    """

    def __init__(self, description):
        self.description = description

    def plot(self, ax=None) -> "ClusterDescriptionDisplay":
        """Plot the visualization.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to plot on. With None, a new figure is created, which grows with the
            numbers of features and clusters.

        Returns
        -------
        self : ClusterDescriptionDisplay
            Object that stores the plotted data and artists.
        """
        shown = self.description
        rows = list(dict.fromkeys(shown.listed.ravel().tolist()))
        strengths = shown.strengths[:, rows].T
        (self.ax_,), self.figure_ = axes_of(
            "ClusterDescriptionDisplay",
            ax,
            size=(4 + 0.8 * len(shown.clusters), 1.5 + 0.3 * len(rows)),
        )
        self.image_ = self.ax_.imshow(
            strengths, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto"
        )
        self.texts_ = [
            self.ax_.text(
                *place[::-1],
                # From a thousand on numbers are whole: three digits have an exponent.
                f"{mean:.0f}" if 1e3 <= abs(mean) < 1e6 else f"{mean:.3g}",
                ha="center",
                va="center",
                # Readable on the dark ends of the colour map.
                color="white" if abs(strengths[place]) > 0.7 else "black",
            )
            for place, mean in np.ndenumerate(shown.inside[:, rows].T)
        ]
        self.figure_.colorbar(
            self.image_, ax=self.ax_, label="P(larger inside) − P(smaller inside)"
        )
        self.ax_.set(
            xlabel="cluster (numbers: mean or share inside)",
            xticks=range(len(shown.clusters)),
            xticklabels=shown.clusters,
            yticks=range(len(rows)),
            yticklabels=shown.features[rows],
        )
        self.ax_.tick_params(
            axis="x", labelrotation=90 if shown.clusters.dtype.kind == "U" else 0
        )
        return self


@validate_params(
    {
        "n_features": [Interval(Integral, 1, None, closed="left"), None],
        "max_depth": [Interval(Integral, 1, None, closed="left")],
    },
    prefer_skip_nested_validation=True,
)
def describe_clusters(
    X, labels, *, n_features: int | None = 5, max_depth: int = 3
) -> ClusterDescription:
    """Describe clusters by their features and by a rule for each.

    The clusters may come from any method. Pass the table as it was before scaling and
    encoding, since rules and means are in its units.

    For each cluster, a classification tree separates its samples from all others. The
    rule is the leaf with the best F1 score of this tree, or of a part of it that
    pruning leaves. Precision and recall are medians over five stratified halves of the
    samples, each of which is held out from a tree of its own.

    A good rule says what a cluster is, not that it exists: the labels were computed
    from the same features, and clusters of uniform noise have precise rules, too, as
    the example shows. For this reason there are no p-values.
    :func:`~skdiffclust.model_selection.compare_clusterers` tests for structure.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features), or data frame
        Samples. Columns of a pandas or polars frame that are strings, categories,
        booleans or objects are categories; everything else must be numbers. NaN and
        null are missing values; a sparse matrix may not have any.
    labels : array-like of shape (n_samples,)
        Cluster of each sample: integers or strings. Samples of -1 belong to no cluster,
        and are outside of all of them.
    n_features : int or None, default=5
        Number of features to list and plot for each cluster, or all with None.
    max_depth : int, default=3
        Largest number of conditions in a rule.

    Returns
    -------
    ClusterDescription
        Result. Its methods `to_frame` and `features_to_frame` return tables, and `plot`
        draws the effects.

    Raises
    ------
    ValueError
        If there is no cluster, or a single one of all samples, if the numbers of labels
        and samples differ, if a column is neither numbers nor categories, or an object
        column holds numbers, if X has infinite values, or is sparse with missing ones.

    See Also
    --------
    ClusterDescriptionDisplay : Draw the effects.
    sklearn.inspection.permutation_importance : Features that a clusterer with
        `predict` and `score` uses.

    Notes
    -----
    The effect of a number is the area under its ROC curve, computed from ranks [1]_:
    outliers and units do not matter. Effects and means leave missing values out; a tree
    sends them to the side that separates better, and the rule says so.

    A tree sees the ranks of the values of a column, so that the precision of float32 is
    enough, and the thresholds of the rules are the shortest numbers that separate the
    same samples. Ties between features are broken by a fixed seed. Levels are one-hot
    encoded; sparse X is never made dense. Fitting six trees for each cluster takes
    most of the time, O(n_clusters n_features n_samples log n_samples).

    References
    ----------
    .. [1] Vargha, Delaney. A critique and improvement of the CL common language effect
       size statistics of McGraw and Wong. Journal of Educational and Behavioral
       Statistics 25(2), 2000.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.datasets import load_iris
    >>> from skdiffclust.inspection import describe_clusters
    >>> iris = load_iris(as_frame=True)
    >>> description = describe_clusters(iris.data, iris.target)
    >>> print(*description.rules, sep="\\n")
    petal width (cm) <= 0.8
    0.8 < petal width (cm) <= 1.7 and petal length (cm) <= 4.9
    petal width (cm) > 1.7
    >>> description
    ClusterDescription(3 clusters, 4 features)

    Noise has rules, too:

    >>> import numpy as np
    >>> noise = np.random.default_rng(0).uniform(size=(300, 2))
    >>> labels = KMeans(3, random_state=0).fit_predict(noise)
    >>> describe_clusters(noise, labels).precision.round(2)
    array([0.95, 1.  , 0.86])
    """
    matrix, columns = _as_matrix(X)
    clusters, ids = _numbered(labels, matrix)
    inside, outside, areas = _compare(matrix, ids, len(clusters))
    strengths = 2 * areas - 1
    ranked, values = _ranked(matrix, np.ones(len(ids), dtype=bool))
    precision, recall = _held_out(matrix, ids, len(clusters), max_depth)
    return ClusterDescription(
        clusters=clusters,
        sizes=np.bincount(ids)[: len(clusters)],
        rules=tuple(
            _rule(ids == cluster, max_depth, ranked, values, columns)
            for cluster in range(len(clusters))
        ),
        precision=precision,
        recall=recall,
        features=np.array(
            [
                f"{name} is {level}" if level is not None else str(name)
                for name, level in columns
            ],
            dtype=object,
        ),
        inside=inside,
        outside=outside,
        effects=np.where([level is not None for _, level in columns], strengths, areas),
        strengths=strengths,
        # Features without a known value come last.
        listed=np.argsort(
            -np.nan_to_num(np.abs(strengths), nan=-1.0), axis=1, kind="stable"
        )[:, :n_features],
    )


def _as_matrix(X):
    """Return X as a matrix (n, m) of float64, and the (name, level) of its columns.

    It is dense with NaN for missing values, or a CSC; the level of numbers is None.
    """
    is_sparse = sparse.issparse(X) or hasattr(X, "sparse")
    columns = []
    if hasattr(X, "columns") and not is_sparse:
        columns, X = _encoded(X)
    else:
        refuse_silent_conversion(X)
    matrix = check_array(
        X,
        accept_sparse="csr",
        dtype=np.float64,
        ensure_all_finite=True if is_sparse else "allow-nan",
        input_name="X",
    )
    names = getattr(X, "columns", map("x{}".format, range(matrix.shape[1])))
    return (
        canonical_rows(matrix).tocsc() if is_sparse else matrix,
        columns or [(name, None) for name in names],
    )


def _encoded(frame):
    """Return the (name, level) of m features of a data frame, and float64 (n, m)."""
    is_category = categorical_mask(frame, "from_dtype")
    encoded = []
    for j, (name, entries, is_gap) in enumerate(read_columns(frame, is_category)):
        if is_category[j]:
            encoded += _indicators(name, entries, is_gap)
        else:
            encoded.append(((name, None), entries))
    values = np.reshape([values for _, values in encoded], (len(encoded), len(frame)))
    return [column for column, _ in encoded], values.T


def _indicators(name, entries, is_gap):
    """Return a list of ((name, level), float64 (n,)) of a column of categories.

    An array is 1 at its level, 0 elsewhere, and NaN where no level is known. Booleans
    have only the one of True.
    """
    levels = levels_of(name, entries, is_gap)
    check_dense_size(
        len(entries),
        len(levels),
        what=f"the matrix of the levels of column {name!r}",
        remedy="Drop columns of identifiers, or merge their rare levels.",
    )
    is_boolean = all(isinstance(level, bool) for level in levels)
    return [
        ((name, level), np.where(is_gap, np.nan, entries == level))
        for level in (levels[-1:] if is_boolean else levels)
    ]


def _numbered(labels, matrix):
    """Return the clusters (k,), and the number of each sample's cluster, k for none."""
    labels = column_or_1d(labels)
    check_consistent_length(matrix, labels)
    is_inside = numbers_of_names(labels, "The 'labels' parameter") != -1
    clusters, numbers = np.unique(labels[is_inside].tolist(), return_inverse=True)
    if len(clusters) < 1 + is_inside.all():
        raise ValueError(
            "The 'labels' parameter of describe_clusters must have a cluster, and "
            f"samples outside of it. Got {len(clusters)} clusters of "
            f"{len(numbers)} of {len(labels)} samples instead. Fit the "
            "clusterer with other parameters."
        )
    ids = np.full(len(labels), len(clusters))
    ids[is_inside] = numbers
    return clusters, ids


def _stored(matrix):
    """Return an iterator over the rows and the values of each column."""
    if sparse.issparse(matrix):
        ends = pairwise(matrix.indptr)
        return ((matrix.indices[a:b], matrix.data[a:b]) for a, b in ends)
    return ((slice(None), values) for values in matrix.T)


@np.errstate(invalid="ignore", over="ignore")  # no value is known, or a sum is inf
def _compare(matrix, ids, n_clusters):
    """Compare the samples inside and outside of each cluster, feature by feature.

    Returns means inside and outside, and areas under the ROC curve, (k, m) each.
    """
    sizes = np.bincount(ids, minlength=n_clusters + 1)
    totals = np.empty((3, n_clusters + 1, matrix.shape[1]))
    for j, (rows, values) in enumerate(_stored(matrix)):
        is_known = ~np.isnan(values)
        groups = ids[rows][is_known]
        n_stored = np.bincount(groups, minlength=n_clusters + 1)
        n_zeros = sizes - n_stored if sparse.issparse(matrix) else 0 * sizes
        # The zero in front counts as often as zero is not stored.
        _, place, counts = np.unique(
            np.append(0.0, values[is_known]), return_inverse=True, return_counts=True
        )
        counts[place[0]] += n_zeros.sum() - 1
        mean_ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
        totals[:, :, j] = (
            n_stored + n_zeros,
            np.bincount(groups, values[is_known], n_clusters + 1),
            np.bincount(groups, mean_ranks[1:], n_clusters + 1)
            + n_zeros * mean_ranks[0],
        )
    n_known, sums, rank_sums = totals
    others = 1.0 - np.eye(n_clusters + 1)[:-1]
    n_inside = n_known[:-1]
    n_outside = others @ n_known
    return (
        sums[:-1] / n_inside,
        others @ sums / n_outside,
        (rank_sums[:-1] - n_inside * (n_inside + 1) / 2) / n_inside / n_outside,
    )


def _ranked(matrix, is_given):
    """Return ranks of all values among those of given samples, linear between them.

    A tree may hold ranks in float32, and its thresholds are between the same values.
    The rank of zero is 0, so that a sparse matrix stays sparse. Also returns, for each
    column, its distinct values and the place of zero among them.
    """
    ranks = []
    distinct = []
    for rows, values in _stored(matrix):
        is_used = is_given[rows] & ~np.isnan(values)
        known = np.unique(np.append(values[is_used], 0.0))
        distinct.append((known, np.searchsorted(known, 0.0)))
        ranks.append(np.interp(values, known, np.arange(len(known)) - distinct[-1][1]))
    if not sparse.issparse(matrix):
        return np.column_stack(ranks).astype(np.float32), distinct
    # A tree takes indices of 32 bits only.
    kind = sparse.get_index_dtype((matrix.indices, matrix.indptr), check_contents=True)
    parts = (
        np.concatenate(ranks),
        matrix.indices.astype(kind),
        matrix.indptr.astype(kind),
    )
    return sparse.csc_array(parts, matrix.shape, np.float32).tocsr(), distinct


def _best_node(is_inside, max_depth, ranked):
    """Return a tree that separates a cluster, and its node of the best F1 score.

    Every node is a leaf of a pruned tree. The root is chosen only if it is alone.
    """
    tree = DecisionTreeClassifier(max_depth=max_depth, random_state=0)
    nodes = tree.fit(ranked, is_inside).tree_
    n_found = nodes.n_node_samples * nodes.value[:, 0, -1]
    f1 = 2 * n_found / (nodes.n_node_samples + np.count_nonzero(is_inside))
    return tree, int(np.argmax(np.where(np.arange(len(f1)) > 0, f1, 0.0)))


def _held_out(matrix, ids, n_clusters, max_depth):
    """Return precision (k,) and recall (k,) on halves that a tree does not know."""
    sizes = np.bincount(ids)
    # Samples that are alone cannot be in both halves.
    strata = np.where(sizes[ids] < 2, np.argmax(sizes), ids)
    halves = StratifiedShuffleSplit(5, test_size=0.5, random_state=0).split(ids, strata)
    scores = np.full((5, n_clusters, 2), np.nan)
    for half, (train, test) in enumerate(halves):
        ranked, _ = _ranked(matrix, np.isin(np.arange(len(ids)), train))
        for cluster in np.flatnonzero(sizes[:n_clusters] > 1):
            tree, node = _best_node(ids[train] == cluster, max_depth, ranked[train])
            selected = tree.decision_path(ranked[test])[:, [node]].toarray()
            scores[half, cluster] = precision_recall_fscore_support(
                ids[test] == cluster, selected, average="binary", zero_division=0.0
            )[:2]
    return np.median(scores, axis=0).T


def _rule(is_inside, max_depth, ranked, values, columns):
    """Return the rule of a cluster, in words."""
    tree, node = _best_node(is_inside, max_depth, ranked)
    passed = tree.decision_path(ranked)
    selected = np.flatnonzero(passed[:, [node]].toarray())
    # Nodes are numbered depth first, a parent before its children.
    path = np.sort(passed[[selected[0]]].indices)
    bounds = {}
    for parent, child in pairwise(path[path <= node]):
        pair = bounds.setdefault(int(tree.tree_.feature[parent]), [-np.inf, np.inf])
        side = int(tree.tree_.children_left[parent] == child)
        pair[side] = (max, min)[side](pair[side], tree.tree_.threshold[parent])
    return (
        " and ".join(
            _condition(
                *columns[j], *pair, *values[j], np.isnan(ranked[selected][:, [j]].max())
            )
            for j, pair in bounds.items()
        )
        or "all samples"
    )


def _condition(name, level, lower, upper, distinct, zero, has_gaps):
    """Return the condition that a rank is above one bound and not above the other."""
    if lower == np.inf:  # a split between missing and known values
        return f"{name} is missing"
    if has_gaps:
        return (
            f"({_condition(name, level, lower, upper, distinct, zero, False)}"
            " or missing)"
        )
    if lower == -np.inf and upper == np.inf:
        return f"{name} is known"
    if level is not None:
        return f"{name} is {'' if upper == np.inf else 'not '}{level}"
    low, high = (
        _threshold(distinct[int(np.floor(bound)) + zero :])
        if np.isfinite(bound)
        else ""
        for bound in (lower, upper)
    )
    below = f"{low} < {name}" if low else name
    return f"{below} <= {high}" if high else f"{name} > {low}"


def _threshold(distinct):
    """Return the shortest number that separates the first two values, as text."""
    low, high = distinct[:2]
    shortest = next(
        number
        for n_digits in range(1, 18)
        for value in (low / 2 + high / 2, low)
        if low <= (number := float(f"{value:.{n_digits}g}")) < high
    )
    return repr(shortest).removesuffix(".0")
