"""Which features are hidden from which rows of a batch."""

import numpy as np


def hidden_blocks(n_features, mask_probability):
    """Return the sizes of the blocks of features that are hidden, in turn.

    Each of the ``round(1 / mask_probability)`` first groups of a batch has one block
    hidden, so that among their rows every feature is hidden equally often. As many
    groups again have nothing hidden and are recalled whole (eq. 8), as in two of three
    epochs of the published code: masked rows alone lose to k-means where features do
    not predict each other. A single feature is never hidden.
    """
    n_groups = max(2, round(1.0 / mask_probability))
    blocks = np.full(n_groups, n_features // n_groups, dtype=np.int64)
    blocks[: n_features % n_groups] += 1
    if n_features == 1:
        blocks[:] = 0
    return np.append(blocks, np.zeros(n_groups, dtype=np.int64))


def mask_groups(n_rows, n_features, mask_probability, random_state):
    """Return an order of the features (d,) and groups (rows, features) of slices.

    The rows of a batch come in random order already; with fewer rows than blocks
    random blocks are used.
    """
    order = random_state.permutation(n_features)
    sizes = hidden_blocks(n_features, mask_probability)
    stops = np.cumsum(sizes)
    blocks = random_state.permutation(len(sizes))
    edges = np.linspace(0, n_rows, len(sizes) + 1).round().astype(np.int64)
    groups = []
    whole = []
    for block, first, last in zip(blocks, edges[:-1], edges[1:], strict=True):
        features = slice(int(stops[block] - sizes[block]), int(stops[block]))
        if first == last:
            continue
        rows = slice(int(first), int(last))
        (groups if sizes[block] else whole).append((rows, features))
    return order, groups + _joined(whole)


def _joined(groups):
    """Join neighbouring groups of rows that have nothing hidden."""
    joined = []
    for rows, features in groups:
        if joined and joined[-1][0].stop == rows.start:
            rows = slice(joined.pop()[0].start, rows.stop)
        joined.append((rows, features))
    return joined
