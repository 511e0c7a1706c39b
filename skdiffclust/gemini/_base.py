"""What GEMINI and SparseGEMINI share: parameters, prediction, and what is reported."""

from dataclasses import fields
from numbers import Integral, Real

import numpy as np
from scipy.sparse import sparray, spmatrix
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdiffclust._assignments import softmax
from skdiffclust._compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    available_if,
)
from skdiffclust._encoder import Encoder
from skdiffclust._history import warn_of_convergence, warn_of_small_clusters
from skdiffclust._validation import refuse_container, sample_weights
from skdiffclust.gemini._models import SkipPerceptron
from skdiffclust.gemini._objectives import OBJECTIVES
from skdiffclust.gemini._problem import Settings, Units, check_matrix, validated
from skdiffclust.gemini._relations import KERNELS, METRICS, PRECOMPUTED, Matrix
from skdiffclust.gemini._sparse_rows import centered
from skdiffclust.gemini._starts import silhouette_of_means
from skdiffclust.gemini._supervision import broken_links

positive = Interval(Integral, 1, None, closed="left")
not_negative = Interval(Real, 0, None, closed="left")


def has_features(estimator):
    """Whether the model is a function of features; raise an error if not."""
    if estimator.model == "free":
        raise AttributeError(
            f"{type(estimator).__name__} with model='free' has assignments of the "
            "training samples only, in labels_ and assignments_: use model='mlp' to "
            "predict or score other samples."
        )
    return True


class FeatureSelector(SelectorMixin):
    """The selection of features, of samples that are checked as those of `fit` are."""

    def transform(self, X) -> np.ndarray | sparray | spmatrix:
        """Reduce X to the selected features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        X_r : {ndarray, sparse matrix} of shape (n_samples, n_selected_features)
            The samples with the selected features only.
        """
        refuse_container(X)
        return super().transform(X)

    def inverse_transform(self, X) -> np.ndarray | sparray | spmatrix:
        """Insert features of zeros where `transform` removed others.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_selected_features)
            Samples with the selected features only.

        Returns
        -------
        X_original : {ndarray, sparse matrix} of shape (n_samples, n_features)
            The samples with all features, those not selected being zeros.
        """
        refuse_container(X)
        return super().inverse_transform(X)


