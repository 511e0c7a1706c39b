"""The steps of PRCut.fit: labels to start from, model, training, fitted attributes."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from skdiffclust._assignments import order_by_size, relabel_by_size, softmax
from skdiffclust._batches import RowsOnDemand
from skdiffclust._checkpoint import (
    LoopCheckpoint,
    identify,
    probe_rows,
    without_prefix,
)
from skdiffclust._devices import require_torch, resolve_device
from skdiffclust._encoder import Encoder
from skdiffclust._threads import largest_product, small_products
from skdiffclust._validation import hidden_widths
from skdiffclust.cuts._graph import is_precomputed
from skdiffclust.cuts._predictors import EncoderPredictor, ModuleEncoder, Scaling
from skdiffclust.cuts._ratio_cut import cut_of_labels, cuts_of
from skdiffclust.cuts._training import (
    CutObjective,
    EncoderModel,
    FreeLogits,
    Settings,
    batches,
    cut_vjp,
    fit_labels,
    learning_rate,
)

# Factors of the step size of free logits and of a linear model.
_FREE_RATE = 30.0
_LINEAR_RATE = 2.0
# balance_weight="auto", without labels to start from and with them.
_BALANCE = 10.0
_LABELLED_BALANCE = 1.0
# Least target proportion of a cluster in the balance term, times n_clusters.
_LEAST_PRIOR = 0.02


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


def first_labels(init, samples, groups, n_clusters, search, random_state):
    """Return the labels (n,) that PRCut's `init` stands for, None for "random"."""
    if isinstance(init, str):
        return None
    if init is None:
        from skdiffclust.cuts._partition import find_partition

        if samples.joins_neighbors:
            search = replace(search, min_cluster_size=1)
        labels = find_partition(
            samples, groups, n_clusters, search, random_state
        ).labels
    elif hasattr(init, "fit_predict"):
        labels = check_init(
            labels_of_clusterer(init, samples, n_clusters, random_state),
            len(groups.groups),
            n_clusters,
        )
    else:
        return check_init(init, len(groups.groups), n_clusters)
    return relabel_by_size(labels, groups.sizes)[0]


