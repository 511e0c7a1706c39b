"""The steps of PRCut.fit: data, pseudo-labels, model, training, fitted attributes."""

import warnings
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from skdiffclust._affinity import column_means, refuse_overflow, refuse_underflow
from skdiffclust._assignments import order_by_size, relabel_by_size
from skdiffclust._compat import check_sample_weight
from skdiffclust._constraints import (
    as_constraints,
    bounds_of_clusters,
    check_feasible,
    is_free,
)
from skdiffclust._devices import require_torch, resolve_device
from skdiffclust._duplicates import equal_rows
from skdiffclust._encoder import Encoder
from skdiffclust._history import EpochLoop
from skdiffclust._validation import (
    canonical_rows,
    extreme_rows,
    hidden_widths,
    validate_rows,
)
from skdiffclust.cuts._choice import choose_n_clusters, cut_curve
from skdiffclust.cuts._graph import Affinity, nndescent, warn_of_parts
from skdiffclust.cuts._links import add_constraints, link_groups
from skdiffclust.cuts._predictors import (
    EncoderPredictor,
    GraphPredictor,
    ModuleEncoder,
    Scaling,
)
from skdiffclust.cuts._ratio_cut import check_graph
from skdiffclust.cuts._starts import Nodes, combine_parts, make_nodes, pseudo_labels
from skdiffclust.cuts._training import (
    CutObjective,
    EncoderModel,
    FreeLogits,
    Settings,
    fit_labels,
    record_epoch,
    train_assignments,
)
from skdiffclust.metrics._graphs import cut_of_labels

# Factors of the step size of free logits and of a linear model.
_FREE_RATE = 30.0
_LINEAR_RATE = 2.0
# balance_weight="auto", without pseudo-labels and with them.
_BALANCE = 10.0
_LABELLED_BALANCE = 1.0
# Least target proportion of a cluster in the balance term, times n_clusters.
_LEAST_PRIOR = 0.02
# A cluster below this share of the mean size causes a warning.
_LEAST_SIZE = 0.01
# What a sample of weight 0 adds to the denominator of a ratio-cut, times their mean.
_LEAST_DIVISOR = 1e-6
# Starts with n_init="auto"; searches so many that all of them see so many edges, which
# takes about half a minute of the processor.
_STARTS = 10
_LEAST_STARTS = 2
_SEARCHED_EDGES = 30_000_000
# Epochs on each batch of a stream after the first, not counting that without a step.
_STREAM_EPOCHS = 10


@dataclass(frozen=True)
class Data:
    """Data of a fit.

    Attributes
    ----------
    rows : ndarray or csr_array of shape (n, d), or None for a precomputed graph
    graph : csr_array of shape (n, n)
    training_graph : csr_array of shape (n, n)
        Graph that an encoder is trained on, with links and labels in its edges.
    groups : ndarray of shape (n,), int64
        Groups of equal samples, and of samples that must be together.
    held : ndarray of shape (n,), bool
        Whether a sample keeps the label that the search found, because a label or link
        of it is given.
    divisors : ndarray of shape (n,) or None
        Divisors of the cut, one for each sample if None.
    nodes : Nodes
        Groups of equal samples as nodes.
    bounds : (float, float)
        Least and largest size of a cluster.
    n_clusters : int
        At most the number of groups.
    asked : int
        Number of clusters that was requested, or chosen.
    curve : (ndarray, ndarray, ndarray) or None
        Numbers of clusters that one was chosen from, and the cut and the modularity of
        each.
    affinity : Affinity or None
    normalized : bool
        Whether the cut is the normalised cut.
    """

    rows: np.ndarray | sp.csr_array | None
    graph: sp.csr_array
    training_graph: sp.csr_array
    groups: np.ndarray
    held: np.ndarray
    divisors: np.ndarray | None
    nodes: Nodes
    bounds: tuple[float, float]
    n_clusters: int
    asked: int
    curve: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    affinity: Affinity | None
    normalized: bool

    def cuts(self, labels):
        """Return the ratio-cut and the normalised cut of labels (n,), without -1."""
        kept = np.flatnonzero(labels >= 0)
        graph = self.graph
        if len(kept) < len(labels):
            graph = graph[kept][:, kept]
            labels = labels[kept]
        return (
            cut_of_labels(graph, labels, self.n_clusters),
            cut_of_labels(graph, labels, self.n_clusters, graph.sum(axis=1)),
        )


