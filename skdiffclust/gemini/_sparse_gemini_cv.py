"""SparseGEMINICV: the penalty chosen by the stability of clusters and of supports."""

from numbers import Integral, Real

import numpy as np
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skdiffclust._compat import Interval, fit_context
from skdiffclust._fitted import reads_whole
from skdiffclust._history import (
    Training,
    keep_state_on_error,
    reported_by_the_whole,
    warn_if_unfinished,
)
from skdiffclust.gemini._base import BaseGEMINI, positive
from skdiffclust.gemini._sparse_gemini import SparseGEMINI
from skdiffclust.gemini._stability import cluster_stability, support_stability

_SPARSE_ONLY = (
    "kernel",
    "metric",
    "model",
    "groups",
    "penalty_factor",
    "hierarchy",
)


@reads_whole(
    "predict",
    "predict_proba",
    "score",
    "transform",
    "inverse_transform",
    "get_support",
    "get_feature_names_out",
)
class SparseGEMINICV(SelectorMixin, BaseGEMINI):
    """Choose the penalty of SparseGEMINI by stability over resamples.

    There are no classes to predict, so that no fold can be scored by error. What can
    be asked is whether the same clusters, and the same features, are found again in
    other samples: paths over a grid of penalties are walked on random subsets of the
    samples, and the penalty is taken at which they agree most. The fractions of subsets
    that select a feature are the selection probabilities of [1]_.

    Parameters
    ----------
    n_clusters : int, default=2
        Largest number of clusters.
    n_alphas : int, default=20
        Number of penalties, in geometric progression between where the first feature
        leaves and where `min_features` are left, on all samples.
    n_resamples : int, default=10
        Number of subsets.
    sample_fraction : float, default=0.5
        Share of the samples in a subset.
    min_features : int, default=1
        Where the grid ends.
    objective, mode, kernel, metric : str
        As in :class:`SparseGEMINI`.
    gamma : float, "scale" or None, default=None
        Coefficient of a kernel, as in :class:`GEMINI`.
    degree : float, default=3
        Degree of the kernels "poly" and "polynomial".
    coef0 : float, default=1
        Constant of the kernels "poly", "polynomial" and "sigmoid".
    kernel_params : dict or None, default=None
        Keyword arguments of a kernel that is a function; others ignore them.
    model : {"linear", "mlp"}, default="linear"
        As in :class:`SparseGEMINI`.
    hidden_layer_sizes : int or array-like of int, default=(100,)
        Hidden layers of the perceptron.
    groups : array-like of shape (n_features,), default=None
        Integers or names: features with the same one are kept or dropped together.
    penalty_factor : array-like of shape (n_features,), "redundancy" or None, \
            default=None
        As in :class:`SparseGEMINI`.
    hierarchy : float, default=10
        As in :class:`SparseGEMINI`.
    dropout, l2, link_weight : float
        As in :class:`SparseGEMINI`.
    solver : {"adam", "sgd"}, default="adam"
        For the stage without penalty.
    max_iter : int, default=1000
        Largest number of epochs of the first stage, and of each step.
    batch_size : int or None, default=None
        Samples of a batch; None takes all.
    learning_rate : float, default=0.01
        Step size.
    tol : float, default=1e-3
        Smallest relative improvement of the loss that counts as progress.
    n_iter_no_change : int or None, default=10
        Stop a stage or a step after so many epochs without progress.
    n_init : int, default=3
        Number of restarts of the first stage.
    random_state : int, RandomState instance or None, default=None
        Draws subsets, initial weights, batches and dropout.

    Attributes
    ----------
    alphas_ : ndarray of shape (n_alphas,)
        Penalties.
    cluster_stability_ : ndarray of shape (n_alphas,)
        Mean adjusted Rand index, on all samples, between pairs of subsets.
    support_stability_ : ndarray of shape (n_alphas,)
        Agreement of the supports beyond chance [2]_, at most 1; 0 where all features
        or none are in, since nothing was selected.
    selection_probabilities_ : ndarray of shape (n_alphas, n_features)
        Share of the subsets that select each feature.
    alpha_ : float
        Penalty of the step, on all samples, with the largest product of the two among
        those that keep all clusters and a feature; 0 if none does.
    labels_, n_clusters_, feature_norms_, feature_importances_ : ndarray or int
        As in :class:`SparseGEMINI`, of the path on all samples.
    skip_weights_, weights_, biases_, means_ : ndarray or list of ndarray
        The model.
    n_iter_ : int
        Number of epochs at the chosen step.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    SparseGEMINI : One penalty, or a path.

    Notes
    -----
    The cost is that of `n_resamples` + 1 paths.

    References
    ----------
    .. [1] N. Meinshausen, P. Bühlmann, "Stability selection", JRSS B 72, 2010.
    .. [2] S. Nogueira, K. Sechidis, G. Brown, "On the stability of feature selection
       algorithms", JMLR 18, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from skdiffclust import SparseGEMINICV
    >>> X = np.random.RandomState(0).normal(size=(90, 5))
    >>> X[:, 1] += np.repeat([-6, 6], 45)
    >>> stable = SparseGEMINICV(
    ...     n_alphas=5, n_resamples=3, n_init=1, learning_rate=0.1, random_state=0)
    >>> stable.fit(X).get_support(indices=True)
    array([1])
    """

    _parameter_constraints = {
        **BaseGEMINI._parameter_constraints,
        **{name: SparseGEMINI._parameter_constraints[name] for name in _SPARSE_ONLY},
        "n_alphas": [Interval(Integral, 2, None, closed="left")],
        "n_resamples": [Interval(Integral, 2, None, closed="left")],
        "sample_fraction": [Interval(Real, 0, 1, closed="neither")],
        "min_features": [positive],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        n_alphas=20,
        n_resamples=10,
        sample_fraction=0.5,
        min_features=1,
        objective="mmd",
        mode="ova",
        kernel="linear",
        metric="euclidean",
        gamma=None,
        degree=3,
        coef0=1,
        kernel_params=None,
        model="linear",
        hidden_layer_sizes=(100,),
        groups=None,
        penalty_factor=None,
        hierarchy=10.0,
        dropout=0.0,
        l2=0.0,
        link_weight=1.0,
        solver="adam",
        max_iter=1000,
        batch_size=None,
        learning_rate=0.01,
        tol=1e-3,
        n_iter_no_change=10,
        n_init=3,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.n_alphas = n_alphas
        self.n_resamples = n_resamples
        self.sample_fraction = sample_fraction
        self.min_features = min_features
        self.objective = objective
        self.mode = mode
        self.kernel = kernel
        self.metric = metric
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.model = model
        self.hidden_layer_sizes = hidden_layer_sizes
        self.groups = groups
        self.hierarchy = hierarchy
        self.penalty_factor = penalty_factor
        self.dropout = dropout
        self.l2 = l2
        self.link_weight = link_weight
        self.solver = solver
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.n_init = n_init
        self.random_state = random_state

    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, affinity=None):
        """Walk paths on subsets of X, and choose the penalty.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.
        affinity : array-like of shape (n_samples, n_samples), default=None
            Kernel or distances between the samples; see :meth:`GEMINI.fit`.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or a parameter is not as described, or a subset has fewer samples than
            clusters.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than requested, or the loss still falls at
            `max_iter` in steps of the paths, once for all of them.
        """
        X, _, _ = self._check_rows(X, None)
        self._check_subsets(X.shape[0])
        relation = self._check_affinity(affinity, X)
        affinity = None if relation is None else relation.matrix
        self._affinity_given = affinity is not None
        rng = check_random_state(self.random_state)
        training = Training(
            self,
            X,
            y,
            max_iter=1,
            n_init=self.n_resamples,
            learning_rate=self.learning_rate,
        )
        judged = []
        sparse = self._sparse(rng, judged)
        whole = _quiet_path(
            sparse, X, affinity=affinity, min_features=self.min_features
        )
        grid = self._grid(whole)
        labels = []
        supports = []
        for loop in training:
            for _ in loop:
                found = self._resample(X, affinity, grid, rng, judged)
                labels.append(found[0])
                supports.append(found[1])
                loop.record(-float(np.mean(found[2])), state=list)

        self.alphas_ = grid
        self.cluster_stability_ = cluster_stability(np.array(labels))
        self.support_stability_ = support_stability(np.array(supports))
        self.selection_probabilities_ = np.mean(supports, axis=0)
        best = whole.select(alpha=self._most_stable(whole))
        for name in _FITTED:
            setattr(self, name, getattr(best, name))
        self._report(self.labels_, None)
        training.finish([])
        warn_if_unfinished("SparseGEMINICV", judged, self.max_iter)
        return self

    def _sparse(self, rng, judged):
        """Return a SparseGEMINI of these parameters, and a seed from rng.

        The loops of its paths are added to `judged`.
        """
        shared = SparseGEMINI().get_params().keys() & self.get_params().keys()
        params = {name: getattr(self, name) for name in shared}
        sparse = SparseGEMINI(**params).set_params(random_state=rng.randint(2**31 - 1))
        sparse._keeps_steps = False
        sparse._judged = judged
        return sparse

    def _grid(self, path):
        """Return the penalties (n_alphas,) between the ends of a path."""
        if not path.supports[0].any():
            # Of equal samples nothing can be learned: all penalties give the same.
            return np.geomspace(1.0, 1.05, self.n_alphas)
        if len(path) < 2:
            raise ValueError(
                "The 'min_features' parameter of SparseGEMINICV must be less than the "
                f"number of features, n_features={len(path.supports[0])}. Got "
                f"{self.min_features} instead. Lower it, or use GEMINI."
            )
        return np.geomspace(path.alphas[1], path.alphas[-1] * 1.05, self.n_alphas)

    def _most_stable(self, whole):
        """Return the penalty that is chosen, 0 if each of them costs a cluster."""
        steps = np.searchsorted(whole.alphas, self.alphas_, side="right") - 1
        n_clusters = np.array([len(np.unique(whole.labels[step])) for step in steps])
        product = self.cluster_stability_ * self.support_stability_
        product[n_clusters < len(np.unique(whole.labels[0]))] = -np.inf
        product[whole.n_features[steps] == 0] = -np.inf
        best = int(np.argmax(product))
        return float(self.alphas_[best]) if np.isfinite(product[best]) else 0.0

    def _check_subsets(self, n_samples):
        """Refuse rows of which no subset can be taken."""
        if n_samples < 2:
            raise ValueError(
                "SparseGEMINICV must have samples to leave out. Got n_samples=1 "
                "instead. Pass more samples."
            )
        if self._subset_size(n_samples) < self.n_clusters:
            raise ValueError(
                "The 'sample_fraction' parameter of SparseGEMINICV must keep at least "
                f"n_clusters={self.n_clusters} of the {n_samples} samples. Got "
                f"{self.sample_fraction} instead. Raise it, or pass more samples."
            )

    def _subset_size(self, n_samples):
        """Return the number of rows of a subset."""
        return max(round(self.sample_fraction * n_samples), 2)

    def _resample(self, X, affinity, grid, rng, judged):
        """Return labels (a, n), supports (a, d) and objectives (a,) of a subset."""
        n_rows = self._subset_size(X.shape[0])
        rows = np.sort(rng.choice(X.shape[0], size=n_rows, replace=False))
        # In the small steps of the whole path: coarser ones would leave less time to
        # leave. After the last step of a path that ended early all stays as it was.
        path = _quiet_path(
            self._sparse(rng, judged),
            X[rows],
            affinity=None if affinity is None else affinity[np.ix_(rows, rows)],
            alpha_init=grid[0],
            min_features=1,
        )
        steps = np.searchsorted(path.alphas, grid * (1 + 1e-9), side="right") - 1
        labels = [path.select(alpha=path.alphas[step]).predict(X) for step in steps]
        return np.array(labels), path.supports[steps], path.objectives[steps]

    def _get_support_mask(self):
        """Return which features (d,) are in."""
        check_is_fitted(self)
        return self.feature_norms_ > 0


_FITTED = (
    "alpha_",
    "biases_",
    "feature_importances_",
    "feature_norms_",
    "labels_",
    "means_",
    "n_clusters_",
    "n_iter_",
    "skip_weights_",
    "weights_",
)


def _quiet_path(sparse, X, **options):
    """Walk a path; fewer clusters are judged by stability, or reported in the end."""
    with reported_by_the_whole():
        return sparse.path(X, **options)
