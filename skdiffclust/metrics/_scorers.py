"""Scorers without labels, for `scoring=` in a search."""

import functools
import numbers

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics import (
    adjusted_rand_score,
    calinski_harabasz_score,
    silhouette_score,
)
from sklearn.utils import check_array, check_random_state, get_tags, resample

_SILHOUETTE_FLOOR = -1.0
_CALINSKI_HARABASZ_FLOOR = 0.0
# Finite, since a search warns of infinite scores and cannot average them.
_DAVIES_BOULDIN_FLOOR = -1e6
_STABILITY_FLOOR = 0.0


def available_scorers():
    """List the names that `get_scorer` knows.

    Returns
    -------
    list of str
        In alphabetical order.

    Examples
    --------
    >>> from skdiffclust.metrics import available_scorers
    >>> available_scorers()  # doctest: +NORMALIZE_WHITESPACE
    ['calinski_harabasz', 'davies_bouldin', 'path_silhouette', 'silhouette',
     'stability']
    """
    return sorted(_scorers())


def get_scorer(name, **options):
    """Return a scorer by name, for `scoring=` in a search.

    Parameters
    ----------
    name : str
        One of `available_scorers`.
    **options : int
        Parameters of the scorer, such as `max_samples`.

    Returns
    -------
    callable
        Takes a fitted estimator, X and y; it can be pickled.

    Raises
    ------
    ValueError
        If there is no scorer of that name.

    Examples
    --------
    >>> from skdiffclust.metrics import get_scorer, silhouette_scorer
    >>> get_scorer("silhouette") is silhouette_scorer
    True
    >>> get_scorer("stability", n_resamples=10).keywords
    {'n_resamples': 10}
    """
    scorers = _scorers()
    if name not in scorers:
        raise ValueError(
            f"The 'name' parameter of get_scorer must be one of {sorted(scorers)}. Got "
            f"{name!r} instead."
        )
    return functools.partial(scorers[name], **options) if options else scorers[name]


def _scorers():
    """Map each name to its scorer."""
    return {
        "calinski_harabasz": calinski_harabasz_scorer,
        "davies_bouldin": davies_bouldin_scorer,
        "path_silhouette": path_silhouette_scorer,
        "silhouette": silhouette_scorer,
        "stability": stability_scorer,
    }


def path_silhouette_scorer(estimator, X, y=None, *, max_samples=500):
    r"""Silhouette along paths of what a fitted estimator predicts, for a search.

    Predicts the labels of X (the held-out fold) and measures their mean silhouette in
    the space that the last step of a pipeline sees, with paths in place of distances:

    .. math:: \delta_{ij} = \min_{i = v_0, v_1, \ldots, v_m = j}
              \sum_{t=1}^m \|v_t - v_{t-1}\|^3

    A path through samples that are close is short, however far it leads, so a long or
    curved cluster does not count as wide, as it does in `silhouette_scorer`.

    Parameters
    ----------
    estimator : estimator with a `predict` method, or a pipeline that ends in one
        Fitted; neither fitted again nor changed.
    X : array-like of shape (n_samples, n_features)
        Samples to predict.
    y : None
        Ignored, present because a search passes it.
    max_samples : int, default=500
        Larger folds are measured on this many of their samples, always the same ones.

    Returns
    -------
    float
        Between -1 and 1, larger is better; -1 where all samples are in one cluster or
        every sample in its own.

    Raises
    ------
    TypeError
        If the estimator has no `predict`.
    ValueError
        If it works on a precomputed relation, which has no space to measure in.

    See Also
    --------
    silhouette_scorer : The same with Euclidean distances.

    Notes
    -----
    Exact, O(m² d + m³) time and O(m²) memory for m samples measured. The third power
    was chosen on sets other than those of the benchmarks; the first gives the
    silhouette, a large one the longest gap on a path, which single linkage uses.

    References
    ----------
    Rousseeuw. Silhouettes: a graphical aid to the interpretation and validation of
    cluster analysis. Journal of Computational and Applied Mathematics 20, 1987.
    Little, McKenzie, Murphy. Balancing geometry and density: path distances on
    high-dimensional data. SIAM Journal on Mathematics of Data Science 4, 2022.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.model_selection import GridSearchCV, KFold
    >>> from skdiffclust import SpanningForestClustering
    >>> from skdiffclust.metrics import path_silhouette_scorer
    >>> X, _ = make_moons(300, noise=0.05, random_state=0)
    >>> search = GridSearchCV(
    ...     SpanningForestClustering(), {"n_clusters": range(2, 6)},
    ...     scoring=path_silhouette_scorer, cv=KFold(3, shuffle=True, random_state=0))
    >>> search.fit(X).best_params_
    {'n_clusters': 2}
    """
    rows, labels = _predicted(estimator, X, max_samples, "path_silhouette_scorer")
    if _is_degenerate(labels):
        return _SILHOUETTE_FLOOR
    paths = _shortest_paths(check_array(rows, dtype=np.float64))
    return float(silhouette_score(paths, labels, metric="precomputed"))