class BaseGEMINI(CallbackSupportMixin, ClusterMixin, BaseEstimator):
    """Parameters, checks and prediction of the GEMINI estimators."""

    # Whether the relation of the last fit was given as a matrix beside X.
    _precomputed_given = False

    _parameter_constraints = {
        "n_clusters": [positive],
        "objective": [StrOptions(set(OBJECTIVES))],
        "mode": [StrOptions({"auto", "ova", "ovo"})],
        "kernel": [*KERNELS, PRECOMPUTED],
        "metric": [*METRICS, PRECOMPUTED],
        "gamma": [StrOptions({"scale"}), not_negative, None],
        "hidden_layer_sizes": ["array-like", positive],
        "l2": [not_negative],
        "batch_size": [positive, None],
        "max_iter": [positive],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "tol": [not_negative],
        "n_init": [positive],
        "random_state": ["random_state"],
    }

    @available_if(has_features)
    def predict(self, X) -> np.ndarray:
        """Predict the most probable cluster of each sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int64
            Index of the cluster of each sample. Equal to ``labels_`` for the training
            samples.
        """
        return self._logits(X).argmax(axis=1)

    @available_if(has_features)
    def predict_proba(self, X) -> np.ndarray:
        """Predict the probability of each cluster for each sample.

        Softmax of the logits divided by `temperature_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        assignments : ndarray of shape (n_samples, `n_clusters`)
            Rows sum to one.
        """
        return self._assignments(self._logits(X))

    def _assignments(self, logits):
        """Return the probabilities (n, k) of logits (n, k)."""
        # While a model is trained, for callbacks, there is no temperature.
        return softmax(logits / logits.dtype.type(getattr(self, "temperature_", 1.0)))

    @available_if(has_features)
    def score(self, X, y=None, sample_weight=None, *, precomputed=None) -> float:
        """Compute the simplified silhouette of the predicted clusters of X.

        The mean of (b - a) / max(a, b), where a is the distance of a sample to the mean
        of the other samples of its cluster, and b the smallest one to the mean of
        another cluster. Distances are those in the space of the kernel, along its 32
        leading principal components, and those of the features for objectives without
        a kernel. It ranks candidates on the same features with the same kernel or
        metric. Unlike the objective, which :func:`~skdiffclust.gemini.gemini_score`
        computes, it does not grow with the number of clusters, so that a parameter
        search can choose it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples in the means of clusters, the principal components
            of the kernel, and the score. A sample of weight 2 counts as two.
        precomputed : array-like of shape (n_samples, n_samples), default=None
            Kernel or distances between these samples. Required if `fit` was called
            with a precomputed matrix.

        Returns
        -------
        score : float
            Between -1 and 1, larger is better; 0 for a single cluster.

        References
        ----------
        Hruschka, Campello, de Castro. Evolving clusters in gene-expression data.
        Information Sciences 176, 2006.
        """
        if precomputed is None and self._precomputed_given:
            raise ValueError(
                f"The 'precomputed' parameter of {type(self).__name__}.score must be a "
                "matrix between the samples of X, as fit was given one. Got None "
                "instead. Pass the kernel or the distances between these samples."
            )
        labels = self._logits(X).argmax(axis=1)
        X = validated(self, X, reset=False)
        weights = sample_weights(sample_weight, X)
        settings = self._settings()
        relation = check_matrix(precomputed, settings, X)
        points = centered(X, self.means_)
        is_kernel = settings.relation_kind == "kernel"
        if relation is None and is_kernel:
            gamma = getattr(self, "gamma_", None)
            relation = settings.relation(points, X, Units(), gamma)
        elif relation is not None and not is_kernel:
            relation = Matrix(-np.square(relation.matrix) / 2)
        if relation is not None:
            points = relation.coordinates(weights)
        return silhouette_of_means(points, labels, weights)

    def _logits(self, X):
        """Return the logits (n, k) of samples X."""
        check_is_fitted(self)
        return self._logits_of(validated(self, X, reset=False))

    def _logits_of(self, X):
        """Return the logits (n, k) of validated samples X."""
        if hasattr(self, "encoder_"):
            from skdiffclust.gemini._torch import module_logits

            n_clusters = len(self._columns)
            return module_logits(self.encoder_, X, n_clusters)[:, self._columns]
        return self._fitted_model().outputs(centered(X, self.means_))

    def _fitted_model(self):
        """Return the model of the fitted arrays."""
        perceptron = Encoder(self.coefs_, self.intercepts_)
        skip = getattr(self, "skip_weights_", None)
        return perceptron if skip is None else SkipPerceptron(skip, perceptron)

    def _settings(self):
        """Return the parameters as Settings."""
        names = [field.name for field in fields(Settings)]
        given = {name: vars(self)[name] for name in names if name in vars(self)}
        if not isinstance(self.n_clusters, str):
            given["n_clusters"] = int(self.n_clusters)  # a small NumPy one overflows
        return Settings(name=type(self).__name__, kind=self._kind(), **given)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        relation = OBJECTIVES[self.objective].relation
        value = {"kernel": self.kernel, "distance": self.metric}.get(relation)
        tags.input_tags.pairwise = isinstance(value, str) and value == "precomputed"
        tags.input_tags.sparse = not (tags.input_tags.pairwise or callable(self.model))
        return tags


def report_clusters(settings, labels, constraints):
    """Return the number of clusters found; warn of empty ones and broken links."""
    name = settings.name
    sizes = np.bincount(labels, minlength=settings.n_clusters)
    n_found = int(np.count_nonzero(sizes))
    other_mode = "mode='ovo', " if settings.compares == "ova" else ""
    if n_found < len(sizes):
        warn_of_convergence(
            f"{name} found {n_found} of {len(sizes)} clusters: the sizes are "
            f"{sizes.tolist()}. Use {other_mode}more restarts (n_init), or fewer "
            "clusters.",
        )
    warn_of_small_clusters(
        name,
        sizes,
        "they add next to nothing to the objective. Use "
        f"{other_mode}more restarts (n_init), or fewer clusters.",
    )
    if constraints is not None:
        separated, joined = broken_links(labels, constraints)
        if separated or joined:
            warn_of_convergence(
                f"{name} separates {separated} groups of samples that links or partial "
                f"labels join, and joins {joined} pairs of groups that must be "
                "separated. Increase max_iter, or use model='mlp'.",
            )
    return n_found
