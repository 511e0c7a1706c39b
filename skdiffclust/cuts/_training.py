"""The training of PRCut: labels to start from, their fit, epochs, fitted attributes."""

from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from skdiffclust._assignments import order_by_size, relabel_by_size, softmax
from skdiffclust._batches import RowsOnDemand, mini_batches
from skdiffclust._checkpoint import (
    LoopCheckpoint,
    identify,
    probe_rows,
    without_prefix,
)
from skdiffclust._devices import require_torch, resolve_device
from skdiffclust._encoder import Encoder
from skdiffclust._neighbors import k_nearest
from skdiffclust._threads import largest_product, small_products
from skdiffclust._validation import hidden_widths
from skdiffclust.cuts._graph import is_precomputed
from skdiffclust.cuts._models import (
    EncoderModel,
    FreeLogits,
    Scaling,
)
from skdiffclust.cuts._objective import CutObjective, cut_vjp
from skdiffclust.cuts._ratio_cut import cut_of_labels, cuts_of

# Factors of the step size of free logits and of a linear model.
_FREE_RATE = 30.0
_LINEAR_RATE = 2.0
# balance_weight="auto", without labels to start from and with them.
_BALANCE = 10.0
_LABELLED_BALANCE = 1.0
# Least target proportion of a cluster in the balance term, times n_clusters.
_LEAST_PRIOR = 0.02
# The learning rate falls to this share of itself over the epochs.
_LAST_RATE = 0.1
# Labels are fitted for this share of the epochs.
_FITTED = 0.5
# Few samples make few steps per epoch: the labels are fitted for at least this many
# steps.
_LEAST_STEPS = 2000
# In this share of them samples are moved (not for a linear model, which cannot bend
# around them), by one of this many differences to one of this many neighbours.
_MOVED = 0.8
_N_MOVES = 512
_N_NEIGHBORS = 10


@dataclass(frozen=True)
class Settings:
    """What to train and how; the parameters of PRCut of the same names.

    Attributes
    ----------
    encoder : {"linear", "mlp", "free"} or torch.nn.Module
        "free" are logits of the nodes of a precomputed graph.
    """

    encoder: object
    hidden_widths: list
    activation: str
    weight_decay: float
    device: str
    objective: str
    balance_weight: float
    averaging_rate: float | str
    max_iter: int
    batch_size: int
    learning_rate: float


def make_settings(params, owner, *, is_labelled):
    """Return the `Settings` of the parameters (dict) of PRCut.

    `is_labelled` says whether there are labels to start from.
    """
    encoder = "free" if is_precomputed(params["affinity"]) else params["encoder"]
    if callable(encoder):
        require_torch("PRCut with a module as encoder")
    factor = {"free": _FREE_RATE, "linear": _LINEAR_RATE}.get(encoder, 1.0)
    balance_weight = params["balance_weight"]
    if balance_weight == "auto":
        balance_weight = _LABELLED_BALANCE if is_labelled else _BALANCE
    return Settings(
        encoder=encoder,
        hidden_widths=hidden_widths(params["hidden_layer_sizes"], owner),
        activation=params["activation"],
        weight_decay=params["weight_decay"],
        device="cpu" if encoder == "free" else resolve_device(params["device"], owner),
        objective=params["objective"],
        balance_weight=balance_weight,
        averaging_rate=params["averaging_rate"],
        max_iter=params["max_iter"],
        batch_size=params["batch_size"],
        learning_rate=factor * params["learning_rate"],
    )


def first_labels(init, samples, problem, n_clusters, search, random_state):
    """Return the labels (n,) that PRCut's `init` stands for, None for "random"."""
    if isinstance(init, str):
        return None
    if init is None:
        from skdiffclust.cuts._partition import find_partition

        if samples.joins_neighbors:
            search = replace(search, min_cluster_size=1)
        labels = find_partition(
            problem, n_clusters, search, samples.nearest, random_state
        ).labels
    elif hasattr(init, "fit_predict"):
        labels = check_init(
            labels_of_clusterer(init, samples, n_clusters, random_state),
            len(problem.groups),
            n_clusters,
        )
    else:
        return check_init(init, len(problem.groups), n_clusters)
    return relabel_by_size(labels, problem.sizes)[0]


