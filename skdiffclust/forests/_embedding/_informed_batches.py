"""Mini-batches of which a part is informed: labelled samples, or samples with links."""

import numpy as np

from skdiffclust._constraints import (
    Constraints,
    restrict,
)
from skdiffclust.forests._constrained._problem import constrained_problem

# Share of informed samples in a batch: the paper draws as many labelled samples as
# others.
_INFORMED_SHARE = 0.5
# A small table has few batches, and so few steps.
_LEAST_BATCHES = 5


class InformedBatches:
    """Batches of which half of the samples, at least, have labels or links.

    Parameters
    ----------
    constraints : Constraints
        Of all samples.
    links : ndarray of shape (n_links, 2) or None
        Pairs whose samples are drawn together; None draws samples that have a class.
    n_clusters : int
    neighbors : csr_array of shape (n_samples, n_samples) or None, default=None
        Half of the uninformed rows of a batch are drawn together with a neighbour and
        linked to it, unless what is known forbids it.

    Attributes
    ----------
    n_informed : int
        Number of samples with a label or link.
    """

    def __init__(self, constraints, links, n_clusters, neighbors=None):
        self.constraints = constraints
        self.n_clusters = n_clusters
        self.neighbors = neighbors
        n_samples = len(constraints.groups)
        if links is None:
            self.units = np.flatnonzero(constraints.classes >= 0)[:, None]
        else:
            self.units = links
        if not len(self.units):
            raise ValueError(
                "SpanningForestEmbedding needs at least one label or link to learn "
                "from. Got unlabelled samples only instead. Pass y with a class for "
                "some samples, or pairs in must_link or cannot_link."
            )
        informed = np.zeros(n_samples, dtype=bool)
        informed[self.units] = True
        self.others = np.flatnonzero(~informed)
        self.n_informed = n_samples - len(self.others)

    def epoch(self, batch_size, random_state):
        """Yield (samples, constraints, n_clusters) until each was drawn about once.

        This counts the uninformed samples, or the informed ones if there are no others.
        There are at least five batches.
        """
        n_samples = len(self.constraints.groups)
        batch_size = min(batch_size, n_samples)
        n_known = min(round(_INFORMED_SHARE * batch_size), self.n_informed)
        n_known = max(n_known, batch_size - len(self.others), self.units.shape[1])
        n_units = min(max(1, n_known // self.units.shape[1]), len(self.units))
        n_others = min(max(batch_size - n_known, 0), len(self.others))
        n_batches = -(-len(self.units) // n_units)
        if n_others:
            n_batches = len(self.others) // n_others
        n_batches = max(n_batches, _LEAST_BATCHES)
        units = _turns(len(self.units), n_units, n_batches, random_state)
        if self.neighbors is not None:
            n_others = -(-n_others // 2)
        others = _turns(len(self.others), n_others, n_batches, random_state)
        for chosen, rest in zip(units, others, strict=True):
            rest = self.others[rest]
            partners = self._partners(rest, random_state)
            rows = [self.units[chosen].ravel(), rest, partners]
            rows = np.unique(np.concatenate(rows))
            if len(rows) > 1:
                constraints = restrict(self.constraints, rows)
                if len(partners):
                    pairs = np.column_stack([rest, partners])
                    constraints = joined(constraints, np.searchsorted(rows, pairs))
                yield rows, constraints, feasible_number(constraints, self.n_clusters)

    def _partners(self, rows, random_state):
        """Return a random neighbour of each of the rows (m,), or none at all."""
        if self.neighbors is None:
            return rows[:0]
        starts = self.neighbors.indptr[rows]
        n_neighbors = self.neighbors.indptr[rows + 1] - starts
        drawn = random_state.randint(0, n_neighbors)
        return self.neighbors.indices[starts + drawn].astype(np.int64)


def _turns(n, size, n_batches, random_state):
    """Return numbers below n (n_batches, size): no number twice in a batch.

    They come from consecutive random permutations; the rest of a permutation that does
    not fill a batch is dropped.
    """
    if not size:
        return np.empty((n_batches, 0), dtype=np.int64)
    in_turn = n // size
    batches = [
        random_state.permutation(n)[: in_turn * size].reshape(in_turn, size)
        for _ in range(-(-n_batches // in_turn))
    ]
    return np.concatenate(batches)[:n_batches]


def joined(constraints, pairs):
    """Return closed constraints (n,) to which must-links (m, 2) are added in turn.

    A pair that the constraints and the previous pairs separate is skipped.
    """
    groups = constraints.groups.copy()
    classes = constraints.classes.copy()
    separated = np.zeros((constraints.n_groups, constraints.n_groups), dtype=bool)
    separated[tuple(constraints.cannot.T)] = True
    separated |= separated.T
    for one, other in pairs:
        # The largest number stays in use.
        (lost, kept) = np.sort(groups[[one, other]])
        known = {int(classes[one]), int(classes[other])} - {-1}
        if kept == lost or separated[kept, lost] or len(known) > 1:
            continue
        groups[groups == lost] = kept
        classes[groups == kept] = known.pop() if known else -1
        separated[kept] |= separated[lost]
        separated[:, kept] |= separated[:, lost]
    all_rows = np.arange(len(groups))
    return restrict(Constraints(groups, classes, np.argwhere(separated)), all_rows)


def feasible_number(constraints, n_clusters):
    """Return the number of clusters nearest to `n_clusters` that a batch can have."""
    n_clusters = min(max(n_clusters, constraints.n_classes, 1), constraints.n_groups)
    while len(constraints.cannot) and n_clusters < constraints.n_groups:
        try:
            constrained_problem(constraints, n_clusters)
            break
        except ValueError:
            n_clusters += 1
    return n_clusters