def silhouette_scorer(estimator, X, y=None, *, max_samples=2000):
    """Silhouette of what a fitted estimator predicts, for `scoring=` in a search.

    Predicts the labels of X (the held-out fold) and measures their mean silhouette in
    the space that the last step of a pipeline sees.

    Parameters
    ----------
    estimator : estimator with a `predict` method, or a pipeline that ends in one
        Fitted; neither fitted again nor changed.
    X : array-like of shape (n_samples, n_features)
        Samples to predict.
    y : None
        Ignored, present because a search passes it.
    max_samples : int, default=2000
        Larger folds are measured on this many of their samples, always the same ones.
        `functools.partial(silhouette_scorer, max_samples=...)` is a scorer, too.

    Returns
    -------
    float
        Between -1 and 1, larger is better; -1 where all samples are in one cluster or
        every sample in its own.

    Raises
    ------
    TypeError
        If the estimator has no `predict`.
    ValueError
        If it works on a precomputed relation, which has no space to measure in.

    See Also
    --------
    stability_scorer : Does not favour compact clusters.

    Notes
    -----
    O(m² d) time for m samples measured, and blocks of the distance matrix as memory. In
    a `ScoringMonitor`, pass a dictionary: ``scoring={"silhouette":
    silhouette_scorer}``.

    References
    ----------
    Rousseeuw. Silhouettes: a graphical aid to the interpretation and validation of
    cluster analysis. Journal of Computational and Applied Mathematics 20, 1987.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.datasets import make_blobs
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skdiffclust.metrics import silhouette_scorer
    >>> X, _ = make_blobs(200, centers=[[0, 0], [8, 0], [0, 8]], random_state=0)
    >>> search = GridSearchCV(
    ...     KMeans(random_state=0), {"n_clusters": range(1, 6)},
    ...     scoring=silhouette_scorer)
    >>> search.fit(X).best_params_
    {'n_clusters': 3}
    """
    rows, labels = _predicted(estimator, X, max_samples, "silhouette_scorer")
    if _is_degenerate(labels):
        return _SILHOUETTE_FLOOR
    return float(silhouette_score(rows, labels))


def calinski_harabasz_scorer(estimator, X, y=None, *, max_samples=100_000):
    """Calinski-Harabasz index of what a fitted estimator predicts, for a search.

    Dispersion between the predicted clusters of X (the held-out fold) over dispersion
    within them, in the space that the last step of a pipeline sees. Cheap, and made
    for compact clusters of similar size.

    Parameters
    ----------
    estimator : estimator with a `predict` method, or a pipeline that ends in one
        Fitted; neither fitted again nor changed.
    X : array-like of shape (n_samples, n_features)
        Samples to predict.
    y : None
        Ignored, present because a search passes it.
    max_samples : int, default=100_000
        Larger folds are measured on this many of their samples, always the same ones.

    Returns
    -------
    float
        At least 0, larger is better; 0 where all samples are in one cluster or every
        sample in its own. It grows with the number of samples: compare it on equal
        folds.

    Raises
    ------
    TypeError
        If the estimator has no `predict`.
    ValueError
        If it works on a precomputed relation, which has no space to measure in.

    See Also
    --------
    silhouette_scorer : Slower, and on one scale for all data.

    Notes
    -----
    O(m d) time for m samples measured.

    References
    ----------
    Caliński, Harabasz. A dendrite method for cluster analysis. Communications in
    Statistics 3, 1974.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.datasets import make_blobs
    >>> from skdiffclust.metrics import calinski_harabasz_scorer
    >>> X, _ = make_blobs(200, centers=[[0, 0], [8, 0], [0, 8]], random_state=0)
    >>> two, three = (KMeans(k, random_state=0).fit(X) for k in (2, 3))
    >>> calinski_harabasz_scorer(two, X) < calinski_harabasz_scorer(three, X)
    True
    """
    rows, labels = _predicted(estimator, X, max_samples, "calinski_harabasz_scorer")
    if _is_degenerate(labels):
        return _CALINSKI_HARABASZ_FLOOR
    return float(calinski_harabasz_score(rows, labels))


