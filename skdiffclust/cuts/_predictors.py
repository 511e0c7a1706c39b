"""The predictor of GraphCutClustering: labels of training samples, and best moves."""

import numpy as np
import scipy.sparse as sp

from skdiffclust._duplicates import equal_rows
from skdiffclust._validation import canonical_rows
from skdiffclust.cuts._ratio_cut import cuts_by_cluster


class GraphPredictor:
    """Labels of training samples, and the best move for new ones.

    Parameters
    ----------
    samples : Samples
        Training samples and their graph.
    labels : ndarray of shape (n,), int64
        -1 for noise.
    divisors : ndarray of shape (n,) or None
        Divisors of the cut, one for each sample if None.
    normalized : bool
        Whether the divisors are degrees.
    """

    def __init__(self, samples, labels, *, divisors, normalized):
        self.affinity = samples.affinity
        graph = samples.graph
        # Samples that new ones are compared with; of a graph, its rows.
        self.train = graph if samples.rows is None else samples.rows
        self.train_labels = labels
        self.normalized = normalized
        n_clusters = int(labels.max(initial=0)) + 1
        self.members = (labels[:, None] == np.arange(n_clusters)).astype(np.float64)
        # The first is the cut of noise.
        self.cuts = cuts_by_cluster(graph, labels + 1, n_clusters + 1)[1:]
        if divisors is None:
            divisors = np.ones(len(labels))
        self.sizes = divisors @ self.members
        self.mean_size = divisors.mean()
        # Links to equal samples, which may be separated, lead to the first of them.
        equal = samples.groups
        totals = np.zeros((int(equal.max()) + 1, n_clusters))
        np.add.at(totals, equal, self.members)
        self.members = (totals / np.bincount(equal)[:, None])[equal]

    def labels(self, X):
        """Return the labels (m,) of samples X (m, d), or of weights X (m, n).

        A sample equal to training samples of one label has that label. Any other goes
        to the cluster where the cut of the training samples and itself is smallest,
        with edges to its own neighbours; it is noise, -1, if all its neighbours are.
        Either of X and the training samples may be sparse.
        """
        train = self.train
        n_train = train.shape[0]
        if sp.issparse(X) and not sp.issparse(train):
            # At most as many samples at once as were kept bound the memory.
            parts = range(0, X.shape[0], n_train)
            return np.concatenate(
                [self.labels(X[i : i + n_train].toarray()) for i in parts]
            )
        if sp.issparse(train):
            X = canonical_rows(sp.csr_array(X))
        together = sp.vstack if sp.issparse(train) else np.concatenate
        groups = equal_rows(together([train, X.astype(train.dtype)]))
        known = np.full(int(groups.max()) + 1, -2, dtype=np.int64)
        known[groups[:n_train]] = self.train_labels
        parted = known[groups[:n_train]] != self.train_labels
        known[groups[:n_train][parted]] = -2
        labels = known[groups[n_train:]]
        new = np.flatnonzero(labels == -2)
        if len(new):
            links = X[new]
            if self.affinity is not None:
                links = self.affinity.links(links) * self.affinity.scale
            labels[new] = self._best_move(links)
        return labels

    def _best_move(self, links):
        """Return the best clusters (m,) for links (m, n) to the training samples."""
        degrees = links.sum(axis=1)[:, None]
        inside = links @ self.members
        sizes = self.sizes
        own = self.mean_size
        # Edges of a sample add to the cuts of all clusters but its own, and to all
        # sizes if these are sums of degrees.
        if self.normalized:
            sizes = np.maximum(sizes, 1e-12 * (sizes.sum() or 1.0)) + inside
            own = degrees
        # (cut + degree - inside) / (size + own) - (cut + inside) / size, without
        # cancellation.
        share = own * ((self.cuts + inside) / sizes)
        change = (degrees - 2 * inside - share) / (sizes + own)
        labels = change.argmin(axis=1)
        if (self.train_labels < 0).any():
            labels[(degrees[:, 0] > 0) & (inside.sum(axis=1) == 0)] = -1
        return labels
