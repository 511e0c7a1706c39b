"""Which features of which samples of a batch are hidden.

Separate from the descent, so that the shares of features can be tested alone.
"""

import numpy as np


def hidden_blocks(n_features, mask_probability):
    """Return the sizes of the blocks of features that are hidden, in turn.

    Each of the ``round(1 / mask_probability)`` first groups of a batch has one block
    hidden, so that among their samples every feature is hidden equally often. As many
    groups again have nothing hidden and are recalled whole (eq. 8), as in two of three
    epochs of the published code: training on masked samples only is worse than k-means
    if features do not predict each other. A single feature is never hidden.
    """
    n_groups = max(2, round(1.0 / mask_probability))
    blocks = np.full(n_groups, n_features // n_groups, dtype=np.int64)
    blocks[: n_features % n_groups] += 1
    if n_features == 1:
        blocks[:] = 0
    return np.append(blocks, np.zeros(n_groups, dtype=np.int64))


def mask_groups(n_rows, n_features, mask_probability, random_state):
    """Return an order of the features (d,) and groups (rows, features) of slices.

    The samples of a batch are in random order already. With fewer samples than blocks
    random blocks are used.
    """
    order = random_state.permutation(n_features)
    sizes = hidden_blocks(n_features, mask_probability)
    stops = np.cumsum(sizes).tolist()
    blocks = np.flatnonzero(sizes)
    whole = int(round(n_rows * (1.0 - len(blocks) / len(sizes))))
    groups = [(slice(0, whole), slice(0, 0))] if whole else []
    edges = np.linspace(whole, n_rows, len(blocks) + 1).round().astype(int).tolist()
    for i, block in enumerate(random_state.permutation(blocks)):
        if edges[i] < edges[i + 1]:
            features = slice(stops[block] - int(sizes[block]), stops[block])
            groups.append((slice(edges[i], edges[i + 1]), features))
    return order, groups