def davies_bouldin_scorer(estimator, X, y=None, *, max_samples=100_000):
    """Negated Davies-Bouldin index of what a fitted estimator predicts, for a search.

    For each predicted cluster of X (the held-out fold) its worst ratio of spread to
    distance from another cluster, averaged and negated, in the space that the last
    step of a pipeline sees. Cheap, and made for compact clusters.

    Parameters
    ----------
    estimator : estimator with a `predict` method, or a pipeline that ends in one
        Fitted; neither fitted again nor changed.
    X : array-like of shape (n_samples, n_features)
        Samples to predict.
    y : None
        Ignored, present because a search passes it.
    max_samples : int, default=100_000
        Larger folds are measured on this many of their samples, always the same ones.

    Returns
    -------
    float
        Between -1e6 and 0, larger is better; -1e6 where all samples are in one cluster
        or every sample in its own, or where the index is larger than that.

    Raises
    ------
    TypeError
        If the estimator has no `predict`.
    ValueError
        If it works on a precomputed relation, which has no space to measure in.

    See Also
    --------
    silhouette_scorer : Slower, and on one scale for all data.

    Notes
    -----
    O(m d + k² d) time for m samples measured and k clusters. Clusters with one and the
    same centre get the floor; `sklearn.metrics.davies_bouldin_score` gives them 0, its
    best value, and a search would choose them.

    References
    ----------
    Davies, Bouldin. A cluster separation measure. IEEE Transactions on Pattern
    Analysis and Machine Intelligence 1, 1979.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.datasets import make_blobs
    >>> from skdiffclust.metrics import davies_bouldin_scorer
    >>> X, _ = make_blobs(200, centers=[[0, 0], [8, 0], [0, 8]], random_state=0)
    >>> two, three = (KMeans(k, random_state=0).fit(X) for k in (2, 3))
    >>> davies_bouldin_scorer(two, X) < davies_bouldin_scorer(three, X)
    True
    """
    rows, labels = _predicted(estimator, X, max_samples, "davies_bouldin_scorer")
    if _is_degenerate(labels):
        return _DAVIES_BOULDIN_FLOOR
    return max(-_davies_bouldin(rows, labels), _DAVIES_BOULDIN_FLOOR)


def stability_scorer(estimator, X, y=None, *, n_resamples=5, max_samples=2000):
    """Agreement of an estimator with refits on the held-out fold, for a search.

    The estimator labels X (the held-out fold); copies of its last step are fitted on
    random halves of the fold and label all of it, too. The score is the mean adjusted
    Rand index between the estimator's labels and theirs: a clustering that is found
    again in unseen samples scores 1, one due to chance scores 0. Unlike the other
    scorers, it does not favour any shape of the clusters.

    Parameters
    ----------
    estimator : estimator with a `predict` method, or a pipeline that ends in one
        Fitted; neither fitted again nor changed. The steps before the last are used as
        they are.
    X : array-like of shape (n_samples, n_features)
        Samples to predict.
    y : None
        Ignored, present because a search passes it.
    n_resamples : int, default=5
        Number of refits.
    max_samples : int, default=2000
        Larger folds are measured on this many of their samples, always the same ones.

    Returns
    -------
    float
        At most 1, larger is better. 0 where the estimator puts all samples in one
        cluster or every sample in its own: such a labelling agrees with itself on any
        data, and is therefore no more evidence of structure than chance.

    Raises
    ------
    TypeError
        If the estimator has no `predict`.
    ValueError
        If it works on a precomputed relation, which has no space to measure in, or the
        half of a fold has too few samples for the estimator.

    See Also
    --------
    silhouette_scorer : Measures how compact the clusters are.

    Notes
    -----
    `n_resamples` fits on half of the fold. Deterministic: the halves and the
    `random_state` of the copies are drawn from one fixed seed. Copies are fitted
    without callbacks and without partial labels or links.

    Several numbers of clusters are often stable at once, and a search takes the best,
    mostly a small one: the largest number whose score is still near 1 is the usual
    choice. Samples without clusters can be cut into stable parts, too (a square into
    four): a high score is necessary for structure, not sufficient.

    References
    ----------
    Tibshirani, Walther. Cluster validation by prediction strength. Journal of
    Computational and Graphical Statistics 14, 2005 (the idea; with the adjusted Rand
    index in place of the worst cluster's agreement).

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.datasets import make_blobs
    >>> from skdiffclust.metrics import stability_scorer
    >>> X, _ = make_blobs(400, centers=[[0, 0], [8, 0], [0, 8]], random_state=0)
    >>> one, three = (KMeans(k, random_state=0).fit(X[:200]) for k in (1, 3))
    >>> stability_scorer(one, X[200:])
    0.0
    >>> round(stability_scorer(three, X[200:]), 2)
    1.0
    """
    step, rows = _last_step(estimator, X, max_samples, "stability_scorer")
    labels = step.predict(rows)
    if _is_degenerate(labels):
        return _STABILITY_FLOOR
    _check_at_least(1, n_resamples, "n_resamples", "stability_scorer")
    rng = check_random_state(0)
    n_half = (len(labels) + 1) // 2
    agreement = []
    for _ in range(n_resamples):
        half = resample(rows, replace=False, n_samples=n_half, random_state=rng)
        refit = _fresh_copy(step, rng).fit(half)
        agreement.append(adjusted_rand_score(labels, refit.predict(rows)))
    return float(np.mean(agreement))


