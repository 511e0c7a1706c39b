"""Penalties on variables: values and proximal operators.

Features that belong together (the one-hot columns of a category, say) form a group,
which is kept or dropped as a whole.

A penalty knows a model and nothing of objectives. Training asks it for its ``value``
and ``prox``; a path for ``at``, ``on``, ``support`` and ``certificate``; the solver of
linear models for ``thresholds`` and ``prox_of_norms``.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skdiffclust.gemini._sparse_rows import covariance

# Least factor of a group that the others explain.
_LEAST_FACTOR = 0.05


@dataclass(frozen=True)
class Groups:
    """Features in groups: their columns (d,), group by group, and where groups begin.

    `starts` (g + 1,) ends with the number of features.
    """

    order: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, ids, n_features):
        """Return the groups of ids (n_features,), None for a group a feature.

        They are in the order of the ids. ValueError if these are invalid.
        """
        if ids is None:
            return cls(np.arange(n_features), np.arange(n_features + 1))
        ids = np.asarray(ids)
        if ids.dtype == object and all(isinstance(name, str) for name in ids):
            ids = ids.astype(str)
        if ids.shape != (n_features,) or ids.dtype.kind not in "iuU":
            raise ValueError(
                "The 'groups' parameter of SparseGEMINI must be None or an "
                f"array of integers or names of shape ({n_features},), one for each "
                f"feature. Got shape {ids.shape} and dtype {ids.dtype} instead. "
                "Features with the same value form a group."
            )
        _, numbers, sizes = np.unique(ids, return_inverse=True, return_counts=True)
        order = np.argsort(numbers, kind="stable")
        return cls(order, np.append(0, np.cumsum(sizes)))

    def __len__(self):
        """Return the number of groups."""
        return len(self.starts) - 1

    @property
    def sizes(self):
        """Numbers of features (g,)."""
        return np.diff(self.starts)

    def take(self, active):
        """Return the active groups (g,) alone, and the columns that they have.

        The columns are in the order of the groups, and numbered from 0 in the new
        Groups.
        """
        sizes = self.sizes
        columns = self.order[np.repeat(active, sizes)]
        starts = np.append(0, np.cumsum(sizes[active]))
        return Groups(np.arange(len(columns)), starts), columns

    def sums(self, values):
        """Return the sum (g,) of each group's values (d,)."""
        return np.add.reduceat(values[self.order], self.starts[:-1])

    def norms(self, weights):
        """Return the norm (g,), float64, of each group's rows of weights (d, k)."""
        squares = np.einsum("ij,ij->i", weights, weights, dtype=np.float64)
        return np.sqrt(self.sums(squares))

    def by_feature(self, values):
        """Return values (g,) of groups at each of their features (d,)."""
        whole = np.empty(len(self.order), dtype=values.dtype)
        whole[self.order] = np.repeat(values, self.sizes)
        return whole


def hierarchical_prox(skip, hidden, threshold, hierarchy, groups):
    """Shrink the skip weights (d, k) and bound the hidden weights (d, h), in place.

    The minimiser of ||theta - skip||² / 2 + ||W - hidden||² / 2 + threshold sum_g
    ||theta_g|| under ``max |W_g| <= hierarchy ||theta_g||`` for every group g, equation
    (10): Algorithm 4 of LassoNet, for groups. `threshold` is a number, or has one for
    each of the groups. Where skip_g is zero its direction is undefined; if
    the hidden weights require a norm anyway, all its entries are equal, which moves all
    logits alike and hence changes no assignment.
    """
    from skdiffclust.gemini._kernels import shrink_hierarchically

    wide_skip = np.ascontiguousarray(skip, dtype=np.float64)
    wide_hidden = np.ascontiguousarray(hidden, dtype=np.float64)
    thresholds = np.full(len(groups), threshold, dtype=np.float64)
    shrink_hierarchically(
        wide_skip,
        wide_hidden,
        thresholds,
        float(hierarchy),
        groups.order,
        groups.starts,
    )
    skip[...] = wide_skip
    hidden[...] = wide_hidden


def factors_of_groups(penalty_factor, X, row_weights, groups):
    """Return the factors of the penalties of groups (g,).

    `penalty_factor` is the parameter of that name, of centred samples X (n, d).
    """
    if isinstance(penalty_factor, str):
        return unshared(X, row_weights, groups)
    n_features = X.shape[1]
    factors = np.asarray(penalty_factor, dtype=np.float64)
    is_good = factors.shape == (n_features,) and (
        np.isfinite(factors).all() and (factors > 0).all()
    )
    if not is_good:
        raise ValueError(
            "The 'penalty_factor' parameter of SparseGEMINI must be "
            "None, 'redundancy', or an array of positive numbers of shape "
            f"({n_features},), one for each feature. Got "
            f"{penalty_factor!r} instead. Use a small factor for features "
            "that should be dropped late."
        )
    own = factors[groups.order[groups.starts[:-1]]]
    if (groups.by_feature(own) != factors).any():
        raise ValueError(
            "The 'penalty_factor' parameter of SparseGEMINI must be the same "
            "for all features of a group. Got different ones instead. Give "
            "each group one factor."
        )
    return own