def prepare(
    estimator,
    X,
    graph=None,
    sample_weight=None,
    partial_labels=None,
    must_link=None,
    cannot_link=None,
    *,
    random_state=None,
    n_clusters=None,
    reset=True,
):
    """Return the `Data` of what `fit` was given, checked.

    n_clusters is that of the estimator if None; `random_state` is for "auto" only.
    """
    if n_clusters is None:
        n_clusters = estimator.n_clusters
    is_auto = isinstance(n_clusters, str)
    if estimator.small_components == "noise" and estimator.encoder is not None:
        raise ValueError(
            "The 'small_components' parameter of PRCut must be 'place' with an "
            "encoder, which labels every sample. Got 'noise' instead. Set encoder=None."
        )
    if estimator.small_components == "noise" and not has_pseudo_labels(estimator):
        raise ValueError(
            "The 'small_components' parameter of PRCut must be 'place' with "
            "init='random' and local_search=False, which labels every sample. Got "
            "'noise' instead. Set local_search=True."
        )
    if is_precomputed(estimator):
        rows = None
        affinity = None
        graph = _check_precomputed(estimator, X, graph, reset)
        groups = np.arange(graph.shape[0])
    else:
        rows = check_rows(estimator, X, reset=reset)
        refuse_overflow([extreme_rows(rows)])
        refuse_underflow(extreme_rows(rows))
        affinity = make_affinity(estimator)
        graph = affinity.fit(rows) if graph is None else _relate(affinity, graph, rows)
        groups = equal_rows(rows)
    n = graph.shape[0]
    if not is_auto and n_clusters > n:
        raise ValueError(
            "The 'n_clusters' parameter of PRCut must be at most the number of "
            f"samples, n_samples={n}. Got {n_clusters} instead. Use "
            "fewer clusters."
        )
    constraints = as_constraints(n, partial_labels, must_link, cannot_link)
    held = np.zeros(n, dtype=bool)
    training_graph = graph
    apart = np.empty((0, 2), dtype=np.int64)
    if constraints is not None:
        _refuse_constraints_without_search(estimator)
        if not is_auto:
            check_feasible(constraints, n_clusters)
        groups, apart = link_groups(groups, constraints)
        held = ~is_free(constraints)
        if estimator.encoder is not None:
            training_graph = add_constraints(graph, constraints, "PRCut")
    sizes = np.ones(n)
    if sample_weight is not None:
        sizes = _check_weights(sample_weight, graph)
    curve = None
    if is_auto:
        least, _ = bounds_of_clusters(constraints)

        def bounds_of(sizes, n_clusters):
            return _size_bounds(
                estimator, sizes, n_clusters, is_weighted=sample_weight is not None
            )

        curve = cut_curve(graph, groups, apart, least, sizes, bounds_of, random_state)
        n_clusters = choose_n_clusters(*curve)
        check_feasible(constraints, n_clusters)
    asked = n_clusters
    n_used = min(n_clusters, int(groups.max()) + 1)
    if estimator.encoder is None:
        n_clusters = n_used
    if estimator.cut == "normalized":
        divisors = graph.sum(axis=1)
    else:
        # A cluster of samples without weight would have an infinite ratio-cut.
        least = _LEAST_DIVISOR * sizes.mean()
        divisors = None if sample_weight is None else np.where(sizes > 0, sizes, least)
    nodes = make_nodes(
        graph,
        groups,
        n_used,
        divisors=sizes if divisors is None else divisors,
        sizes=sizes,
        apart=apart,
    )
    counted = nodes.sizes
    if estimator.small_components == "noise":
        counted = counted[~nodes.small]  # noise is in no cluster
    bounds = (0.0, np.inf)
    if reset:  # the next samples of a stream are labelled by the encoder alone
        bounds = _find_bounds(
            estimator, counted, n_used, is_weighted=sample_weight is not None
        )
        if has_pseudo_labels(estimator):
            are_whole = combine_parts(nodes, n_used, bounds) is not None
            warn_of_parts(
                nodes, n_used, "PRCut", _placed(estimator), are_whole=are_whole
            )
    return Data(
        rows,
        graph,
        training_graph,
        groups,
        held,
        divisors,
        nodes,
        bounds,
        n_clusters,
        asked,
        curve,
        affinity,
        estimator.cut == "normalized",
    )