def labels_of_clusterer(clusterer, samples, n_clusters, random_state):
    """Return the labels (n,) of a clone of a clusterer, for n_clusters if it has that.

    It is fitted to the graph if its affinity is "precomputed", and to the samples
    otherwise.
    """
    start = clone(clusterer)
    params = start.get_params()
    if "n_clusters" in params:
        start.set_params(n_clusters=n_clusters)
    if params.get("random_state", 0) is None:
        start.set_params(random_state=random_state)
    if is_precomputed(params.get("affinity")):
        return start.fit_predict(samples.graph)
    if samples.rows is None:
        raise ValueError(
            "The 'init' parameter of PRCut with affinity='precomputed' must be a "
            "clusterer of a precomputed graph as well, because there are no "
            f"features. Got {clusterer!r} instead. Set its affinity to "
            "'precomputed', or pass its labels."
        )
    return start.fit_predict(samples.rows)


def check_init(init, n_samples, n_clusters):
    """Return labels (n,) int64 to start from, numbered from 0, of the user's array."""
    labels = np.asarray(init)
    if labels.shape != (n_samples,) or labels.dtype.kind not in "biu":
        raise ValueError(
            "The 'init' parameter of PRCut must, as an array, have one integer for "
            f"each of {n_samples} samples. Got an array of {labels.dtype} of shape "
            f"{labels.shape} instead."
        )
    labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    if labels.max() >= n_clusters:
        raise ValueError(
            f"The 'init' parameter of PRCut must have at most n_clusters={n_clusters} "
            f"different labels. Got {labels.max() + 1} instead."
        )
    return labels