def unshared(X, row_weights, groups):
    """Return the root of the share of the variance (g,) that each group has alone.

    It is the mean over its features of the share that the features of other groups of
    centred samples X (n, d) do not explain linearly, 1 - R²: the diagonal of the
    inverse of the group's block of the inverse of the correlations. It is at least .05,
    because beside a factor near zero, all other features would leave at the first
    penalty. O(n d² + d³).
    """
    n_samples, n_features = X.shape
    if n_features >= n_samples:
        raise ValueError(
            "The 'penalty_factor' parameter of SparseGEMINI must not be 'redundancy' "
            "with at least as many features as samples, which explain each other. Got "
            f"n_features={n_features} and n_samples={n_samples} instead. Give factors, "
            "or select features before."
        )
    covariances = covariance(X, row_weights)
    deviations = np.sqrt(covariances.diagonal())
    constant = deviations == 0
    deviations[constant] = 1.0
    correlation = covariances / np.outer(deviations, deviations)
    correlation[constant, constant] = 1.0
    # Duplicated features have no variance of their own, and make the matrix singular.
    correlation[np.diag_indices(n_features)] += 1e-9
    precision = np.linalg.inv(correlation)
    blocks = np.split(groups.order, groups.starts[1:-1])
    own = [np.linalg.inv(precision[np.ix_(g, g)]).diagonal().mean() for g in blocks]
    return np.sqrt(np.clip(own, _LEAST_FACTOR**2, 1.0))


@dataclass(frozen=True)
class GroupLasso:
    """The penalty alpha sum_g c_g ||W_g||, equation (9), on input weights of a model.

    In a model with skip weights, only these are penalised, and they bound the hidden
    weights, equation (10). `factors` (g,) are the c_g, in the order of the groups; None
    is one for each. Norms, costs and residuals have one entry a group, in the same
    order.
    """

    groups: Groups
    alpha: float = 0.0
    factors: np.ndarray | None = None
    hierarchy: float = 10.0

    @cached_property
    def costs(self):
        """The c_g (g,)."""
        return np.ones(len(self.groups)) if self.factors is None else self.factors

    @cached_property
    def thresholds(self):
        """Penalty of a unit of each group (g,): alpha c_g."""
        return self.alpha * self.costs

    def at(self, alpha):
        """Return the penalty with another alpha."""
        return replace(self, alpha=float(alpha))

    def value(self, model):
        """Return the penalty of a model over alpha."""
        return float(self.costs @ self.groups.norms(model.inputs[0]))

    def support(self, model):
        """Return which features (d,) are selected."""
        return self.groups.by_feature(self.groups.norms(model.inputs[0]) > 0)

    def on(self, active):
        """Return the penalty of active groups (g,), and the columns that they have.

        The penalty counts those columns from 0, group by group.
        """
        groups, columns = self.groups.take(active)
        factors = None if self.factors is None else self.factors[active]
        return replace(self, groups=groups, factors=factors), columns

    def prox(self, model, step):
        """Apply the proximal operator at this step size, in place."""
        weights, *others = model.inputs
        hidden = others[0] if others else weights[:, :0]
        thresholds = step * self.thresholds
        hierarchical_prox(weights, hidden, thresholds, self.hierarchy, self.groups)

    def prox_of_norms(self, norms, step):
        """Return the norms (g,) that the operator leaves without hidden weights."""
        return np.maximum(norms - step * self.thresholds, 0.0)

    def certificate(self, model, gradients):
        """Return the largest residual, and which groups (g,) have one above zero.

        The largest is taken over all groups and all arrays that are not penalised.
        `gradients` are those of the loss without the penalty; alpha is positive.
        """
        free = [
            float(np.linalg.norm(gradient)) / self.alpha
            for name, gradient in zip(model.names, gradients, strict=True)
            if name not in model.input_names
        ]
        residuals = self.residuals(model, gradients)
        return float(max(*free, residuals.max())), residuals > 0

    def residuals(self, model, gradients):
        """Return the residuals (g,) of a proximal step of length one, over alpha c_g.

        A residual is how far the step moves the input weights of a group; it is zero at
        a stationary point of the penalised problem.
        """
        trial = type(model).from_arrays([array.copy() for array in model.arrays])
        for array, gradient in zip(trial.arrays, gradients, strict=True):
            array -= gradient
        self.prox(trial, 1.0)
        moved = [
            self.groups.norms(new - old)
            for new, old in zip(trial.inputs, model.inputs, strict=True)
        ]
        return np.sqrt(np.square(moved).sum(axis=0)) / self.thresholds