def labels_of_clusterer(clusterer, samples, n_clusters, random_state):
    """Return the labels (n,) of a clone of a clusterer, for n_clusters if it has that.

    It is fitted to the graph with affinity="precomputed", to the samples otherwise.
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
            "clusterer with affinity='precomputed' as well, because there are no "
            f"features. Got {clusterer!r} instead. Set it, or pass its labels."
        )
    return start.fit_predict(samples.rows)


class CutTraining:
    """A model, fitted to labels if there are any, then trained on the cut.

    Parameters
    ----------
    samples : Samples
    groups : Groups
    n_clusters : int
    labels : ndarray of shape (n,) or None
        Labels to start from, which held samples keep.
    settings : Settings
    random_state : RandomState instance
    """

    def __init__(self, samples, groups, n_clusters, labels, settings, random_state):
        self.samples = samples
        self.groups = groups
        self.n_clusters = n_clusters
        self.first_labels = labels
        self.random_state = random_state
        self.settings = settings
        encoder = settings.encoder
        self.kind = encoder if isinstance(encoder, str) else "module"
        n_samples = samples.graph.shape[0]
        prior = np.full(n_clusters, 1.0 / n_clusters)
        if labels is not None:
            volumes = np.bincount(labels, groups.divisors, minlength=n_clusters)
            shares = volumes / (volumes.sum() or 1.0)
            prior = np.maximum(shares, _LEAST_PRIOR / n_clusters)
        prior = prior / prior.sum()
        self.objective = CutObjective(samples.graph, settings, prior, groups.divisors)
        self.columns = np.arange(n_clusters)
        self.module = None
        self.scaling = None
        if self.kind == "free":
            self.settings = replace(settings, batch_size=n_samples)
            self.X = np.arange(n_samples)[:, None]
            self.model = FreeLogits(n_samples, n_clusters, labels, random_state)
        elif self.kind == "module":
            from skdiffclust._torch import own_module

            self.X = RowsOnDemand(samples.rows)
            self._set_module(
                own_module(encoder, "'encoder' parameter of PRCut", "'mlp', 'linear'")
            )
            # Refuses outputs of another width, and values too large.
            self.model.logits(self.X)
        else:
            rows = samples.rows
            self.scaling = Scaling.of(rows)
            self.X = self.scaling(rows)
            hidden = [] if self.kind == "linear" else settings.hidden_widths
            encoder = Encoder.with_random_weights(
                [rows.shape[1], *hidden, n_clusters],
                random_state,
                rows.dtype,
                activation=settings.activation,
            )
            self._set_encoder(encoder)

    def _set_encoder(self, encoder):
        """Train a copy of an encoder, in NumPy or, off the CPU, in torch."""
        if self.settings.device == "cpu":
            self.model = EncoderModel(encoder, self.settings.weight_decay)
            return
        from skdiffclust._torch import encoder_module

        self._set_module(encoder_module(encoder))

    def _set_module(self, module):
        """Train a module, in place."""
        from skdiffclust.cuts._torch import ModuleModel

        self.module = module
        self.model = ModuleModel(
            module,
            self.n_clusters,
            self.settings.weight_decay,
            self.settings.device,
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
                self.samples.rows,
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
        """Do so, with the threads that are set."""
        if checkpoint is not None:
            checkpoint.load(loop, self)
        for epoch in loop:
            # The first epoch takes no step, because the initial state may be the best.
            if epoch:
                rate = learning_rate(self.settings, epoch, self.settings.max_iter)
                for rows, block in batches(
                    self.samples.graph, self.settings, self.random_state
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
        graph = self.samples.graph
        divisors = self.groups.divisors
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
        rows = self.samples.rows
        graph = self.samples.graph
        held = self.groups.held
        is_stream = self.objective.past is not None
        predictor = None
        if self.kind == "free":
            labels = state["logits"].argmax(axis=1)
        else:
            predictor = self._predictor(state, self.columns)
            labels = predictor.labels(rows)
        labels = np.where(held, self.first_labels, labels) if held.any() else labels
        if not is_stream:
            order = order_by_size(labels, len(self.columns), self.groups.sizes)
            labels = np.argsort(order)[labels]
            if predictor is not None:
                predictor = self._predictor(state, order)
        sizes = np.bincount(labels, minlength=len(self.columns) if is_stream else 0)
        ratio_cut, normalized_cut = cuts_of(graph, labels)
        proportions = None
        if predictor is not None:
            shares = self.objective.shares
            proportions = shares @ predictor.assignments(rows) / len(shares)
        return {
            **(predictor.attributes if predictor is not None else {}),
            "_predictor": predictor,
            "_proportions": proportions,
            "labels_": labels,
            "n_clusters_": int(np.count_nonzero(sizes)),
            "cluster_sizes_": sizes,
            "affinity_matrix_": graph,
            "ratio_cut_": ratio_cut,
            "normalized_cut_": normalized_cut,
        }

    def continue_from(self, predictor, proportions):
        """Continue from a fitted predictor and the proportions (k,) of a stream."""
        self.scaling = predictor.scaling
        if self.scaling is None:
            self.columns = predictor.encoder.columns
            self.module.load_state_dict(predictor.encoder.module.state_dict())
            # The outputs of the module are in the order that it gave them.
            proportions = proportions[np.argsort(self.columns)]
        else:
            self.X = self.scaling(self.samples.rows)
            self.settings = replace(
                self.settings, activation=predictor.encoder.activation
            )
            self._set_encoder(predictor.encoder)
        self.objective.past = proportions
        prior = np.maximum(proportions, _LEAST_PRIOR / len(proportions))
        self.objective.prior = prior / prior.sum()

    def _predictor(self, state, order):
        """Return the predictor whose cluster p is the output column order[p]."""
        if self.module is None:
            encoder = Encoder.from_arrays(
                list(state.values()), self.settings.activation
            )
        else:
            from skdiffclust._torch import module_encoder, module_on_cpu

            module = module_on_cpu(self.module, state)
            if self.scaling is None:
                return EncoderPredictor(ModuleEncoder(module, order), None)
            encoder = module_encoder(module, self.settings.activation)
        return EncoderPredictor(encoder.permute_outputs(order), self.scaling)


def refuse_other_stream(n_clusters, encoder, predictor):
    """Refuse parameters of PRCut that are not those of a fitted predictor."""
    kind = "mlp" if predictor.encoder.n_hidden else "linear"
    kind = "module" if predictor.scaling is None else kind
    asked = "module" if callable(encoder) else encoder
    if n_clusters not in (predictor.encoder.n_outputs, "auto") or asked != kind:
        raise ValueError(
            "The 'n_clusters' and 'encoder' parameters of PRCut must be those of the "
            f"first call of partial_fit. Got {n_clusters} and {encoder!r} instead. "
            "Call fit to start again."
        )


def continue_training(
    samples, groups, predictor, proportions, settings, loop, random_state
):
    """Return the attributes after the epochs of a loop on the samples of a stream.

    `predictor` and `proportions` (k,) are those of the samples before.
    """
    run = CutTraining(samples, groups, len(proportions), None, settings, random_state)
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
    rows = training.samples.rows
    graph = training.samples.graph
    arrays = {
        "X": rows,
        "graph": graph.data,
        "columns of the graph": graph.indices,
        "rows of the graph": graph.indptr,
        "divisors": training.groups.divisors,
        "held": training.groups.held,
        "labels": training.first_labels,
        **{f"first {name}": array for name, array in training.state().items()},
    }
    identified = "affinity", "init"  # by the graph and the labels
    params = {name: value for name, value in params.items() if name not in identified}
    outputs = {}
    if training.kind == "module":
        from skdiffclust.cuts._torch import identity_of_module

        probed = RowsOnDemand(rows)[probe_rows(rows.shape[0])]
        outputs["encoder"] = identity_of_module(training.module, probed)
    identity = identify(arrays, params, outputs)
    return LoopCheckpoint(
        folder, "PRCut", identity, training.random_state, resume=resume
    )


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


def torch_streams(encoder, device, random_state):
    """Return a context that seeds torch's own random streams, and restores them."""
    if not callable(encoder):
        return nullcontext()
    from skdiffclust._torch import isolated_streams

    return isolated_streams(random_state, device)