def fit_labels(model, X, rows, labels, settings, random_state, *, moving):
    """Fit the model of inputs X (n, d) to labels (n,) by their log-likelihood.

    With `moving`, samples are first moved at random, about as far as neighbours among
    the samples `rows` (n, d), dense or CSR, are apart, and keep their labels, because
    new samples are that far from those seen.
    """
    if moving:
        pairs = _neighboring_pairs(rows, random_state)
    n_steps = -(-len(X) // settings.batch_size)
    n_epochs = max(int(_FITTED * settings.max_iter), -(-_LEAST_STEPS // n_steps))
    for epoch in range(n_epochs):
        rate = learning_rate(settings, epoch, n_epochs)
        n_wrong = np.zeros(1, dtype=np.int64)
        moving = moving and epoch < _MOVED * n_epochs
        for chosen in mini_batches(len(X), settings.batch_size, random_state):
            batch = X[chosen]
            if moving:
                drawn = random_state.randint(len(pairs), size=len(chosen))
                near, own = pairs[drawn].T
                batch += X[near] - X[own]
            model.step(batch, _likelihood(labels[chosen], n_wrong), rate)
        # Once all unmoved samples are right, the cut is that of the labels; a few more
        # epochs widen the margin, and so do moved samples.
        if not n_wrong[0] and epoch >= n_epochs // 4:
            if not moving:
                return
            moving = False


def _neighboring_pairs(X, random_state):
    """Return pairs (m, 2) of near samples of X (n, d), dense or CSR, and others."""
    n_samples = X.shape[0]
    rows = random_state.permutation(n_samples)[:_N_MOVES]
    points = X.astype(np.float64, copy=False)
    neighbors, _ = k_nearest(points, points[rows], min(_N_NEIGHBORS + 1, n_samples))
    # The first is the sample itself, or a duplicate.
    n_found = neighbors.shape[1]
    columns = random_state.randint(min(1, n_found - 1), n_found, size=len(rows))
    return np.column_stack([neighbors[np.arange(len(rows)), columns], rows])


def _likelihood(labels, n_wrong):
    """Return the function from logits (b, k) to the gradient for labels (b,).

    n_wrong[0] counts the samples whose largest logit is not that of their label.
    """

    def gradient_of(logits):
        gradient = softmax(logits)
        n_wrong[0] += np.count_nonzero(gradient.argmax(axis=1) != labels)
        gradient[np.arange(len(labels)), labels] -= 1.0
        return gradient / len(labels)

    return gradient_of


def learning_rate(settings, epoch, n_epochs):
    """Return the learning rate of an epoch, which falls linearly."""
    done = epoch / max(n_epochs - 1, 1)
    return settings.learning_rate * (1.0 - (1.0 - _LAST_RATE) * done)


def batches(graph, settings, random_state):
    """Yield (rows, block) of an epoch; block None means all edges of those samples."""
    n = graph.shape[0]
    size = settings.batch_size
    others = mini_batches(n, size, random_state)
    for rows in mini_batches(n, size, random_state):
        if settings.objective == "exact":
            yield rows, None
        else:
            right = next(others)
            yield np.concatenate([rows, right]), graph[rows][:, right]


class CutTraining:
    """A model, fitted to labels if there are any, then trained on the cut.

    Parameters
    ----------
    rows : ndarray or csr_array of shape (n, d), or None for a precomputed graph
    problem : Problem
    n_clusters : int
    labels : ndarray of shape (n,) or None
        Labels to start from, which held samples keep.
    settings : Settings
    random_state : RandomState instance
    """

    def __init__(self, rows, problem, n_clusters, labels, settings, random_state):
        self.rows = rows
        self.problem = problem
        self.n_clusters = n_clusters
        self.first_labels = labels
        self.random_state = random_state
        self.settings = settings
        encoder = settings.encoder
        self.kind = encoder if isinstance(encoder, str) else "module"
        prior = np.full(n_clusters, 1.0 / n_clusters)
        if labels is not None:
            volumes = np.bincount(labels, problem.divisors, minlength=n_clusters)
            shares = volumes / (volumes.sum() or 1.0)
            prior = np.maximum(shares, _LEAST_PRIOR / n_clusters)
        prior = prior / prior.sum()
        self.objective = CutObjective(problem.graph, settings, prior, problem.divisors)
        self.columns = np.arange(n_clusters)
        self.scaling = None
        if self.kind == "free":
            n_samples = problem.graph.shape[0]
            self.settings = replace(settings, batch_size=n_samples)
            self.X = np.arange(n_samples)[:, None]
            self.model = FreeLogits(n_samples, n_clusters, labels, random_state)
        elif self.kind == "module":
            from skdiffclust._torch import own_module

            self.X = RowsOnDemand(rows)
            what = "'encoder' parameter of PRCut"
            self._train(own_module(encoder, what, "'mlp', 'linear'"))
            # Refuses outputs of another width, and values too large.
            self.model.logits(self.X)
        else:
            self.scaling = Scaling.of(rows)
            self.X = self.scaling(rows)
            hidden = [] if self.kind == "linear" else settings.hidden_widths
            encoder = Encoder.with_random_weights(
                [rows.shape[1], *hidden, n_clusters],
                random_state,
                rows.dtype,
                activation=settings.activation,
            )
            self._train(encoder)

    def _train(self, encoder):
        """Set the model: a module, trained in place, or a copy of an `Encoder`.

        Off the CPU, an `Encoder` is trained in torch.
        """
        weight_decay = self.settings.weight_decay
        if self.settings.device == "cpu" and isinstance(encoder, Encoder):
            self.model = EncoderModel(encoder, weight_decay)
            return
        from skdiffclust.cuts._torch import ModuleModel

        self.model = ModuleModel(
            encoder, self.n_clusters, weight_decay, self.settings.device
        )

    def _small_products(self):
        """Return a context with the threads that the products of a batch need."""
        # The rows of a block are those of two batches.
        n_rows = 2 * min(self.settings.batch_size, len(self.X))
        return small_products(largest_product(n_rows, self.model.weights))

    def fit_labels(self):
        """Fit the model to the first labels, if there are any.

        Returns
        -------
        bool
            Whether it predicts them. Free logits begin with them.
        """
        labels = self.first_labels
        if labels is None or self.kind == "free":
            return True
        with self._small_products():
            fit_labels(
                self.model,
                self.X,
                self.rows,
                labels,
                self.settings,
                self.random_state,
                moving=self.kind != "linear",
            )
            return bool((self.model.logits(self.X).argmax(axis=1) == labels).all())

    def run(self, loop, checkpoint=None):
        """Run the epochs, or continue from a checkpoint."""
        with self._small_products():
            self._run(loop, checkpoint)

    def _run(self, loop, checkpoint):
        """Run the epochs as `run` does, with the threads that are set."""
        if checkpoint is not None:
            checkpoint.load(loop, self)
        for epoch in loop:
            # The first epoch takes no step, because the initial state may be the best.
            if epoch:
                rate = learning_rate(self.settings, epoch, self.settings.max_iter)
                for rows, block in batches(
                    self.problem.graph, self.settings, self.random_state
                ):
                    gradient_of = cut_vjp(self.objective, rows, block)
                    self.model.step(self.X[rows], gradient_of, rate)
            self._record(loop)
            if checkpoint is not None:
                checkpoint.save(loop, self)

    def arrays(self):
        """Return all arrays that an epoch changes, by name, for a checkpoint."""
        objective = self.objective.arrays()
        return {
            **self.model.trained.arrays(),
            **{f"objective.{name}": array for name, array in objective.items()},
        }

    def state(self):
        """Return the state of the model, as the ``best_state`` of the loop."""
        return self.model.trained.state()

    def load(self, arrays):
        """Load what `arrays` returned."""
        self.model.trained.load(arrays)
        self.objective.load_arrays(
            softmax(self.model.logits(self.X)), without_prefix("objective.", arrays)
        )

    def _record(self, loop):
        """End an epoch with the cut of the hard labels.

        The loss is 1, plus the number of empty clusters, plus the cut relative to that
        of random labels: any labelling that uses all clusters beats any other.
        """
        assignments = softmax(self.model.logits(self.X))
        value, balance = self.objective.start_epoch(assignments)
        graph = self.problem.graph
        divisors = self.problem.divisors
        n_clusters = self.n_clusters
        labels = assignments.argmax(axis=1)
        cut = cut_of_labels(graph, labels, n_clusters, divisors)
        n_used = len(np.unique(labels))
        total = len(labels) if divisors is None else divisors.sum()
        random_cut = n_clusters * (graph.sum() or 1.0) / (total or 1.0)
        loss = 1.0 + n_clusters - n_used + cut / random_cut
        loop.record(
            loss if np.isfinite(assignments).all() else np.nan,
            state=self.state,
            attributes=lambda: self.attributes(self.state()),
            cut=cut,
            n_clusters=n_used,
            objective=value,
            balance=balance,
        )

    def attributes(self, state):
        """Return the attributes that predict needs, and the labels, ordered by size.

        In a stream the clusters keep the order that they have.
        """
        held = self.problem.held
        is_stream = self.objective.past is not None
        predictor = None
        if self.kind == "free":
            labels = state["logits"].argmax(axis=1)
        else:
            predictor = self.model.predictor(state, self.scaling, self.columns)
            labels = predictor.labels(self.rows)
        labels = np.where(held, self.first_labels, labels) if held.any() else labels
        if not is_stream:
            order = order_by_size(labels, len(self.columns), self.problem.sizes)
            labels = np.argsort(order)[labels]
            if predictor is not None:
                predictor = self.model.predictor(state, self.scaling, order)
        sizes = np.bincount(labels, minlength=len(self.columns) if is_stream else 0)
        ratio_cut, normalized_cut = cuts_of(self.problem.graph, labels)
        proportions = None
        largest = {}
        if predictor is not None:
            shares = self.objective.shares
            assignments = predictor.assignments(self.rows)
            proportions = shares @ assignments / len(shares)
            largest = {"probabilities_": assignments.max(axis=1)}
        return {
            **largest,
            **(predictor.attributes if predictor is not None else {}),
            "_predictor": predictor,
            "_proportions": proportions,
            "labels_": labels,
            "n_clusters_": int(np.count_nonzero(sizes)),
            "cluster_sizes_": sizes,
            "affinity_matrix_": self.problem.graph,
            "ratio_cut_": ratio_cut,
            "normalized_cut_": normalized_cut,
        }

    def continue_from(self, predictor, proportions):
        """Continue from a fitted predictor and the proportions (k,) of a stream."""
        self.scaling = predictor.scaling
        if self.scaling is None:
            self.columns = predictor.encoder.columns
            trained = predictor.encoder.module.state_dict()
            self.model.module.load_state_dict(trained)
            # The outputs of the module are in the order that it gave them.
            proportions = proportions[np.argsort(self.columns)]
        else:
            self.X = self.scaling(self.rows)
            self._train(predictor.encoder)
        self.objective.past = proportions
        prior = np.maximum(proportions, _LEAST_PRIOR / len(proportions))
        self.objective.prior = prior / prior.sum()


def refuse_other_stream(n_clusters, encoder, predictor):
    """Refuse parameters of PRCut that are not those of a fitted predictor."""
    kind = "module"
    if predictor.scaling is not None:
        kind = "mlp" if predictor.encoder.n_hidden else "linear"
    asked = "module" if callable(encoder) else encoder
    if n_clusters not in (predictor.encoder.n_outputs, "auto") or asked != kind:
        raise ValueError(
            "The 'n_clusters' and 'encoder' parameters of PRCut must be those of the "
            f"first call of partial_fit. Got {n_clusters} and {encoder!r} instead. "
            "Call fit to start again."
        )


def continue_training(
    rows, problem, predictor, proportions, settings, loop, random_state
):
    """Return the attributes after the epochs of a loop on the samples of a stream.

    `predictor` and `proportions` (k,) are those of the samples before.
    """
    run = CutTraining(rows, problem, len(proportions), None, settings, random_state)
    run.continue_from(predictor, proportions)
    rate = run.objective.averaging_rate
    run.run(loop)
    attributes = run.attributes(loop.best_state)
    moved = rate * (attributes["_proportions"] - proportions)
    return attributes | {"_proportions": proportions + moved}


def make_checkpoint(params, training, folder, *, resume):
    """Return the checkpoint in a folder of a `CutTraining` before its first epoch.

    A resumed fit gives the same bits as an uninterrupted one. The labels that it starts
    from are computed and fitted again, and the weights compared. `params` (dict) are
    those of PRCut.
    """
    rows = training.rows
    graph = training.problem.graph
    arrays = {
        "X": rows,
        "graph": graph.data,
        "columns of the graph": graph.indices,
        "rows of the graph": graph.indptr,
        "divisors": training.problem.divisors,
        "held": training.problem.held,
        "labels": training.first_labels,
        **{f"first {name}": array for name, array in training.state().items()},
    }
    identified = "affinity", "init"  # by the graph and the labels
    params = {name: value for name, value in params.items() if name not in identified}
    outputs = {}
    if training.kind == "module":
        from skdiffclust.cuts._torch import identity_of_module

        probed = RowsOnDemand(rows)[probe_rows(rows.shape[0])]
        outputs["encoder"] = identity_of_module(training.model.module, probed)
    identity = identify(arrays, params, outputs)
    return LoopCheckpoint(
        folder, "PRCut", identity, training.random_state, resume=resume
    )


def torch_streams(encoder, device, random_state):
    """Return a context that seeds torch's own random streams, and restores them."""
    if not callable(encoder):
        return nullcontext()
    from skdiffclust._torch import isolated_streams

    return isolated_streams(random_state, device)