def _refuse_constraints_without_search(estimator):
    """Refuse constraints if no labels are moved to satisfy them."""
    if not (has_pseudo_labels(estimator) and estimator.local_search):
        raise ValueError(
            "The 'partial_labels', 'must_link' and 'cannot_link' parameters of "
            "PRCut.fit need local_search=True, which moves samples. Got False "
            "instead."
        )


def check_rows(estimator, X, *, reset):
    """Return samples (n, d), dense, or a canonical csr_array if nothing is trained."""
    if sp.issparse(X) and estimator.encoder is not None:
        raise TypeError(
            "The 'encoder' parameter of PRCut must be None for sparse X. Got "
            f"{estimator.encoder!r} instead, but encoders cannot be trained on sparse "
            "data: use '.toarray()', or reduce the features, e.g. with TruncatedSVD."
        )
    X = validate_rows(estimator, X, reset=reset, accept_sparse="csr")
    return canonical_rows(X) if sp.issparse(X) else X


def _check_weights(sample_weight, graph):
    """Return sample weights (n,) as float64; refuse weights that cannot be sizes."""
    return check_sample_weight(
        sample_weight, graph, dtype=np.float64, ensure_non_negative=True
    )


def _size_bounds(estimator, sizes, n_clusters, *, is_weighted):
    """Return the least and largest size of a cluster of nodes of sizes (m,).

    Below 1, a least size is one of weights.
    """
    mean = sizes.sum() / n_clusters
    least = estimator.min_cluster_size
    imbalance = estimator.max_imbalance
    has_least = least > 1 or (is_weighted and 0 < least < 1)
    low = float(least) if has_least else 0.0
    if imbalance is None:
        return low, np.inf
    smallest = (1.0 - imbalance) * mean
    largest = (1.0 + imbalance) * mean
    if sizes.min() == sizes.max() > 0:
        # Round to multiples of the size that all nodes have.
        whole = sizes.max()
        smallest = min(smallest, np.floor(mean / whole) * whole)
        largest = max(largest, np.ceil(mean / whole) * whole)
    return max(low, smallest), largest


def _find_bounds(estimator, sizes, n_clusters, *, is_weighted):
    """Return the same as `_size_bounds`; refuse bounds that cannot be satisfied."""
    low, high = _size_bounds(estimator, sizes, n_clusters, is_weighted=is_weighted)
    if (low, high) == (0.0, np.inf):
        return low, high
    if not (has_pseudo_labels(estimator) and estimator.local_search):
        raise ValueError(
            "The 'min_cluster_size' and 'max_imbalance' parameters of PRCut need "
            "local_search=True, which moves samples. Got local_search=False instead."
        )
    mean = sizes.sum() / n_clusters
    if low > mean:
        raise ValueError(
            "The 'min_cluster_size' parameter of PRCut must be at most the mean "
            f"size of a cluster, {mean:.6g}. Got {estimator.min_cluster_size} instead. "
            "Lower it, or ask for fewer clusters."
        )
    if sizes.max() > high:
        raise ValueError(
            "The 'max_imbalance' parameter of PRCut must leave room for the heaviest "
            f"group of equal samples, of size {sizes.max():.6g}, in a cluster of at "
            f"most {high:.6g}. Got {estimator.max_imbalance} instead. Raise it, or use "
            "fewer clusters."
        )
    return low, high


