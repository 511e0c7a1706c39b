"""Kauri: a decision tree whose leaves are the clusters of kernel k-means."""

from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from skdiffclust._affinity import refuse_overflow, refuse_underflow
from skdiffclust._assignments import order_by_size
from skdiffclust._compat import Interval, fit_context
from skdiffclust._history import keep_state_on_error, warn_of_convergence
from skdiffclust._validation import extreme_rows, validate_rows
from skdiffclust.gemini._base import BaseGEMINI
from skdiffclust.gemini._relations import KERNELS, given_relation, make_relation
from skdiffclust.gemini._splits import Split, best_split, cohesion_of
from skdiffclust.gemini._units import Units, scale_gamma, takes_gamma

# Relative gain below which a split is one of rounding.
_LEAST_GAIN = 1e-10
_SHARED = "kernel", "gamma", "kernel_params"


class Kauri(ClusterMixin, BaseEstimator):
    r"""Cluster by a decision tree that minimises the kernel k-means criterion.

    The tree is grown greedily: each step splits a leaf by a threshold on one feature so
    as to increase

    .. math:: \sum_k \frac{1}{|C_k|} \sum_{i, j \in C_k} \kappa(x_i, x_j)

    most, which is equivalent to decreasing the sum of squared distances to the means of
    the clusters in the space of the kernel. The best split is searched over all leaves,
    features and thresholds, and over the clusters to which the two parts are assigned:
    that of the leaf, another one, or a new one. Use it when the clusters must be
    explained by a few rules on the features.

    Parameters
    ----------
    n_clusters : int, default=2
        Maximum number of clusters; fewer may be found.
    kernel : str, callable or transformer, default="linear"
        Kernel, as in :class:`~skdiffclust.GEMINI`, except for "precomputed": pass a
        kernel matrix as `affinity` to :meth:`fit` instead. The linear kernel and
        transformers do not require an n × n matrix.
    gamma : float, "scale" or None, default=None
        Coefficient of the kernel, as in :class:`~skdiffclust.GEMINI`.
    kernel_params : dict or None, default=None
        Further parameters of `kernel`: "degree" (by default 3) and "coef0" (1) of
        "poly" and "polynomial", "coef0" of "sigmoid", or keyword arguments of a
        function.
    max_leaf_nodes : int or None, default=None
        Maximum number of leaves. None uses `n_clusters`, so that each cluster is
        described by one rule. With more leaves, a cluster may have several of them, and
        the clustering comes closer to that of k-means.
    max_depth : int or None, default=None
        Maximum depth of the tree. With None, the depth is not limited.
    min_samples_leaf : int, default=1
        Minimum number of samples in a leaf.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int64
        Cluster of each training sample, from 0 to ``n_clusters_ - 1`` in order of
        decreasing size.
    n_clusters_ : int
        Number of non-empty clusters.
    n_leaves_ : int
        Number of leaves.
    depth_ : int
        Depth of the tree.
    children_left_, children_right_ : ndarray of shape (n_nodes,), int64
        Left and right child of each node, -1 for leaves. Node 0 is the root.
    feature_ : ndarray of shape (n_nodes,), int64
        Feature on which each node is split, -1 for leaves.
    threshold_ : ndarray of shape (n_nodes,), float64
        Threshold of each node, NaN for leaves. Samples with at most this value go to
        the left child.
    leaf_labels_ : ndarray of shape (n_nodes,), int64
        Cluster of each leaf, -1 for inner nodes.
    gamma_ : float
        Value of gamma. Only available with ``gamma="scale"``.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, when all are strings.

    See Also
    --------
    skdiffclust.GEMINI : Linear models, perceptrons or networks with the same kernels.

    Notes
    -----
    A leaf of m samples is evaluated once, at a cost of O(d m log m) for sorting plus
    O(d m (r + k r)) with a linear kernel or transformer of r features, or O(d m²) with
    a kernel matrix. The tree is greedy: a split is never undone, but a cluster may
    receive parts of several leaves. The algorithm is deterministic. X must be dense.

    References
    ----------
    L. Ohl, P.-A. Mattei, M. Leclercq, A. Droit, F. Precioso, "Kernel KMeans clustering
    splits for end-to-end unsupervised decision trees", 2024.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skdiffclust import Kauri
    >>> iris = load_iris()
    >>> tree = Kauri(3).fit(iris.data)
    >>> print(tree.export_text(iris.feature_names, decimals=1))
    |--- petal length (cm) <= 3.4
    |   |--- cluster: 1
    |--- petal length (cm) >  3.4
    |   |--- petal length (cm) <= 5.2
    |   |   |--- cluster: 0
    |   |--- petal length (cm) >  5.2
    |   |   |--- cluster: 2
    <BLANKLINE>
    """

    _parameter_constraints = {
        **{name: BaseGEMINI._parameter_constraints[name] for name in _SHARED},
        "n_clusters": BaseGEMINI._parameter_constraints["n_clusters"],
        "kernel": KERNELS,
        "max_leaf_nodes": [Interval(Integral, 1, None, closed="left"), None],
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        kernel="linear",
        gamma=None,
        kernel_params=None,
        max_leaf_nodes=None,
        max_depth=None,
        min_samples_leaf=1,
    ):
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf

    @keep_state_on_error
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, affinity=None):
        """Grow the tree on the samples X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.
        affinity : array-like of shape (n_samples, n_samples), default=None
            Kernel between the samples, to be used instead of `kernel`, which must then
            have its default "linear". The tree still splits on the features of X.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or a parameter is invalid.

        Warns
        -----
        ConvergenceWarning
            If fewer clusters are found than requested.
        """
        X = self._validate(X, reset=True)
        n_samples = len(X)
        if self.n_clusters > n_samples:
            raise ValueError(
                "The 'n_clusters' parameter of Kauri must be at most the number of "
                f"samples, n_samples={n_samples}. Got {self.n_clusters} instead. Use "
                "fewer clusters."
            )
        vars(self).pop("gamma_", None)
        if self.gamma == "scale" and takes_gamma(self.kernel):
            weights = np.full(n_samples, 1 / n_samples)
            units = Units.of_rows(X - X.mean(axis=0, dtype=np.float64), weights, 0)
            self.gamma_ = scale_gamma(self.kernel, X.shape[1], units.features)
        cohesion = cohesion_of(self._relation(X, affinity))
        nodes, labels = self._grow(X, cohesion)
        order = order_by_size(labels, self.n_clusters)
        rank = np.argsort(order)
        self._publish(nodes, rank)
        self._affinity_given = affinity is not None
        self.labels_ = rank[labels]
        self.n_clusters_ = int(self.labels_.max()) + 1
        if self.n_clusters_ < self.n_clusters:
            warn_of_convergence(
                f"Kauri found {self.n_clusters_} clusters instead of "
                f"{self.n_clusters}: no split of a leaf makes another one. Allow more "
                "leaves (max_leaf_nodes, max_depth), or use fewer clusters."
            )
        return self

    def predict(self, X):
        """Predict the cluster of each sample, which is that of its leaf.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int64
            Index of the cluster of each sample. Equal to ``labels_`` for the training
            samples.
        """
        leaves = self.apply(X)
        return self.leaf_labels_[leaves]

    def apply(self, X):
        """Return the index of the leaf of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        leaves : ndarray of shape (n_samples,), int64
            Index of the leaf among the nodes of the tree.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        nodes = np.zeros(len(X), dtype=np.int64)
        for _ in range(self.depth_):
            inner = np.flatnonzero(self.feature_[nodes] >= 0)
            at = nodes[inner]
            is_left = X[inner, self.feature_[at]] <= self.threshold_[at]
            nodes[inner] = np.where(
                is_left, self.children_left_[at], self.children_right_[at]
            )
        return nodes

    def score(self, X, y=None, *, affinity=None):
        """Compute minus the mean squared distance to the means of the clusters.

        Distances are those in the space of the kernel. The clusters are predicted for
        X, and their means are computed from X. The largest possible score is 0.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.
        affinity : array-like of shape (n_samples, n_samples), default=None
            Kernel between these samples. Required if `fit` was called with an affinity.

        Returns
        -------
        score : float
            Minus the mean squared distance.
        """
        labels = self.predict(X)
        X = self._validate(X, reset=False)
        if affinity is None and self._affinity_given:
            raise ValueError(
                "The 'affinity' parameter of Kauri.score must be a matrix between the "
                "samples of X, as fit was given one. Got None instead. Pass the kernel "
                "between these samples."
            )
        cohesion = cohesion_of(self._relation(X, affinity))
        return float((cohesion.total(labels) - cohesion.squares.sum()) / len(X))

    def export_text(self, feature_names=None, *, decimals=2):
        """Export the rules of the tree as text, as :func:`sklearn.tree.export_text`.

        Parameters
        ----------
        feature_names : sequence of str of length n_features, default=None
            Names of the features. None uses `feature_names_in_` if it is defined, and
            "feature_0", "feature_1", ... otherwise.
        decimals : int, default=2
            Number of decimals of the thresholds.

        Returns
        -------
        text : str
            The rules, one line per branch and one per leaf.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        if feature_names is not None:
            names = list(feature_names)
        if names is None:
            names = [f"feature_{j}" for j in range(self.n_features_in_)]
        if len(names) != self.n_features_in_:
            raise ValueError(
                "The 'feature_names' parameter of Kauri.export_text must have "
                f"{self.n_features_in_} names. Got {len(names)} instead."
            )
        lines = []
        # What is to be written next is last.
        waiting = [(0, 0, None)]
        while waiting:
            node, depth, answer = waiting.pop()
            indent = "|   " * max(depth - 1, 0)
            if answer is not None:
                lines.append(f"{indent}|--- {answer}")
                indent += "|   "
            feature = self.feature_[node]
            if feature < 0:
                lines.append(f"{indent}|--- cluster: {self.leaf_labels_[node]}")
                continue
            question = f"{names[feature]} {{}} {self.threshold_[node]:.{decimals}f}"
            right = self.children_right_[node]
            left = self.children_left_[node]
            waiting.append((right, depth + 1, question.format("> ")))
            waiting.append((left, depth + 1, question.format("<=")))
        return "\n".join(lines) + "\n"

    def _validate(self, X, *, reset):
        """Return X as a finite array (n, d) of float64 or float32."""
        return validate_rows(self, X, reset=reset)

    def _relation(self, X, affinity):
        """Return the relation between samples X (n, d), or that of a matrix (n, n)."""
        if affinity is not None:
            if not isinstance(self.kernel, str) or self.kernel != "linear":
                raise ValueError(
                    "The 'kernel' parameter of Kauri must be 'linear', its default, "
                    f"if an affinity is passed. Got {self.kernel!r} instead. Pass one "
                    "of the two."
                )
            if np.shape(affinity) != (len(X), len(X)):
                raise ValueError(
                    "The 'affinity' parameter must be a dense array of shape "
                    f"({len(X)}, {len(X)}), between the samples of X. Got "
                    f"{np.shape(affinity)} instead."
                )
            return given_relation(affinity, "kernel", np.float64)
        ends = extreme_rows(X)
        refuse_overflow([ends], X.dtype)
        refuse_underflow(ends, X.dtype)
        gamma = getattr(self, "gamma_", self.gamma)
        X = X.astype(np.float64)
        return make_relation("kernel", X, self.kernel, None, gamma, self.kernel_params)

    def _grow(self, X, cohesion):
        """Return the nodes of the tree, and the clusters (n,) of the samples."""
        most = self.n_clusters if self.max_leaf_nodes is None else self.max_leaf_nodes
        labels = np.zeros(len(X), dtype=np.int64)
        nodes = [{"rows": np.arange(len(X)), "depth": 0, "label": 0}]
        leaves = [0]
        least = _LEAST_GAIN * float(np.abs(cohesion.squares).sum())
        while len(leaves) < most:
            # What is best depends on the clusters, which the last split has changed.
            state = cohesion.clusters(labels, self.n_clusters)
            best = Split(gain=least)
            for leaf in leaves:
                if self.max_depth is None or nodes[leaf]["depth"] < self.max_depth:
                    rows = nodes[leaf]["rows"]
                    found = best_split(X, rows, state, self.min_samples_leaf)
                    if found.gain > best.gain:
                        best = found
                        chosen = leaf
            if best.feature < 0:
                break
            is_left = X[nodes[chosen]["rows"], best.feature] <= best.threshold
            children = []
            for side, label in ((is_left, best.left), (~is_left, best.right)):
                rows = nodes[chosen]["rows"][side]
                labels[rows] = label
                children.append(len(nodes))
                depth = nodes[chosen]["depth"] + 1
                nodes.append({"rows": rows, "depth": depth, "label": label})
            nodes[chosen] |= {"split": best, "children": children}
            leaves = [leaf for leaf in leaves if leaf != chosen] + children
        return nodes, labels

    def _publish(self, nodes, rank):
        """Assign the arrays of the tree, its clusters numbered by `rank` (k,)."""
        size = len(nodes)
        children = np.full((2, size), -1, dtype=np.int64)
        feature = np.full(size, -1, dtype=np.int64)
        threshold = np.full(size, np.nan)
        labels = np.full(size, -1, dtype=np.int64)
        for number, node in enumerate(nodes):
            if "split" in node:
                children[:, number] = node["children"]
                feature[number] = node["split"].feature
                threshold[number] = node["split"].threshold
            else:
                labels[number] = rank[node["label"]]
        self.children_left_, self.children_right_ = children
        self.feature_ = feature
        self.threshold_ = threshold
        self.leaf_labels_ = labels
        self.n_leaves_ = int(np.count_nonzero(feature < 0))
        self.depth_ = max(node["depth"] for node in nodes)
