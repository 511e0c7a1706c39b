"""Variants of the training of `discover_classes.py`, ``--variants``, that were tried.

* ``noise views``, ``dropout views``: an unlabelled sample is linked to a random view of
  itself, not to a neighbour: normal noise of .3 standard deviations of each feature is
  added, or a fifth of its features are replaced by their means. ``..., neighbours``: to
  a view or to a neighbour.
* ``expected k``: the number of clusters of a batch is the number of classes that such a
  batch has on average if all classes are equally large, given those that are labelled
  in it. ``gap k``: that of the widest gap between the edges of its spanning tree, from
  the number of its labelled classes to that of all classes.
* ``falling noise``, ``rising noise``: the scale of the noise falls from twice to half
  of its value in the course of the training, or rises from half to twice.
* ``consistent links``: from the first and the eleventh epoch on, only neighbours are
  linked that share a cluster of the embedding in each of five clusterings under noise.
  ``consistent clusters``: all pairs that do may be linked.
* ``neighbours of the embedding``: as of the start of each epoch, instead of X.
* ``4 epochs``, ``7 epochs``, ``10 epochs``: not 20, which is the default.
* ``200 batches``, ``400 batches``: as many epochs as have about so many, at most 20.
"""

import numpy as np
from scipy.sparse import coo_array, csr_array, eye_array, hstack
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.neighbors import NearestNeighbors

from skdiffclust import SpanningForestClustering, SpanningForestEmbedding
from skdiffclust._constraints import as_constraints
from skdiffclust.forests._embedding._informed_batches import feasible_number
from skdiffclust.forests._embedding._start import Rates, neighbors_of
from skdiffclust.forests._perturbed._similarity import standardized_similarity

N_VIEWS, NOISE, DROPOUT = 8, 0.3, 0.2
N_CLUSTERINGS, N_EPOCHS_BETWEEN, N_PARTNERS = 5, 10, 6


class Variant(SpanningForestEmbedding):
    """The estimator, with its training changed by `change(batches, trainer, rng)`."""

    def _trainer(self, X, batches, rng, device, *, resume):
        trainer = super()._trainer(X, batches, rng, device, resume=resume)
        # A stream of its own: batches and noise are those without the change.
        self.change(batches, trainer, np.random.RandomState(0))
        return trainer


def before_epochs(batches, function):
    """Call a function of the number of the epoch before each."""
    epoch = batches.epoch
    n_epochs = iter(range(10**6))

    def changed(batch_size, random_state):
        function(next(n_epochs))
        yield from epoch(batch_size, random_state)

    batches.epoch = changed


def views(kind, with_neighbors):
    """Link samples to views of themselves, which are added to the samples."""

    def change(batches, trainer, rng):
        X = trainer.X
        n = len(X)
        for _ in range(N_VIEWS):
            if kind == "noise":
                view = X + NOISE * X.std(axis=0) * rng.standard_normal(X.shape)
            else:
                view = np.where(rng.random_sample(X.shape) < DROPOUT, X.mean(axis=0), X)
            trainer.X = np.concatenate([trainer.X, view])
        own = hstack([eye_array(n)] * N_VIEWS)
        neighbors = batches.neighbors if with_neighbors else csr_array((n, n))
        batches.neighbors = csr_array(hstack([neighbors, own]))
        labels = np.full(len(trainer.X), -1)
        labels[:n] = batches.constraints.classes
        batches.constraints = as_constraints(len(labels), partial_labels=labels)

    return change


def estimated_number(number_of):
    """Replace the number of clusters of each batch."""

    def change(batches, trainer, rng):
        epoch = batches.epoch

        def changed(batch_size, random_state):
            for rows, known, _ in epoch(batch_size, random_state):
                k = number_of(rows, known, batches.n_clusters, trainer)
                yield rows, known, feasible_number(known, k)

        batches.epoch = changed

    return change


def expected_number(rows, known, n_classes, trainer):
    """Return the mean number of classes of unlabelled groups and those labelled."""
    n_drawn = known.n_groups - known.n_classes
    share = 1 - (1 - 1 / n_classes) ** n_drawn
    return round(known.n_classes + (n_classes - known.n_classes) * share)


def number_by_gap(rows, known, n_classes, trainer):
    """Return the number of clusters at the widest gap of the tree's edges."""
    similarity = standardized_similarity(trainer.embed(trainer.X[rows]), "sqeuclidean")
    lengths = np.sqrt(np.maximum(similarity.max() - similarity, 0))
    lengths = np.sort(minimum_spanning_tree(lengths).data)[::-1]
    numbers = np.arange(max(known.n_classes, 2), n_classes + 1)
    gaps = lengths[numbers - 2] - lengths[numbers - 1]
    return int(numbers[gaps.argmax()])