def _placed(estimator):
    """Return the sentence of a warning on small parts and how to change that."""
    if estimator.small_components == "noise":
        return "They are labelled -1. Set small_components='place' to give them labels."
    where = (
        "the largest cluster"
        if is_precomputed(estimator)
        else "the cluster of the nearest sample"
    )
    return (
        f"They were put into {where}. Drop them, give them edges, or label them -1 by "
        "small_components='noise' (with encoder=None)."
    )


def has_pseudo_labels(estimator):
    """Whether pseudo-labels are used at all."""
    return estimator.init != "random" or estimator.local_search


def make_affinity(estimator):
    """Return the `Affinity` of the parameters of an estimator."""
    kind = estimator.affinity
    metric = estimator.metric
    if isinstance(kind, str) and kind == "nndescent":
        kind = nndescent(estimator)
    if not isinstance(kind, str) or kind in ("rbf", "cosine"):
        metric = "euclidean"  # unused, or the transformer has its own
    return Affinity(kind, estimator.n_neighbors, metric, estimator.temperature, "PRCut")


def _check_precomputed(estimator, X, graph, reset):
    """Return X as the graph (n, n), and refuse what needs samples."""
    if graph is not None:
        raise ValueError(
            "The 'graph' parameter of PRCut.fit must be None with "
            "affinity='precomputed', where X is the graph. Pass it once."
        )
    if estimator.encoder is not None:
        raise ValueError(
            "The 'encoder' parameter of PRCut must be None with affinity="
            f"'precomputed'. Got {estimator.encoder!r} instead, which needs samples: "
            "pass them as X, and the graph as fit(X, graph=graph)."
        )
    if estimator.init == "k-means++":
        raise ValueError(
            "The 'init' parameter of PRCut must be 'auto', 'spectral' or 'random' with "
            "affinity='precomputed'. Got 'k-means++' instead, which needs samples."
        )
    X = validate_rows(estimator, X, reset=reset, accept_sparse="csr")
    return check_graph(X, caller="PRCut", name="X")


def _relate(affinity, graph, rows):
    """Return the graph (n, n) that was passed with samples (n, d), checked."""
    graph = check_graph(graph, caller="PRCut")
    if graph.shape[0] != rows.shape[0]:
        raise ValueError(
            "The 'graph' parameter of PRCut.fit must have one vertex for each sample "
            f"of X, {rows.shape[0]}. Got {graph.shape[0]} instead."
        )
    affinity.relate(rows, graph)
    return graph


def is_precomputed(estimator):
    """Whether X is the graph."""
    return isinstance(estimator.affinity, str) and estimator.affinity == "precomputed"


def find_device(estimator):
    """Return the name of the device to train on; torch is imported only if needed."""
    if callable(estimator.encoder):
        require_torch("PRCut with a module as encoder")
    if estimator.encoder is None and estimator.device == "auto":
        return "cpu"
    return resolve_device(estimator.device, "PRCut")


def free_target(estimator, data, random_state):
    """Return pseudo-labels (n,) to fit an encoder to, or None if there are none."""
    if not has_pseudo_labels(estimator):
        return None
    n_used = min(data.n_clusters, int(data.groups.max()) + 1)
    return pseudo_labels(
        data,
        None if data.rows is None else data.affinity.points,
        n_used,
        place=estimator.small_components == "place",
        init="random" if estimator.init == "auto" else estimator.init,
        local_search=estimator.local_search,
        n_init=count_starts(estimator, data.graph),
        random_state=random_state,
    )


