"""Several clusterers on the same data, side by side."""

import warnings
from dataclasses import dataclass
from itertools import cycle, islice
from numbers import Integral
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import (
    adjusted_rand_score,
    calinski_harabasz_score,
    davies_bouldin_score,
    silhouette_score,
)
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_random_state

from skdiffclust._candidates import no_candidates
from skdiffclust._compat import (
    Interval,
    check_pandas_support,
    num_samples,
    safe_indexing,
    validate_params,
)
from skdiffclust._validation import refuse_container
from skdiffclust._warnings import warn

if TYPE_CHECKING:
    import pandas

__all__ = ["ClustererComparison", "compare_clusterers"]

_FRACTION = 0.8  # of the samples in a resample
_LEVEL = 0.1  # of the test for structure
_LEAST_REFERENCES = 9  # data sets; with fewer, no p-value is as low as the level
_TRIVIAL = 0.95  # a larger share of the samples in one cluster is no division
_N_NEIGHBORS = 10
# Share of the variance that is too small to matter in distances. Of half of the
# features, it is that of tables with different units (wine, breast cancer), not of
# those with one (iris, digits).
_IGNORED = 0.01
_BY_CLUSTERER = (
    "labels",
    "fit_seconds",
    "stability",
    "null_stability",
    "consistency",
    "null_consistency",
    "messages",
)
_SILHOUETTE = 2000  # samples that the silhouette is computed on, at most