def schedule(first, last):
    """Change the scale of the noise geometrically from one factor to another."""

    def change(batches, trainer, rng):
        scale, rate = trainer.rates
        n_epochs = trainer.settings.max_iter

        def begin(epoch):
            factor = first * (last / first) ** ((epoch + 1) / n_epochs)
            trainer.rates = Rates(scale * factor, rate)

        before_epochs(batches, begin)

    return change


def noisy_clusters(trainer, known, n_clusters, rng):
    """Return clusters (n, s) of the embedding under noise of half a neighbour away."""
    points = trainer.embed(trainer.X)
    nearest = NearestNeighbors(n_neighbors=1).fit(points).kneighbors()[0]
    scale = 0.5 * np.median(nearest) / np.sqrt(points.shape[1])
    return np.column_stack(
        [
            SpanningForestClustering(n_clusters)
            .fit(
                points + scale * rng.standard_normal(points.shape),
                partial_labels=known.classes,
            )
            .labels_
            for _ in range(N_CLUSTERINGS)
        ]
    )


def consistent(with_clusters):
    """Link neighbours, or any samples, that noise does not take apart."""

    def change(batches, trainer, rng):
        neighbors = batches.neighbors.tocoo()
        n = neighbors.shape[0]

        def begin(epoch):
            if epoch % N_EPOCHS_BETWEEN:
                return
            known = batches.constraints
            clusters = noisy_clusters(trainer, known, batches.n_clusters, rng)
            pairs = np.column_stack([neighbors.row, neighbors.col])
            if with_clusters:
                always = np.unique(clusters, axis=0, return_inverse=True)[1].ravel()
                alike = [np.flatnonzero(always == c) for c in always]
                drawn = [rng.choice(rows, N_PARTNERS) for rows in alike]
                rows = np.repeat(np.arange(n), N_PARTNERS)
                pairs = np.concatenate(
                    [pairs, np.column_stack([rows, np.concatenate(drawn)])]
                )
            else:
                pairs = pairs[(clusters[pairs[:, 0]] == clusters[pairs[:, 1]]).all(1)]
                # Without any such neighbour, a sample is drawn alone.
                pairs = np.concatenate([pairs, np.column_stack([np.arange(n)] * 2)])
            graph = coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(n, n))
            batches.neighbors = graph.tocsr()

        before_epochs(batches, begin)

    return change


def moving_neighbors(batches, trainer, rng):
    """Link neighbours of the embedding as it is."""

    def begin(epoch):
        n_neighbors = trainer.settings.n_neighbors
        batches.neighbors = neighbors_of(trainer.embed(trainer.X), n_neighbors)

    before_epochs(batches, begin)


def varied(change):
    """Return a method of `discover_classes.py` that trains with a change."""

    def method(X, labels, k, seed):
        model = Variant(k, random_state=seed)
        model.change = change
        return model.fit(X, labels).transform

    return method


def shorter(n_epochs):
    """Return a method that trains for fewer epochs."""

    def method(X, labels, k, seed):
        model = SpanningForestEmbedding(k, max_iter=n_epochs, random_state=seed)
        return model.fit(X, labels).transform

    return method


def ended_after(n_batches):
    """Return a method that trains for about a number of batches."""

    def method(X, labels, k, seed):
        # Half of a batch of 64 are samples without a label.
        in_epoch = np.sum(labels < 0) // 32
        n_epochs = min(max(1, round(n_batches / in_epoch)), 20)
        return shorter(n_epochs)(X, labels, k, seed)

    return method


VARIANTS = {
    "noise views": varied(views("noise", False)),
    "noise views, neighbours": varied(views("noise", True)),
    "dropout views": varied(views("dropout", False)),
    "dropout views, neighbours": varied(views("dropout", True)),
    "expected k": varied(estimated_number(expected_number)),
    "gap k": varied(estimated_number(number_by_gap)),
    "falling noise": varied(schedule(2, 0.5)),
    "rising noise": varied(schedule(0.5, 2)),
    "consistent links": varied(consistent(False)),
    "consistent clusters": varied(consistent(True)),
    "neighbours of the embedding": varied(moving_neighbors),
    "4 epochs": shorter(4),
    "7 epochs": shorter(7),
    "10 epochs": shorter(10),
    "200 batches": ended_after(200),
    "400 batches": ended_after(400),
}