def _last_step(estimator, X, max_samples, caller):
    """Return the step that predicts, and at most max_samples samples in its space.

    The same samples are drawn for every estimator, so that candidates of a search are
    comparable.
    """
    from sklearn.pipeline import Pipeline

    _check_at_least(2, max_samples, "max_samples", caller)
    rows = X
    n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
    if n_samples > max_samples:
        rows = resample(X, replace=False, n_samples=max_samples, random_state=0)
    while isinstance(estimator, Pipeline) or hasattr(estimator, "best_estimator_"):
        if not isinstance(estimator, Pipeline):
            estimator = estimator.best_estimator_
            continue
        for _, step in estimator.steps[:-1]:
            if step is not None and step != "passthrough":
                rows = step.transform(rows)
        estimator = estimator.steps[-1][1]
    if not hasattr(estimator, "predict"):
        raise TypeError(
            f"{caller} needs an estimator with a 'predict' method, to label samples "
            f"that it was not fitted on. Got {type(estimator).__name__} instead. "
            "Choose one that can predict, or score its 'labels_' with sklearn.metrics."
        )
    if get_tags(estimator).input_tags.pairwise:
        raise ValueError(
            f"{caller} measures in the space of the samples, and a precomputed "
            f"relation has none. Got {type(estimator).__name__} fitted on one instead. "
            "Pass it features and a metric."
        )
    return estimator, rows


def _check_at_least(low, value, name, caller):
    """Refuse a count that is not an integer or too small."""
    if not isinstance(value, numbers.Integral) or value < low:
        raise ValueError(
            f"The {name!r} parameter of {caller} must be an integer of at least {low}. "
            f"Got {value!r} instead."
        )


def _predicted(estimator, X, max_samples, caller):
    """Return samples (m, d) in the space of the last step, and its labels (m,)."""
    step, rows = _last_step(estimator, X, max_samples, caller)
    return rows, step.predict(rows)


def _is_degenerate(labels):
    """Whether labels (m,) are one cluster, or as many clusters as samples."""
    n_clusters = len(np.unique(labels))
    return n_clusters < 2 or n_clusters == len(labels)


def _shortest_paths(rows):
    """Return the lengths (m, m) of shortest paths between rows (m, d), steps cubed."""
    paths = cdist(rows, rows)
    # One scale for all data: nothing overflows, and the silhouette has no unit.
    paths /= max(paths.max(), np.finfo(np.float64).tiny)
    paths **= 3
    # Floyd and Warshall by hand: csgraph takes lengths below 1e-8 for missing edges.
    for middle in range(len(paths)):
        np.minimum(paths, paths[:, middle, None] + paths[middle], out=paths)
    return paths


def _membership(labels):
    """Return the indicator (n_clusters, n) of labels (n,), a float64 csr_array."""
    clusters, codes = np.unique(labels, return_inverse=True)
    rows = np.arange(len(codes))
    return sparse.csr_array(
        (np.ones(len(codes)), (codes, rows)), shape=(len(clusters), len(codes))
    )


def _davies_bouldin(rows, labels):
    """Return the Davies-Bouldin index of rows (m, d), infinite for equal centres."""
    rows = check_array(rows, dtype=np.float64)
    members = _membership(labels)
    sizes = members.sum(axis=1)
    centres = (members @ rows) / sizes[:, None]
    to_centre = np.linalg.norm(rows - members.T @ centres, axis=1)
    spread = (members @ to_centre) / sizes
    gaps = cdist(centres, centres)
    ratio = np.full(gaps.shape, np.inf)
    np.divide(spread[:, None] + spread, gaps, out=ratio, where=gaps > 0)
    np.fill_diagonal(ratio, 0.0)
    return float(ratio.max(axis=1).mean())


def _fresh_copy(estimator, rng):
    """Return an unfitted copy without callbacks, its random_states drawn from rng."""
    copy = clone(estimator)
    if hasattr(copy, "set_callbacks"):
        # A clone shares callbacks: a monitor that calls this scorer would never return.
        copy.set_callbacks()
    names = sorted(copy.get_params(deep=True))
    seeded = [n for n in names if n == "random_state" or n.endswith("__random_state")]
    return copy.set_params(**{name: rng.randint(2**31 - 1) for name in seeded})