@dataclass(frozen=True)
class ClustererComparison:
    """Result of `compare_clusterers`.

    Attributes
    ----------
    names : tuple of str
        Names of the clusterers that were run, in the order in which they were passed.
    labels : dict of str to ndarray of shape (n_samples,), int64
        Cluster of each sample, which is predicted for samples that the clusterers were
        not fitted to. -1 marks noise and, for clusterers without `predict`, samples
        that they were not fitted to.
    n_clusters : dict of str to int
        Number of clusters, noise excluded.
    n_fitted : int
        Number of samples to which the clusterers were fitted.
    fit_seconds : dict of str to float
        Processor time of that fit, compilation included.
    stability : dict of str to ndarray of shape (n_resamples,)
        Adjusted Rand index between the labels of that fit and of a fit to 80 % of its
        samples, computed on these samples; 0 if no cluster was found, or if one
        contains more than 95 % of them.
    null_stability : dict of str to ndarray of shape (n_references,)
        The same on data without clusters, drawn anew for each value; see `reference`.
        There are ``4 * n_resamples - 1`` of them, but at least nine; or fewer, because
        no more are drawn once so many of them are as stable that the p-value exceeds
        0.1 whatever the others are: the second of 19.
    consistency : dict of str to float
        Share of the ten nearest neighbours of the samples in clusters that are in the
        same cluster [1]_. It is 1 if there is no cluster, and if X is not numeric or
        has missing values.
    null_consistency : dict of str to ndarray of shape (n_references,)
        The same on each of the data without clusters.
    reference : {"gaussian", "permuted columns"}
        How the data without clusters are generated: drawn from a Gaussian with the mean
        and the covariance of X or, if X is sparse, not numeric or has missing values,
        by permuting the columns of X independently of each other.
    scores : dict of str to dict of str to float
        "silhouette", "calinski_harabasz" and "davies_bouldin" (smaller is better) in
        the space of X; NaN with fewer than two clusters, or if X is not numeric.
    agreement : ndarray of shape (n_clusterers, n_clusterers)
        Adjusted Rand index between the labels of each pair of clusterers, in the order
        of `names`, on the samples that both assign to a cluster.
    messages : dict of str to tuple of str
        Distinct warnings issued by the fit.
    left_out : dict of str to str
        Errors of clusterers that failed, by name. The other attributes do not have
        these clusterers.

    See Also
    --------
    compare_clusterers : Compute a comparison.
    skdiffclust.plotting.ClustererComparisonDisplay : Draw a comparison.

    References
    ----------
    .. [1] Ding, He. K-nearest-neighbor consistency in data clustering: incorporating
       local information into global optimization. SAC 2004.
    """

    names: tuple[str, ...]
    labels: dict[str, np.ndarray]
    n_clusters: dict[str, int]
    n_fitted: int
    fit_seconds: dict[str, float]
    stability: dict[str, np.ndarray]
    null_stability: dict[str, np.ndarray]
    consistency: dict[str, float]
    null_consistency: dict[str, np.ndarray]
    reference: str
    scores: dict[str, dict[str, float]]
    agreement: np.ndarray
    messages: dict[str, tuple[str, ...]]
    left_out: dict[str, str]

    @property
    def p_values(self) -> dict[str, float]:
        """Return how often data without clusters give as stable a partition.

        Returns
        -------
        dict of str to float
            P-value of a Monte Carlo test: (1 + number of values on reference data that
            reach that of X) / (1 + number of reference data sets), or the first number
            over the second where no more data were drawn because the test was decided
            [1]_. The value is the product of stability and consistency, since the
            halves of one long cluster may be as stable as two clusters, but the border
            between them passes through neighbours.

        References
        ----------
        .. [1] Besag, Clifford. Sequential Monte Carlo p-values. Biometrika 1991.
        """
        return {name: self._p_value(name) for name in self.names}

    def _p_value(self, name):
        """Return the p-value of a clusterer."""
        value = self.stability[name].mean() * self.consistency[name]
        null = self.null_stability[name] * self.null_consistency[name]
        n_reached = int(np.sum(null >= value))
        if n_reached >= _n_decisive(len(self.stability[name])):
            return n_reached / len(null)
        return (1 + n_reached) / (1 + len(null))

    @property
    def has_structure(self) -> dict[str, bool]:
        """Whether each clusterer is more stable than on data without clusters.

        Returns
        -------
        dict of str to bool
            True where the p-value is at most 0.1.
        """
        return {name: p_value <= _LEVEL for name, p_value in self.p_values.items()}

    def to_frame(self) -> "pandas.DataFrame":
        """Return the comparison as a table with one row per clusterer.

        Returns
        -------
        pandas.DataFrame
            Table indexed by name, with the most stable clusterer first. Clusterers that
            were not run come last, with the reason in the column "note".

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = check_pandas_support("ClustererComparison.to_frame")
        p_values = self.p_values
        rows = {}
        for name in self.names:
            labels = self.labels[name]
            notes = list(self.messages[name])
            if p_values[name] > _LEVEL:
                notes.insert(
                    0,
                    f"no structure: as stable on {self._reference_data} "
                    f"(p = {p_values[name]:.2f})",
                )
            if self.n_fitted < len(labels):
                notes.insert(0, f"fitted to {self.n_fitted} samples")
            rows[name] = {
                "n_clusters": self.n_clusters[name],
                "smallest": _sizes(labels).min(initial=len(labels)),
                "noise": int(np.sum(labels < 0)),
                "seconds": self.fit_seconds[name],
                "stability": self.stability[name].mean(),
                "null_stability": self.null_stability[name].mean(),
                "consistency": self.consistency[name],
                "p_value": p_values[name],
                **self.scores[name],
                "note": "; ".join(notes),
            }
        rows |= {name: {"note": reason} for name, reason in self.left_out.items()}
        frame = pd.DataFrame.from_dict(rows, orient="index")
        if not self.names:
            return frame
        return frame.sort_values(
            "stability", ascending=False, kind="stable", na_position="last"
        )

    @property
    def _reference_data(self):
        """The reference, in words."""
        return "one Gaussian" if self.reference == "gaussian" else self.reference

    def __repr__(self) -> str:
        """Return a line for each clusterer."""
        p_values = self.p_values
        lines = [
            f"{name}: {self.n_clusters[name]} clusters, stability "
            f"{self.stability[name].mean():.2f} "
            f"({self.null_stability[name].mean():.2f} on {self._reference_data}, "
            f"p = {p_values[name]:.2f})"
            + ("" if p_values[name] <= _LEVEL else ", no structure")
            for name in self.names
        ]
        lines += [
            f"{name}: left out, {reason}" for name, reason in self.left_out.items()
        ]
        return "\n".join(lines)


@validate_params(
    {
        "X": "no_validation",
        "estimators": [dict, list, tuple, None],
        "n_resamples": [Interval(Integral, 1, None, closed="left")],
        "max_samples": [Interval(Integral, 4, None, closed="left")],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=False,
)
def compare_clusterers(
    X,
    estimators=None,
    *,
    n_resamples=5,
    max_samples=2000,
    n_jobs=None,
    verbose=0,
    random_state=None,
) -> ClustererComparison:
    """Fit several clusterers to the same samples and compare what they find.

    Each clusterer is fitted to the samples, at most `max_samples` of them, and to
    `n_resamples` random subsets of 80 %, which are the same for all clusterers. In
    addition, it is fitted to ``4 * n_resamples - 1`` sets of reference data without
    clusters, at least nine, and to a subset of each, until the outcome of the test
    below is certain. A partition reflects structure in
    the samples if it is reproduced on the subsets more reliably than on the reference
    data, or separates fewer neighbours; a Monte Carlo test at the level 0.1 decides. No
    clusterer is recommended, because a stable partition is not necessarily the one of
    interest.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples, in any form that the clusterers accept.
    estimators : dict of str to estimator, list of estimators or None, default=None
        Clusterers with scikit-learn's interface, or pipelines that end in one. They are
        cloned, and a `random_state` that is None is set to a number drawn from
        `random_state`. With None, the clusterers of this package that choose the number
        of clusters are compared with :class:`sklearn.cluster.HDBSCAN`.
    n_resamples : int, default=5
        Number of subsets.
    max_samples : int, default=2000
        Larger data are subsampled, for all clusterers in the same way. Those that have
        a `predict` method label the other samples by prediction.
    n_jobs : int or None, default=None
        Number of processes used for the fits to subsets, as in joblib.
    verbose : int, default=0
        If positive, a line is printed for each clusterer when its fits have ended.
        Only this and :func:`~skdiffclust.show_versions` print.
    random_state : int, RandomState instance or None, default=None
        Determines the subsets, the reference data and the seeds of the clusterers. Pass
        an int for reproducible results.

    Returns
    -------
    comparison : ClustererComparison
        Result of the comparison. Its method `to_frame` returns a table, and
        :class:`~skdiffclust.plotting.ClustererComparisonDisplay` plots it.

    Raises
    ------
    ValueError
        If there are fewer than four samples, or if two clusterers have the same name.

    Warns
    -----
    UserWarning
        If half of the features have together less than 1 % of the variance of X, and
        not all clusterers are pipelines: distances then ignore these features, which
        often have other units.

    Notes
    -----
    Each clusterer is fitted at most 44 times by default. With the default clusterers
    this takes about 10 seconds for 250 samples of five features, and more than in
    proportion for more samples; set `verbose` to see how far it is. Only the fit to all
    samples looks for other candidates of the number of clusters, and uses all starts
    for it. Warnings are collected for the whole process while the fits are running.

    Where possible, the reference data are drawn from a Gaussian with the mean and the
    covariance of X rather than obtained by permuting columns. Permuted columns have no
    correlations, so that a partition along the longest axis of a single correlated
    Gaussian looks like structure. They also retain the structure of single features,
    and turn three distant groups into a grid of groups.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.datasets import make_blobs
    >>> from skdiffclust import SpanningForestClustering
    >>> from skdiffclust.model_selection import compare_clusterers
    >>> X, _ = make_blobs(150, centers=3, n_features=4, random_state=0)
    >>> clusterers = {"forest": SpanningForestClustering("auto"), "k-means": KMeans(3)}
    >>> comparison = compare_clusterers(X, clusterers, random_state=0)
    >>> comparison.n_clusters
    {'forest': 3, 'k-means': 3}
    >>> comparison.has_structure
    {'forest': True, 'k-means': True}
    """
    refuse_container(X)
    if sparse.issparse(X):
        X = X.tocsr()
    elif not hasattr(X, "iloc"):
        X = np.asarray(X)
    n_samples = num_samples(X)
    if n_samples < 4:
        raise ValueError(
            "The 'X' parameter of compare_clusterers must have at least 4 samples. Got "
            f"{n_samples} instead."
        )
    rng = check_random_state(random_state)
    named = _named(estimators)
    if not all(isinstance(one, Pipeline) for one in named.values()):
        _warn_of_units(X)
    order = rng.permutation(n_samples)
    chosen = np.sort(order[:max_samples])
    subset_seed, null_seed = rng.randint(2**31 - 1, size=2)
    results = {}
    left_out = {}
    for i, (name, estimator) in enumerate(named.items(), 1):
        estimator = _seeded(estimator, rng)
        begin = perf_counter()
        try:
            result = _run(
                estimator, X, chosen, n_resamples, n_jobs, subset_seed, null_seed
            )
            results[name] = result
            outcome = f"stability {result['stability'].mean():.2f}"
        except Exception as error:  # a clusterer may raise anything
            left_out[name] = f"{type(error).__name__}: {error}"
            outcome = f"left out, {left_out[name]}"
        if verbose > 0:
            seconds = perf_counter() - begin
            print(f"[{i}/{len(named)}] {name}: {outcome}; {seconds:.1f} s", flush=True)
    by_field = {
        field: {name: result[field] for name, result in results.items()}
        for field in _BY_CLUSTERER
    }
    labels = by_field["labels"]
    rows = _as_numbers(X, accept_sparse="csr")
    return ClustererComparison(
        names=tuple(results),
        **by_field,
        n_fitted=len(chosen),
        n_clusters={name: len(_sizes(labels[name])) for name in results},
        reference="gaussian" if _as_numbers(X) is not None else "permuted columns",
        scores={name: _scores(rows, labels[name], order) for name in results},
        agreement=_agreement(labels),
        left_out=left_out,
    )


@dataclass(frozen=True)
class _Fit:
    """A fitted clone, its labels, processor seconds and warnings."""

    model: object
    labels: np.ndarray
    seconds: float
    messages: tuple


def _warn_of_units(X):
    """Warn if distances in X (n, d) ignore half of the features."""
    rows = _as_numbers(X)
    if rows is None:
        return
    shares = np.sort(np.var(rows / max(abs(rows).max(), 1e-300), axis=0))
    shares = shares[shares > 0]
    n_ignored = int(np.sum(np.cumsum(shares) <= _IGNORED * shares.sum()))
    if 0 < len(shares) <= 2 * n_ignored:
        warn(
            f"{n_ignored} of {len(shares)} features have together less than "
            f"{_IGNORED:.0%} of the variance of X, so that distances between samples "
            "ignore them. If the features have different units, scale X first, as "
            "with sklearn.preprocessing.StandardScaler."
        )


def _named(estimators):
    """Return {name: estimator}."""
    if estimators is None:
        estimators = _default_clusterers()
    if isinstance(estimators, dict):
        return dict(estimators)
    names = [type(estimator).__name__ for estimator in estimators]
    if len(set(names)) < len(names):
        raise ValueError(
            "The 'estimators' parameter of compare_clusterers must be a dict of names "
            f"and estimators if several are of the same class. Got a list of {names} "
            "instead."
        )
    return dict(zip(names, estimators, strict=True))


def _default_clusterers():
    """Return clusterers that choose the number of clusters themselves."""
    from sklearn.cluster import HDBSCAN

    from skdiffclust.cuts import GraphCutClustering
    from skdiffclust.forests import SpanningForestClustering
    from skdiffclust.gemini import GEMINI
    from skdiffclust.memories import ClAM

    return [
        SpanningForestClustering("auto"),
        ClAM("auto"),
        GraphCutClustering("auto"),
        GEMINI("auto"),
        HDBSCAN(copy=True),
    ]


def _seeded(estimator, rng):
    """Return a clone in which every `random_state` of None is a number."""
    estimator = clone(estimator)
    seed = int(rng.randint(2**31 - 1))
    given = estimator.get_params()
    return estimator.set_params(
        **{
            key: seed
            for key in sorted(given)
            if (key == "random_state" or key.endswith("__random_state"))
            and given[key] is None
        }
    )


def _fit(estimator, X):
    """Fit a clone to X."""
    model = clone(estimator)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = process_time()
        labels = np.asarray(model.fit_predict(X))
        seconds = process_time() - begin
    messages = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    return _Fit(model, labels.astype(np.int64), seconds, messages)


def _run(estimator, X, chosen, n_resamples, n_jobs, subset_seed, null_seed):
    """Fit a clusterer to the chosen samples, to subsets, and to reference data.

    Returns its entry of each dict `_BY_CLUSTERER` of a `ClustererComparison`.
    """
    n_samples = num_samples(X)
    part = X if len(chosen) == n_samples else safe_indexing(X, chosen)
    rng = np.random.RandomState(subset_seed)
    size = max(2, round(_FRACTION * len(chosen)))
    subsets = [np.sort(rng.permutation(len(chosen))[:size]) for _ in range(n_resamples)]
    numbers = _as_numbers(part)
    whole = _fit(estimator, part)
    labels = whole.labels
    parallel = Parallel(n_jobs=n_jobs)
    stability = parallel(
        delayed(_stability)(estimator, part, labels, rows) for rows in subsets
    )
    consistency = _consistency(part, labels)
    value = np.mean(stability) * consistency
    n_null = _n_references(n_resamples)
    seeds = np.random.RandomState(null_seed).randint(2**31 - 1, size=n_null)
    tasks = zip(cycle(subsets), seeds, strict=False)
    null = np.empty((0, 2))
    at_once = effective_n_jobs(n_jobs)
    while len(null) < n_null:
        drawn = parallel(
            delayed(_of_reference)(estimator, part, numbers, *task)
            for task in islice(tasks, min(at_once, n_null - len(null)))
        )
        null = np.concatenate([null, drawn])
        reached = np.flatnonzero(null.prod(axis=1) >= value)
        if len(reached) >= _n_decisive(n_resamples):
            # Those after the one that decides depend on the number of processes.
            null = null[: reached[_n_decisive(n_resamples) - 1] + 1]
            break
    null_stability, null_consistency = null.T
    everywhere = labels
    if len(chosen) < n_samples:
        everywhere = np.full(n_samples, -1, dtype=np.int64)
        if hasattr(whole.model, "predict"):
            everywhere = np.asarray(whole.model.predict(X)).astype(np.int64)
        everywhere[chosen] = labels
    return {
        "labels": everywhere,
        "fit_seconds": whole.seconds,
        "stability": np.array(stability),
        "null_stability": null_stability,
        "consistency": consistency,
        "null_consistency": null_consistency,
        "messages": whole.messages,
    }


def _n_references(n_resamples):
    """Return the largest number of data without clusters that the test draws."""
    return max(_LEAST_REFERENCES, 4 * n_resamples - 1)


def _n_decisive(n_resamples):
    """Return how many references reach a value whose p-value is above the level."""
    return int(_LEVEL * _n_references(n_resamples)) + 1


def _stability(estimator, X, labels, rows):
    """Return the agreement of the labels of X with those of a fit to some samples.

    It is zero if there is no cluster, or if one contains nearly all samples, which is
    easily found again.
    """
    sizes = _sizes(labels)
    if not len(sizes) or sizes.max() > _TRIVIAL * len(labels):
        return 0.0
    with no_candidates():
        refitted = _fit(estimator, safe_indexing(X, rows)).labels
    return adjusted_rand_score(labels[rows], refitted)


def _of_reference(estimator, X, numbers, rows, seed):
    """Return the stability and the consistency on reference data.

    `numbers` is X as numbers, or None.
    """
    rng = np.random.RandomState(seed)
    if numbers is None:
        reference = _permuted_columns(X, rng)
    else:
        reference = _gaussian(numbers, rng)
        if hasattr(X, "iloc"):
            reference = type(X)(reference, index=X.index, columns=X.columns)
    with no_candidates():
        labels = _fit(estimator, reference).labels
    stability = _stability(estimator, reference, labels, rows)
    return stability, _consistency(reference, labels)


def _consistency(X, labels):
    """Return the share of nearest neighbours in the same cluster, 1 without them."""
    rows = _as_numbers(X, accept_sparse="csr")
    clustered = labels >= 0
    if rows is None or not clustered.any():
        return 1.0
    # Values are scaled so that no square overflows or vanishes.
    rows = rows / max(abs(rows).max(), np.finfo(np.float64).tiny)
    n_neighbors = min(_N_NEIGHBORS, len(labels) - 1)
    search = NearestNeighbors(n_neighbors=n_neighbors).fit(rows)
    nearest = search.kneighbors(return_distance=False)
    return float((labels[nearest] == labels[:, None])[clustered].mean())


def _as_numbers(X, accept_sparse=False):
    """Return X (n, d) as finite float64, or None if it is sparse or not numeric."""
    try:
        return check_array(X, accept_sparse=accept_sparse, dtype=np.float64)
    except (ValueError, TypeError):  # columns of text, missing values
        return None


def _gaussian(X, rng):
    """Return n draws (n, d) from the Gaussian with the moments of X (n, d)."""
    means = X.mean(axis=0)
    centred = X - means
    # The triangular factor has the covariance of X, and at most n rows.
    root = np.linalg.qr(centred, mode="r") / np.sqrt(len(X))
    return means + rng.standard_normal((len(X), len(root))) @ root


def _permuted_columns(X, rng):
    """Return a copy of X with each column permuted independently."""
    n_samples = num_samples(X)
    if hasattr(X, "iloc"):
        permuted = X.copy()
        for j in range(X.shape[1]):
            column = X.iloc[rng.permutation(n_samples), j]
            permuted.isetitem(j, column.set_axis(X.index))
        return permuted
    if sparse.issparse(X):
        columns = sparse.csc_array(X, copy=True)
        n_stored = np.diff(columns.indptr)
        rows = [rng.permutation(n_samples)[:m] for m in n_stored]
        columns.indices[:] = np.concatenate(rows)
        return type(X)(columns.tocsr())
    permuted = np.array(X)
    for j in range(permuted.shape[1]):
        permuted[:, j] = permuted[rng.permutation(n_samples), j]
    return permuted


def _sizes(labels):
    """Return the sizes of the clusters, without noise."""
    return np.unique(labels[labels >= 0], return_counts=True)[1]


def _scores(rows, labels, order):
    """Return {score: value} of the samples that have a cluster in labels (n,).

    Values are NaN if rows (n, d) is None.
    """
    scores = dict.fromkeys(
        ("silhouette", "calinski_harabasz", "davies_bouldin"), np.nan
    )
    clustered = order[labels[order] >= 0]
    if rows is None:
        return scores
    some = clustered[:_SILHOUETTE]
    if 2 <= len(_sizes(labels[some])) < len(some):
        scores["silhouette"] = float(silhouette_score(rows[some], labels[some]))
    n_clusters = len(_sizes(labels))
    if 2 <= n_clusters < len(clustered) and not sparse.issparse(rows):
        inside = rows[clustered], labels[clustered]
        scores["calinski_harabasz"] = float(calinski_harabasz_score(*inside))
        scores["davies_bouldin"] = float(davies_bouldin_score(*inside))
    return scores


def _agreement(labels):
    """Return the adjusted Rand index (m, m) of each pair of labels."""
    names = list(labels)
    table = np.eye(len(names))
    for i, one in enumerate(names):
        for j, other in enumerate(names[:i]):
            both = (labels[one] >= 0) & (labels[other] >= 0)
            value = np.nan
            if both.any():
                value = adjusted_rand_score(labels[one][both], labels[other][both])
            table[i, j] = table[j, i] = value
    return table
