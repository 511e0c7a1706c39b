"""What a fitted `ClAM` does with samples."""

import numpy as np
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.metrics import pairwise_distances
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdiffclust._assignments import simplified_silhouette, softmax
from skdiffclust._pairwise import block_distances, refuse_overflow, refuse_zero_rows
from skdiffclust._validation import check_dense_size, sample_weights, validate_rows
from skdiffclust.memories._dynamics import (
    Dynamics,
    complete_by_memories,
    energy,
    entropy,
    recall,
)
from skdiffclust.memories._scaling import by_blocks, dense


class FittedMemories(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """Methods of an estimator with fitted memories, for samples in units of X."""

    def predict(self, X) -> np.ndarray:
        """Return the memory that each sample converges to.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int64
            The memory nearest to the sample after `n_steps` steps of the dynamics.
        """
        return self._assign(self._rows(X))

    def predict_proba(self, X) -> np.ndarray:
        """Return how strongly each memory attracts each sample.

        The softmax of minus `inverse_temperature_` times the squared Euclidean distance
        (minus the cosine, the city-block distance) plus the log weight of each memory:
        the shares of the first attraction step (eq. 4), whose entropy is `entropy`. A
        lower `inverse_temperature` gives softer shares. The largest may differ from
        `predict`, which first follows the dynamics, where several memories are near.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        shares : ndarray of shape (n_samples, n_clusters), float64
            Not negative; rows sum to one.
        """
        return self._shares(self._divergences(self._rows(X)))

    def _shares(self, far):
        """Return how strongly memories attract samples at some distances (n, k)."""
        return softmax(np.log(self.cluster_weights_) - self.inverse_temperature_ * far)

    def transform(self, X) -> np.ndarray:
        """Return the distances of samples to the memories.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        distances : ndarray of shape (n_samples, n_clusters)
            In the geometry of `metric`, and the dtype of X.
        """
        X = self._rows(X)
        return self._distances(X).astype(X.dtype)

    def complete(self, X) -> np.ndarray:
        """Fill the missing entries of samples by attraction.

        If there were missing entries in `fit`, they are completed as by
        :class:`AssociativeImputer`, among at most 2000 of the training samples. If
        there were none, the cluster memories attract the samples, as in training: seen
        entries stay, missing ones start from the mean of the memories and move.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, NaN where an entry is missing.

        Returns
        -------
        completed : ndarray of shape (n_samples, n_features)
            A copy of X without NaN, float64, or float32 if X is.
        """
        check_is_fitted(self)
        return np.array(self._fill(dense(self._validate(X, reset=False))))

    def recall(self, X) -> np.ndarray:
        """Move samples towards their memories.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        recalled : ndarray of shape (n_samples, n_features), float64
            Samples after `n_steps` steps; of unit length with metric "cosine".
            :func:`skdiffclust.memories.recall` with the fitted memories takes any
            number of steps.
        """
        X = self._rows(X)
        if sparse.issparse(X):
            check_dense_size(
                *X.shape,
                what="The recalled array",
                remedy="Recall fewer samples at a time.",
            )
        return recall(
            dense(X), n_steps=self.n_steps, step_size=self.step_size, **self._field()
        )

    def energy(self, X) -> np.ndarray:
        """Return the energy of samples, small near a memory.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        energies : ndarray of shape (n_samples,), float64
            See :func:`skdiffclust.memories.energy`.
        """
        return self._of_field(energy, X)

    def entropy(self, X) -> np.ndarray:
        """Return the entropy of the attraction of samples (eq. 13).

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        entropies : ndarray of shape (n_samples,), float64
            0 where a single memory attracts the sample; see
            :func:`skdiffclust.memories.entropy`.
        """
        return self._of_field(entropy, X)

    def score(self, X, y=None, sample_weight=None) -> float:
        """Return the simplified silhouette of samples among the memories.

        The mean of 1 - d1 / d2, where d1 and d2 are the distances to the nearest and to
        the second nearest memory. It ranks candidates on the same features with the
        same `metric`. Unlike the loss, it does not grow with the number of clusters,
        so that a parameter search can choose it.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample.

        Returns
        -------
        score : float
            Between 0 and 1, larger is better; 0 for a single memory.

        References
        ----------
        Hruschka, Campello, de Castro. Evolving clusters in gene-expression data.
        Information Sciences 176, 2006.
        """
        far = self.transform(X)
        weight = sample_weights(sample_weight, far)
        return simplified_silhouette(far, weight)

    def _rows(self, X):
        """Return samples to predict, checked and completed."""
        check_is_fitted(self)
        X = self._completed(self._validate(X, reset=False))
        refuse_overflow([X, self.cluster_centers_])
        return X

    def _of_field(self, function, X):
        """Return the values (n,) of a function of the dynamics, by blocks of X."""
        X = self._rows(X)
        field = self._field()
        return by_blocks(lambda rows: function(dense(rows), **field), X)

    def _field(self):
        """Return the keyword arguments of the functions of the dynamics."""
        return {
            "memories": self.cluster_centers_.astype(np.float64),
            "inverse_temperature": self.inverse_temperature_,
            "weights": self.cluster_weights_,
            "metric": self.metric,
        }

    @property
    def _n_features_out(self):
        """Number of columns of `transform`."""
        return len(self.cluster_centers_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self.metric != "manhattan"
        return tags

    def _assign(self, X):
        """Return the labels (n,) of validated samples."""
        # numba is imported here, because it would slow down the import of the package.
        from skdiffclust.memories._assign import assign

        dynamics = Dynamics(
            self.inverse_temperature_, self.n_steps, self.step_size, self.metric
        )
        return assign(X, self.cluster_centers_, np.log(self.cluster_weights_), dynamics)

    def _divergences(self, X):
        """Return what β multiplies (n, k): distances, squared if Euclidean."""
        far = self._distances(X)
        return np.square(far) if self.metric == "euclidean" else far

    def _distances(self, X):
        """Return distances (n, k), float64, of samples to the memories of clusters."""
        memories = self.cluster_centers_.astype(np.float64)
        if sparse.issparse(X):
            return pairwise_distances(X, memories, metric=self.metric)
        return by_blocks(
            lambda rows: block_distances(
                rows.astype(np.float64, copy=False), memories, self.metric, {}
            ),
            X,
        )

    def _validate(self, X, *, reset):
        """Return X as finite samples, in C order, or CSR without duplicate entries."""
        X = validate_rows(
            self,
            X,
            reset=reset,
            order="C",
            ensure_all_finite="allow-nan",
            accept_sparse="csr" if self.metric != "manhattan" else False,
        )
        if sparse.issparse(X):
            X = sparse.csr_array(X, copy=not X.has_canonical_format)
            X.sum_duplicates()
            if np.isnan(X.data).any():
                raise ValueError(
                    "The 'X' parameter of ClAM must not contain NaN if it is sparse. "
                    "Got NaN instead. Pass a dense array to impute missing values."
                )
        return X

    def _fill(self, X):
        """Return validated samples, missing entries completed, in the dtype of X."""
        return self._missing.fill(
            X,
            lambda rows: complete_by_memories(
                rows, n_steps=self.n_steps, step_size=self.step_size, **self._field()
            ),
        )

    def _completed(self, X):
        """Return validated samples, completed, with directions if metric is cosine."""
        X = self._fill(X)
        if self.metric == "cosine":
            refuse_zero_rows(X)
        return X
