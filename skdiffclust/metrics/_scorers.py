"""Scorers without labels, for `scoring=` in a search."""

from numbers import Integral

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics import (
    adjusted_rand_score,
    calinski_harabasz_score,
    silhouette_score,
)
from sklearn.utils import check_array, check_random_state, get_tags, resample

from skdiffclust._batches import at_most
from skdiffclust._compat import Interval, validate_params

_AT_LEAST_TWO = {"max_samples": [Interval(Integral, 2, None, closed="left")]}


@validate_params(_AT_LEAST_TWO, prefer_skip_nested_validation=False)
def path_silhouette_scorer(estimator, X, y=None, *, max_samples=500) -> float:
    r"""Scorer: path-based silhouette of the clusters predicted by an estimator.

    The score is the mean silhouette coefficient of the predicted clusters of X (the
    held-out fold), in the input space of the last step of a pipeline. Instead of
    distances, it uses the lengths of paths through the samples:

    .. math:: \delta_{ij} = \min_{i = v_0, v_1, \ldots, v_m = j}
              \sum_{t=1}^m \|v_t - v_{t-1}\|^3

    A path through many close samples is short in this sense, so that elongated and
    curved clusters are not penalised as they are by :func:`silhouette_scorer`.

    Parameters
    ----------
    estimator : estimator with a `predict` method, or a pipeline that ends in one
        Fitted estimator. It is neither refitted nor modified.
    X : array-like of shape (n_samples, n_features)
        Samples to predict.
    y : None
        Ignored, present for API consistency.
    max_samples : int, default=500
        Maximum number of samples to use. Larger folds are subsampled, always in the
        same way.

    Returns
    -------
    float
        Between -1 and 1; larger is better. It is -1 if all samples are in one cluster
        or each sample is in its own.

    Raises
    ------
    TypeError
        If the estimator has no `predict` method.
    ValueError
        If the estimator takes a precomputed matrix, so that there is no feature space.

    See Also
    --------
    silhouette_scorer : The silhouette coefficient with Euclidean distances.

    Notes
    -----
    The cost is O(m² d + m³) in time and O(m²) in memory for m samples. With an exponent
    of 1 instead of 3, the score is the ordinary silhouette; with a large exponent, only
    the longest step of a path counts, as in single linkage. The exponent was chosen on
    data sets that are not part of the benchmarks.

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
    return _index(
        _path_silhouette, -1.0, estimator, X, max_samples, "path_silhouette_scorer"
    )


@validate_params(_AT_LEAST_TWO, prefer_skip_nested_validation=False)
def silhouette_scorer(estimator, X, y=None, *, max_samples=2000) -> float:
    """Scorer: mean silhouette coefficient of the clusters predicted by an estimator.

    The clusters are predicted for X (the held-out fold), and distances are measured in
    the input space of the last step of a pipeline.

    Parameters
    ----------
    estimator : estimator with a `predict` method, or a pipeline that ends in one
        Fitted estimator. It is neither refitted nor modified.
    X : array-like of shape (n_samples, n_features)
        Samples to predict.
    y : None
        Ignored, present for API consistency.
    max_samples : int, default=2000
        Maximum number of samples to use. Larger folds are subsampled, always in the
        same way. To change it, use ``partial(silhouette_scorer, max_samples=...)``.

    Returns
    -------
    float
        Between -1 and 1; larger is better. It is -1 if all samples are in one cluster
        or each sample is in its own.

    Raises
    ------
    TypeError
        If the estimator has no `predict` method.
    ValueError
        If the estimator takes a precomputed matrix, so that there is no feature space.

    See Also
    --------
    stability_scorer : Scorer that does not favour compact clusters.

    Notes
    -----
    The cost is O(m² d) for m samples. The distance matrix is computed in blocks. For a
    `ScoringMonitor`, pass a dictionary: ``scoring={"silhouette": silhouette_scorer}``.

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
    return _index(
        silhouette_score, -1.0, estimator, X, max_samples, "silhouette_scorer"
    )