def count_starts(estimator, graph):
    """Return how many starts n_init says for a graph (n, n)."""
    if estimator.n_init != "auto":
        return estimator.n_init
    if estimator.init in ("spectral", "k-means++") or not estimator.local_search:
        return _STARTS
    n_edges = max(graph.nnz // 2, 1)
    return int(np.clip(_SEARCHED_EDGES // n_edges, _LEAST_STARTS, _STARTS))


class FreeRun:
    """Pseudo-labels without any training."""

    def __init__(self, estimator, data, target, random_state):
        self.data = data
        self.target = target

    def run(self, loop):
        """Record the labels as the only epoch."""
        n_clusters = self.data.n_clusters
        for _ in loop:
            record_epoch(
                loop,
                self.data.graph,
                # Noise is counted in the first cluster, for the curve only.
                np.eye(n_clusters)[np.maximum(self.target, 0)],
                divisors=self.data.divisors,
                state=lambda: self.target,
                attributes=lambda: self.attributes(self.target),
            )
            loop.stop("converged")

    def attributes(self, state):
        """Return the attributes that predict needs, and the labels."""
        return graph_attributes(self.data, state)


class FreeTraining:
    """Free logits, trained on the whole graph at once."""

    def __init__(self, estimator, data, target, random_state):
        self.data = data
        self.random_state = random_state
        n = data.graph.shape[0]
        settings = make_settings(estimator, rate=_FREE_RATE, batch_size=n)
        prior = np.full(data.n_clusters, 1.0 / data.n_clusters)
        self.objective = CutObjective(data.graph, settings, prior, data.divisors)
        self.model = FreeLogits(n, data.n_clusters, random_state)
        self.X = np.arange(n)[:, None]

    def run(self, loop):
        """Run the epochs of a restart."""

        def close(loop, assignments, **columns):
            record_epoch(
                loop,
                self.data.graph,
                assignments,
                divisors=self.data.divisors,
                state=self.model.state,
                attributes=lambda: self.attributes(self.model.state()),
                **columns,
            )

        train_assignments(
            loop, self.model, self.X, self.objective, self.random_state, close
        )

    def attributes(self, state):
        """Return the attributes that predict needs, and the labels."""
        n_groups = int(self.data.groups.max()) + 1
        # Equal samples have one label: that of their mean logits.
        means = np.zeros((n_groups, state.shape[1]))
        np.add.at(means, self.data.groups, state)
        return graph_attributes(self.data, means.argmax(axis=1)[self.data.groups])


class EncoderTraining:
    """An encoder, fitted to pseudo-labels if there are any, then trained on the cut."""

    def __init__(self, estimator, data, target, random_state, max_iter=None):
        self.data = data
        self.target = target
        self.random_state = random_state
        linear = estimator.encoder == "linear"
        rate = _LINEAR_RATE if linear else 1.0
        self.settings = make_settings(
            estimator, rate=rate, max_iter=max_iter, labelled=target is not None
        )
        n_clusters = data.n_clusters
        prior = np.full(n_clusters, 1.0 / n_clusters)
        if target is not None:
            prior = np.bincount(target, data.divisors, minlength=n_clusters)
            prior = prior / (prior.sum() or 1.0)
            prior = np.maximum(prior, _LEAST_PRIOR / n_clusters)
        self.objective = CutObjective(
            data.training_graph, self.settings, prior / prior.sum(), data.divisors
        )
        self.weight_decay = estimator.weight_decay
        self.device = find_device(estimator)
        self.activation = estimator.activation
        self.linear = linear
        self.columns = np.arange(n_clusters)
        if callable(estimator.encoder):
            self._copy_module(estimator.encoder)
        else:
            self.scaling = make_scaling(data.rows)
            self.X = self.scaling(data.rows)
            sizes = layer_sizes(estimator, data.rows.shape[1], n_clusters)
            encoder = Encoder.with_random_weights(
                sizes, random_state, data.rows.dtype, activation=self.activation
            )
            self._set_encoder(encoder)

    def _copy_module(self, encoder):
        """Train a copy of the user's module, on unscaled samples."""
        from skdiffclust._torch import own_module
        from skdiffclust.cuts._torch import ModuleModel

        self.scaling = None
        self.X = self.data.rows
        self.module = own_module(
            encoder, "'encoder' parameter of PRCut", "'mlp', 'linear', None"
        )
        self.model = ModuleModel(
            self.module, self.data.n_clusters, self.weight_decay, self.device
        )
        self.model.logits(self.X)  # refuses outputs of another width, values too large

    def _set_encoder(self, encoder):
        """Train a copy of an encoder, in NumPy or, off the CPU, in torch."""
        self.module = None
        if self.device == "cpu":
            self.model = EncoderModel(encoder, self.weight_decay)
            return
        from skdiffclust._torch import encoder_module
        from skdiffclust.cuts._torch import ModuleModel

        self.module = encoder_module(encoder)
        self.model = ModuleModel(
            self.module, self.data.n_clusters, self.weight_decay, self.device
        )

    def run(self, loop, checkpoint=None):
        """Fit the pseudo-labels, then run the epochs, or continue from a checkpoint."""
        resumed = checkpoint is not None and checkpoint.load(loop)
        if self.target is not None and not resumed:
            fit_labels(
                self.model,
                self.X,
                self.target,
                self.settings,
                self.random_state,
                moving=not self.linear,
                free=np.flatnonzero(~self.data.held),
            )
            if self.linear and not self._has_target():
                # Without the target, the cut of the labels rises before it falls.
                loop.n_iter_no_change = None

        def close(loop, assignments, **columns):
            record_epoch(
                loop,
                self.data.graph,
                assignments,
                divisors=self.data.divisors,
                state=self.model.state,
                attributes=lambda: self.attributes(self.model.state()),
                **columns,
            )
            if checkpoint is not None:
                checkpoint.save(loop)

        train_assignments(
            loop, self.model, self.X, self.objective, self.random_state, close
        )

    def _has_target(self):
        """Whether the labels of the model are those that it was fitted to."""
        return np.array_equal(self.model.logits(self.X).argmax(axis=1), self.target)

    def attributes(self, state):
        """Return the attributes that predict needs, and the labels, ordered by size."""
        rows = self.data.rows
        n_clusters = self.data.n_clusters
        labels = self._predictor(state, np.arange(n_clusters)).labels(rows)
        if self.data.held.any():
            labels = np.where(self.data.held, self.target, labels)
        order = order_by_size(labels, n_clusters)
        predictor = self._predictor(state, order)
        return self._attributes(predictor, np.argsort(order)[labels])

    def attributes_of_stream(self, state):
        """Return the same without changing the order of the clusters."""
        predictor = self._predictor(state, self.columns)
        attributes = self._attributes(predictor, predictor.labels(self.data.rows))
        sizes = np.bincount(attributes["labels_"], minlength=len(self.columns))
        return attributes | {"cluster_sizes_": sizes}

    def _attributes(self, predictor, labels):
        """Return the attributes of labels (n,), with the state of a stream."""
        rows = self.data.rows
        attributes = row_attributes(self.data, predictor, labels)
        shares = self.objective.shares
        assignments = predictor.assignments(rows)
        attributes["_proportions"] = shares @ assignments / len(shares)
        return attributes

    def take_over(self, predictor, proportions):
        """Continue from a fitted predictor and the proportions (k,) of a stream."""
        self.scaling = predictor.scaling
        if self.scaling is None:
            self.columns = predictor.encoder.columns
            self.model.load(predictor.encoder.state())
            # The outputs of the module are in the order that it gave them.
            proportions = proportions[np.argsort(self.columns)]
        else:
            self.X = self.scaling(self.data.rows)
            self.activation = predictor.encoder.activation
            self._set_encoder(predictor.encoder)
        self.objective.past = proportions
        prior = np.maximum(proportions, _LEAST_PRIOR / len(proportions))
        self.objective.prior = prior / prior.sum()

    def _predictor(self, state, order):
        """Return the predictor whose cluster p is the output column order[p]."""
        if self.scaling is None:
            from skdiffclust._torch import module_on_cpu

            module = module_on_cpu(self.module, state)
            return EncoderPredictor(ModuleEncoder(module, order), None)
        if self.module is None:
            encoder = Encoder.from_arrays(list(state.values()), self.activation)
        else:
            from skdiffclust._torch import module_encoder, module_on_cpu

            module = module_on_cpu(self.module, state)
            encoder = module_encoder(module, self.activation)
        return EncoderPredictor(encoder.permute_outputs(order), self.scaling)


def continue_training(estimator, data, random_state):
    """Return the attributes after some epochs on the samples of a stream."""
    _check_stream(estimator)
    n_epochs = 1 + _STREAM_EPOCHS  # the first takes no step
    run = EncoderTraining(estimator, data, None, random_state, max_iter=n_epochs)
    run.take_over(estimator._predictor, estimator._proportions)
    loop = EpochLoop(
        estimator,
        max_iter=n_epochs,
        learning_rate=estimator.learning_rate,
        history=estimator.history_,
    )
    run.run(loop)
    attributes = run.attributes_of_stream(loop.best_state)
    past = estimator._proportions + estimator.averaging_rate * (
        attributes["_proportions"] - estimator._proportions
    )
    return attributes | {
        "_proportions": past,
        "history_": loop.history,
        "n_iter_": estimator.n_iter_ + loop.n_iter,
    }


def _check_stream(estimator):
    """Refuse to continue with another kind of encoder, or number of clusters."""
    begun = estimator._proportions
    if (
        begun is None
        or estimator.n_clusters not in (len(begun), "auto")
        or (estimator._predictor.scaling is None) != callable(estimator.encoder)
    ):
        raise ValueError(
            "The 'n_clusters' and 'encoder' parameters of PRCut must be those of the "
            f"first call of partial_fit. Got {estimator.n_clusters} and "
            f"{estimator.encoder!r} instead. Call fit to start again."
        )


def make_settings(
    estimator, *, rate=1.0, batch_size=None, max_iter=None, labelled=False
):
    """Return the `Settings` of an estimator's parameters, with pseudo-labels or not."""
    balance_weight = estimator.balance_weight
    if balance_weight == "auto":
        balance_weight = _LABELLED_BALANCE if labelled else _BALANCE
    return Settings(
        objective=estimator.objective if estimator.sampling == "full" else "bound",
        sampling=estimator.sampling,
        balance_weight=balance_weight,
        averaging_rate=estimator.averaging_rate,
        max_iter=estimator.max_iter if max_iter is None else max_iter,
        batch_size=estimator.batch_size if batch_size is None else batch_size,
        learning_rate=rate * estimator.learning_rate,
    )


def make_scaling(rows):
    """Return the `Scaling` of samples (n, d)."""
    means = column_means(rows)
    gaps = rows - means
    spread = np.sqrt(np.mean(np.square(gaps, out=gaps)))
    return Scaling(means, float(spread) if spread > 0 else 1.0, rows.dtype.type)


def layer_sizes(estimator, n_features, n_clusters):
    """Return the widths of all layers of a named encoder."""
    hidden = hidden_widths(estimator)
    if estimator.encoder == "linear":
        hidden = []
    return [n_features, *hidden, n_clusters]


def graph_attributes(data, labels):
    """Return the attributes of pseudo-labels (n,), numbered by size."""
    kept = labels >= 0
    labels = np.where(kept, labels, -1)
    labels[kept] = relabel_by_size(labels[kept])[0]
    predictor = None
    if data.affinity is not None:
        n_used = int(labels.max()) + 1
        predictor = GraphPredictor(
            data.affinity,
            data.graph,
            labels,
            n_used,
            divisors=data.divisors,
            normalized=data.normalized,
        )
    return row_attributes(data, predictor, labels) | {"_proportions": None}


def row_attributes(data, predictor, labels):
    """Return the fitted attributes of labels (n,) and of their predictor."""
    sizes = np.bincount(labels[labels >= 0])
    ratio_cut, normalized_cut = data.cuts(labels)
    return {
        "_predictor": predictor,
        "labels_": labels,
        "n_clusters_": int(np.count_nonzero(sizes)),
        "cluster_sizes_": sizes,
        "affinity_matrix_": data.graph,
        "ratio_cut_": ratio_cut,
        "normalized_cut_": normalized_cut,
    }


def warn_if_fewer(n_clusters, n_found, n_distinct):
    """Warn of clusters that were not found."""
    if n_found == n_clusters:
        return
    reason = (
        f"the samples have no more than {n_distinct} distinct values, and equal "
        "samples always share a cluster. Use fewer clusters"
        if n_distinct < n_clusters
        else "the others emptied in training. Raise balance_weight or n_init, or "
        "lower learning_rate"
    )
    warnings.warn(
        f"PRCut found {n_found} clusters instead of {n_clusters}: {reason}.",
        ConvergenceWarning,
        stacklevel=4,
    )


def warn_if_small(estimator, n_clusters, sizes):
    """Warn of clusters (sizes (k,)) below 1 % of the mean size, but not empty."""
    sizes = sizes[sizes > 0]
    least = _LEAST_SIZE * sizes.sum() / n_clusters
    small = sizes[sizes < least]
    if not len(small):
        return
    warnings.warn(
        f"{len(small)} of {len(sizes)} clusters of PRCut are below 1 % of the mean "
        f"size (the smallest is {small.min():g}, 1 % is {least:.3g}): they contribute "
        "little to the cut. Set min_cluster_size or max_imbalance, "
        + ("cut='normalized', " if estimator.cut == "ratio" else "")
        + "a larger n_neighbors, or fewer clusters.",
        ConvergenceWarning,
        stacklevel=4,
    )


def warn_if_unbounded(estimator, data, labels):
    """Warn of labels (n,) whose clusters are outside of the bounds on their sizes."""
    low, high = data.bounds
    if (low, high) == (0.0, np.inf):
        return
    groups = data.groups
    n_groups = len(data.nodes.sizes)
    # All samples of a group of equal ones have one label.
    of_nodes = np.empty(n_groups, dtype=np.int64)
    of_nodes[groups] = labels
    kept = of_nodes >= 0
    totals = np.bincount(of_nodes[kept], data.nodes.sizes[kept], minlength=data.asked)
    slack = 1e-9 * totals.sum()
    if totals.min() >= low - slack and totals.max() <= high + slack:
        return
    reason = (
        "the weights of samples, or groups of equal ones, did not fit. Loosen "
        "max_imbalance or min_cluster_size"
        if estimator.encoder is None
        else "the encoder does not follow the pseudo-labels, which are within. Set "
        "encoder=None"
    )
    warnings.warn(
        f"Clusters of PRCut have sizes from {totals.min():.6g} to {totals.max():.6g}, "
        f"where the bounds are {low:.6g} and {high:.6g}: {reason}.",
        ConvergenceWarning,
        stacklevel=4,
    )


def warn_if_joined(data, labels):
    """Warn of labels (n,) that do not separate what must be separated."""
    of_nodes = np.empty(len(data.nodes.sizes), dtype=np.int64)
    of_nodes[data.groups] = labels
    ends = of_nodes[data.nodes.apart]
    n_joined = int(np.count_nonzero(ends[:, 0] == ends[:, 1]))
    if not n_joined:
        return
    warnings.warn(
        f"The labels of PRCut leave {n_joined} of {len(ends)} pairs of linked groups "
        "together that must be separated: no partition was found that separates them "
        "all. Use more clusters, or drop some of the cannot-links.",
        ConvergenceWarning,
        stacklevel=4,
    )


def torch_streams(estimator, device, random_state):
    """Return a context that seeds torch's own random streams, and restores them."""
    if not callable(estimator.encoder):
        return nullcontext()
    from skdiffclust._torch import isolated_streams

    return isolated_streams(random_state, device)


def refuse_checkpoint(estimator, target):
    """Refuse a checkpoint if nothing would be written, or not enough to resume."""
    if estimator.encoder is None:
        raise ValueError(
            "The 'checkpoint' parameter of PRCut.fit must be None with encoder=None, "
            "which trains nothing. Leave it out: a search takes seconds."
        )
    if target is None:
        raise ValueError(
            "The 'checkpoint' parameter of PRCut.fit must be None with init='random' "
            "and local_search=False, which trains several restarts. Set "
            "local_search=True, or leave it out."
        )


def choose_run(estimator, target):
    """Return the class that runs a restart."""
    if estimator.encoder is not None:
        return EncoderTraining
    return FreeTraining if target is None else FreeRun
