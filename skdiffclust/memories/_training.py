"""Pattern-completion loss of the memories with an explicit gradient, in Gram form.

Write R for the memories of one restart and U for the features hidden from a group of
rows. Seen features never move, so eq. (4) needs from the rows only ``S = R X^T`` over
the seen and over the hidden features, and from the memories ``K = R_U R_U^T``:

    logits = beta (2 S_seen + 2 s - |R|^2) + log weights
    s      = (1 - step) s + step K softmax(logits)

Both passes are in n_clusters dimensions (`_recursion`); only S and its gradient ``dR =
dS X`` involve n_features, whatever the number of steps. All restarts share the rows
and the masks, so that S is one product for all of them, and groups of rows are stacked.
A row that is recalled whole is one whose features are all hidden, and start from
themselves.
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from skdiffclust._kmeans import squared_lengths
from skdiffclust.memories._dynamics import Completion
from skdiffclust.memories._recursion import (
    SphereStart,
    attraction,
    euclidean_backward,
    euclidean_steps,
    medians,
    sphere_backward,
    sphere_steps,
)

_STACK_ENTRIES = 2**14  # arrays that stay in the cache of a core


def completion_with_gradient(
    X, memories, log_weights, dynamics, *, groups, fill, sample_weight
):
    """Return the `Completion` of eq. (9) and eq. (8) on a batch.

    X (b, d) and memories (r, k, d) in one floating dtype; log_weights (r, k), fill
    (d,), sample_weight (b,). `groups` are (rows slice, features slice) pairs: those
    rows have those features hidden, filled, and scored; an empty features slice means
    that the rows are recalled whole and all of their features are scored (eq. 8).
    X may be CSR if nothing is hidden. Cosine takes rows of unit length. Cost 4 b r k d,
    and 6 T k^2 for each row.
    """
    if dynamics.metric == "manhattan":
        return _by_city_blocks(
            X, memories, log_weights, dynamics, groups, fill, sample_weight
        )
    if dynamics.metric == "euclidean":
        batch = _Batch(X, memories, fill, sample_weight)
        run = _by_squares
    else:
        lengths = np.sqrt(np.einsum("rkd,rkd->rk", memories, memories))
        lengths = np.maximum(lengths, np.finfo(X.dtype).tiny)[:, :, None]
        batch = _Batch(X, memories / lengths, fill, sample_weight)
        run = _by_cosines
    bias = log_weights[:, :, None] if log_weights.any() else None
    for parts in _stacks(groups, log_weights.size):
        stack = batch.stack(parts)
        batch.add(parts, stack, run(stack, bias, dynamics))
    gradient = batch.by_memories()
    if dynamics.metric == "cosine":
        directions = batch.memories
        radial = np.einsum("rkd,rkd->rk", gradient, directions)
        gradient = (gradient - radial[:, :, None] * directions) / lengths
    return Completion(
        batch.loss,
        gradient.astype(X.dtype, copy=False),
        batch.by_bias,
        batch.attracted,
        batch.n_scored,
    )


def _stacks(groups, n_memories):
    """Yield lists of groups that are processed together, of similar numbers of rows."""
    most = max(1, _STACK_ENTRIES // n_memories)
    sizes = [rows.stop - rows.start for rows, features in groups if features.stop]
    width = min(max(sizes), most) if sizes else most
    parts = [
        (slice(start, min(start + width, rows.stop)), features)
        for rows, features in groups
        for start in range(rows.start, rows.stop, width)
    ]
    n_parts = max(1, most // width)
    for first in range(0, len(parts), n_parts):
        yield parts[first : first + n_parts]


class _Stack(NamedTuple):
    """Groups of rows as the recursion takes them, filled up with rows of no weight."""

    known: np.ndarray  # (g, r, k, b) products of seen features and memories
    first: np.ndarray  # (g, r, k, b) those of the start of hidden features
    target: np.ndarray  # (g, r, k, b) those of their true values
    gram: np.ndarray  # (g, r, k, k) those of memories in hidden features
    norms: np.ndarray  # (r, k, 1) squared lengths of the memories
    weight: np.ndarray  # (g, 1, 1, b)
    seen: np.ndarray  # (g, 1, 1, b) squared length of seen features
    hidden: np.ndarray  # (g, 1, 1, b) that of hidden ones, true values,
    filled: np.ndarray  # (g, 1, 1, b) that of their start,
    crossed: np.ndarray  # (g, 1, 1, b) and the product of both


class _Found(NamedTuple):
    """Errors of a stack, and gradients by its parts."""

    error: np.ndarray  # (g, r, 1, b)
    share: np.ndarray  # (g, r, k, b) largest for the memory that attracts a row
    by_known: np.ndarray
    by_first: np.ndarray
    by_target: np.ndarray
    by_logits: np.ndarray
    by_gram: np.ndarray
    by_norms: np.ndarray  # (r, k, 1)


class _Batch:
    """Rows and memories; what they have in common, and the gradients by it."""

    def __init__(self, X, memories, fill, weight):
        r, k, _ = memories.shape
        self._X = X
        self._fill = fill
        self._weight = weight
        self._narrow = memories
        self.memories = memories.astype(np.float64, copy=False)
        self._products = self._product(slice(None), slice(None))
        self._squares = squared_lengths(X)
        self._norms = np.square(self.memories).sum(axis=-1)[:, :, None]
        self._whole_gram = self.memories @ self.memories.swapaxes(1, 2)
        self._by_products = np.zeros(self._products.shape)
        self._by_whole_gram = np.zeros(self._whole_gram.shape)
        self._by_norms = np.zeros(self._norms.shape)
        self._gradient = np.zeros(memories.shape)
        self.loss = np.zeros(r)
        self.by_bias = np.zeros((r, k))
        self.attracted = np.zeros((r, k))
        self.n_scored = 0.0

    def _product(self, rows, features):
        """Return products (r, k, b), float64, of memories and rows."""
        memories = self._narrow[:, :, features]
        r, k, d = memories.shape
        # One product for the memories of all restarts, so that X is read once.
        products = self._X[rows, features] @ memories.reshape(r * k, d).T
        return np.ascontiguousarray(products.T, dtype=np.float64).reshape(r, k, -1)

    def _pull(self, by_products, rows, features):
        """Add the gradient by the memories of `_product`."""
        r, k, _ = by_products.shape
        flat = by_products.reshape(r * k, -1).astype(self._X.dtype, copy=False)
        found = flat @ self._X[rows, features]
        self._gradient[:, :, features] += found.reshape(r, k, -1)

    def stack(self, parts):
        """Return the `_Stack` of groups (rows slice, features slice)."""
        r, k, _ = self._products.shape
        shape = len(parts), r, k, max(rows.stop - rows.start for rows, _ in parts)
        known, first, target = (np.zeros(shape) for _ in range(3))
        gram = np.empty((len(parts), r, k, k))
        numbers = np.zeros((5, len(parts), 1, 1, shape[-1]))
        weight, seen, hidden, filled, crossed = numbers
        for i, (rows, features) in enumerate(parts):
            m = rows.stop - rows.start
            weight[i, 0, 0, :m] = self._weight[rows]
            whole = self._products[:, :, rows]
            if features.start == features.stop:
                first[i, :, :, :m] = target[i, :, :, :m] = whole
                gram[i] = self._whole_gram
                for square in (hidden, filled, crossed):
                    square[i, 0, 0, :m] = self._squares[rows]
                continue
            target[i, :, :, :m] = self._product(rows, features)
            known[i, :, :, :m] = whole - target[i, :, :, :m]
            memories = self.memories[:, :, features]
            first[i] = (memories @ self._fill[features])[:, :, None]
            gram[i] = memories @ memories.swapaxes(1, 2)
            part = self._X[rows, features]
            hidden[i, 0, 0, :m] = squared_lengths(part)
            rest = self._squares[rows] - hidden[i, 0, 0, :m]
            seen[i, 0, 0, :m] = np.maximum(rest, 0.0)
            filled[i] = self._fill[features] @ self._fill[features]
            crossed[i, 0, 0, :m] = part @ self._fill[features]
        return _Stack(known, first, target, gram, self._norms, *numbers)

    def add(self, parts, stack, found):
        """Add the errors and gradients of a stack of groups."""
        weight = stack.weight
        self.loss += (found.error * weight).sum(axis=(0, 2, 3))
        self.by_bias += found.by_logits.sum(axis=(0, 3))
        self._by_norms += found.by_norms
        best = found.share.argmax(axis=2)
        for m in range(self.attracted.shape[1]):
            self.attracted[:, m] += ((best == m) * weight[:, 0]).sum(axis=(0, 2))
        for i, (rows, features) in enumerate(parts):
            part = np.s_[i, :, :, : rows.stop - rows.start]
            total = float(weight[i].sum())
            if features.start == features.stop:
                self._by_products[:, :, rows] = (
                    found.by_first[part] + found.by_target[part]
                )
                self._by_whole_gram += found.by_gram[i]
                self.n_scored += total * self._X.shape[1]
                continue
            self.n_scored += total * (features.stop - features.start)
            self._by_products[:, :, rows] = found.by_known[part]
            self._pull(found.by_target[part] - found.by_known[part], rows, features)
            by_first = found.by_first[i].sum(axis=-1)[:, :, None]
            self._gradient[:, :, features] += by_first * self._fill[features]
            both = found.by_gram[i] + found.by_gram[i].swapaxes(1, 2)
            self._gradient[:, :, features] += both @ self.memories[:, :, features]

    def by_memories(self):
        """Return the gradient (r, k, d) by the memories."""
        self._pull(self._by_products, slice(None), slice(None))
        both = self._by_whole_gram + self._by_whole_gram.swapaxes(1, 2)
        self._gradient += both @ self.memories
        self._gradient += 2.0 * self._by_norms * self.memories
        return self._gradient


def _by_squares(stack, bias, dynamics):
    """Return the `_Found` of squared Euclidean distances."""
    weight = stack.weight
    target = stack.target
    steps = euclidean_steps(
        stack.known, stack.first, stack.gram, stack.norms, bias, dynamics
    )
    left = (1.0 - dynamics.step_size) ** dynamics.n_steps
    gap = steps.products - target
    change = steps.pull * (gap - target + left * stack.first)
    error = stack.hidden - 2.0 * left * stack.crossed + left**2 * stack.filled
    error = error + change.sum(axis=2, keepdims=True)
    pull = weight * steps.pull
    by_first, by_logits, by_gram = euclidean_backward(
        steps, 2.0 * weight * gap, stack.gram, dynamics
    )
    by_gram += pull @ steps.pull.swapaxes(2, 3)
    by_first += 2.0 * left * pull
    beta = dynamics.inverse_temperature
    by_norms = -beta * by_logits.sum(axis=(0, 3))[:, :, None]
    return _Found(
        error,
        steps.pull,
        2.0 * beta * by_logits,
        by_first,
        -2.0 * pull,
        by_logits,
        by_gram,
        by_norms,
    )


def _by_cosines(stack, bias, dynamics):
    """Return the `_Found` of cosines, of rows and memories of unit length."""
    length = stack.seen + stack.filled
    is_row = length > 0
    scale = is_row / np.sqrt(np.where(is_row, length, 1.0))
    start = SphereStart(
        stack.known,
        scale * stack.first,
        stack.target,
        scale,
        scale * stack.crossed,
        1.0 * is_row,
    )
    steps, size = sphere_steps(start, stack.gram, bias, dynamics)
    _, aim, seen = steps[-1].after
    error = stack.hidden + size - np.square(seen) * stack.seen - 2.0 * aim
    by_seen = -2.0 * stack.weight * seen * stack.seen
    by_known, by_first, by_target, by_logits, by_gram = sphere_backward(
        start, steps, -2.0 * stack.weight, by_seen, stack.gram, dynamics
    )
    return _Found(
        error,
        steps[-1].share,
        by_known,
        scale * by_first,
        by_target,
        by_logits,
        by_gram,
        0.0,
    )


def _by_city_blocks(X, memories, log_weights, dynamics, groups, fill, sample_weight):
    """Return the `Completion` by city-block distances (the objective of B.8).

    The gradient is that of the chosen medians, which is exact except where a choice
    changes.
    """
    r, k, d = memories.shape
    gradient = np.zeros((r, k, d))
    loss = np.zeros(r)
    attracted = np.zeros((r, k))
    n_scored = 0.0
    step = dynamics.step_size
    beta = dynamics.inverse_temperature
    for rows, features in groups:
        is_plain = features.start == features.stop
        moving = np.arange(d) if is_plain else np.arange(d)[features]
        weight = sample_weight[rows]
        part = X[rows].astype(np.float64)
        for i, places in enumerate(memories.astype(np.float64)):
            row = part.copy()
            if not is_plain:
                row[:, moving] = fill[moving]
            chosen = []
            for _ in range(dynamics.n_steps):
                near = -cdist(places, row, "cityblock")
                share = attraction(near, log_weights[i][:, None], beta)
                chosen.append(medians(share, places[:, moving]))
                row[:, moving] += step * (places[chosen[-1], moving] - row[:, moving])
            attracted[i] += np.bincount(share.argmax(axis=0), weight, minlength=k)
            error = row[:, moving] - part[:, moving]
            loss[i] += weight @ np.abs(error).sum(axis=1)
            pull = step * weight[:, None] * np.sign(error)
            for median in reversed(chosen):
                where = (median * d + moving).ravel()
                flat = np.bincount(where, pull.ravel(), minlength=k * d)
                gradient[i] += flat.reshape(k, d)
                pull *= 1.0 - step
        n_scored += float(weight.sum()) * len(moving)
    return Completion(
        loss, gradient.astype(X.dtype), np.zeros((r, k)), attracted, n_scored
    )