@validate_params(_AT_LEAST_TWO, prefer_skip_nested_validation=False)
def calinski_harabasz_scorer(estimator, X, y=None, *, max_samples=100_000) -> float:
    """Scorer: Calinski-Harabasz index of the clusters predicted by an estimator.

    The index is the ratio of the dispersion between the predicted clusters of X (the
    held-out fold) to the dispersion within them, in the input space of the last step of
    a pipeline. It is fast to compute, and favours compact clusters of similar size.

    Parameters
    ----------
    estimator : estimator with a `predict` method, or a pipeline that ends in one
        Fitted estimator. It is neither refitted nor modified.
    X : array-like of shape (n_samples, n_features)
        Samples to predict.
    y : None
        Ignored, present for API consistency.
    max_samples : int, default=100_000
        Maximum number of samples to use. Larger folds are subsampled, always in the
        same way.

    Returns
    -------
    float
        At least 0; larger is better. It is 0 if all samples are in one cluster or each
        sample is in its own. It grows with the number of samples, so compare it on
        folds of equal size only.

    Raises
    ------
    TypeError
        If the estimator has no `predict` method.
    ValueError
        If the estimator takes a precomputed matrix, so that there is no feature space.

    See Also
    --------
    silhouette_scorer : Slower, but comparable between data sets.

    Notes
    -----
    The cost is O(m d) for m samples.

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
    return _index(
        calinski_harabasz_score,
        0.0,
        estimator,
        X,
        max_samples,
        "calinski_harabasz_scorer",
    )


@validate_params(
    _AT_LEAST_TWO | {"n_resamples": [Interval(Integral, 1, None, closed="left")]},
    prefer_skip_nested_validation=False,
)
def stability_scorer(estimator, X, y=None, *, n_resamples=5, max_samples=2000) -> float:
    """Scorer: agreement of an estimator with copies refitted on the held-out fold.

    The estimator predicts the clusters of X (the held-out fold). Copies of its last
    step are fitted to random halves of the fold and predict the clusters of all its
    samples. The score is the mean adjusted Rand index between the predictions of the
    estimator and those of the copies: a clustering that is reproduced on unseen samples
    scores 1, and one that is due to chance scores 0. Unlike the other scorers, it does
    not favour clusters of a particular shape.

    Parameters
    ----------
    estimator : estimator with a `predict` method, or a pipeline that ends in one
        Fitted estimator. It is not modified, and the steps of a pipeline before the
        last are not refitted.
    X : array-like of shape (n_samples, n_features)
        Samples to predict.
    y : None
        Ignored, present for API consistency.
    n_resamples : int, default=5
        Number of refits.
    max_samples : int, default=2000
        Maximum number of samples to use. Larger folds are subsampled, always in the
        same way.

    Returns
    -------
    float
        At most 1; larger is better. It is 0 if all samples are in one cluster or each
        sample is in its own, because such partitions are reproduced on any data.

    Raises
    ------
    TypeError
        If the estimator has no `predict` method.
    ValueError
        If the estimator takes a precomputed matrix, so that there is no feature space,
        or if half of a fold has too few samples for the estimator.

    See Also
    --------
    silhouette_scorer : Scorer for compact, well-separated clusters.

    Notes
    -----
    The cost is that of `n_resamples` fits to half of the fold. The score is
    deterministic: the halves and the `random_state` of the copies are drawn from a
    fixed seed. The copies are fitted without callbacks, partial labels and links.

    Often several numbers of clusters are stable, and a search selects the one with the
    highest score, which tends to be small. The largest number whose score is close to 1
    is usually the better choice. Samples without clusters may also be divided into
    stable parts (a square into four quarters), so a high score does not prove that
    there are clusters.

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
        return 0.0
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

    rows = at_most(X, max_samples)
    while isinstance(estimator, Pipeline) or hasattr(estimator, "best_estimator_"):
        if not isinstance(estimator, Pipeline):
            estimator = estimator.best_estimator_
            continue
        if len(estimator) > 1:
            rows = estimator[:-1].transform(rows)
        estimator = estimator[-1]
    if not hasattr(estimator, "predict"):
        raise TypeError(
            f"{caller} needs an estimator with a 'predict' method, to label samples "
            f"that it was not fitted on. Got {type(estimator).__name__} instead. "
            "Choose one that can predict, or score its 'labels_' with sklearn.metrics."
        )
    if get_tags(estimator).input_tags.pairwise:
        raise ValueError(
            f"{caller} needs a feature space, which does not exist for a precomputed "
            f"matrix. Got {type(estimator).__name__} fitted to one instead. Fit it to "
            "features with a metric."
        )
    return estimator, rows


def _index(index, worst, estimator, X, max_samples, caller):
    """Return ``index(rows, labels)`` of the clusters predicted by the last step.

    It is `worst` if there is one cluster, or as many as there are samples.
    """
    step, rows = _last_step(estimator, X, max_samples, caller)
    labels = step.predict(rows)
    return worst if _is_degenerate(labels) else float(index(rows, labels))


def _is_degenerate(labels):
    """Whether labels (m,) are one cluster, or as many clusters as samples."""
    n_clusters = len(np.unique(labels))
    return n_clusters < 2 or n_clusters == len(labels)


def _path_silhouette(rows, labels):
    """Return the silhouette by the shortest paths between rows (m, d), steps cubed."""
    rows = check_array(rows, dtype=np.float64)
    paths = cdist(rows, rows)
    # One scale for all data: nothing overflows, and the silhouette has no unit.
    paths /= max(paths.max(), np.finfo(np.float64).tiny)
    paths **= 3
    # Floyd and Warshall by hand: csgraph takes lengths below 1e-8 for missing edges.
    for middle in range(len(paths)):
        np.minimum(paths, paths[:, middle, None] + paths[middle], out=paths)
    return silhouette_score(paths, labels, metric="precomputed")


def _fresh_copy(estimator, rng):
    """Return an unfitted copy without callbacks, its random_states drawn from rng."""
    copy = clone(estimator)
    if hasattr(copy, "set_callbacks"):
        # A clone shares callbacks: a monitor that calls this scorer would never return.
        copy.set_callbacks()
    return copy.set_params(
        **{
            name: rng.randint(2**31 - 1)
            for name in sorted(copy.get_params())
            if name == "random_state" or name.endswith("__random_state")
        }
    )
