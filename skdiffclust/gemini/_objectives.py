r"""The GEMINI objectives: value and gradient by the assignments, and their registry.

All are functions of assignments P (n, k), whose rows sum to one, of sample weights w
(n,) that sum to one, and of the relation between the samples. With proportions
:math:`\pi = P^\top w` and densities :math:`p(x_i | y = k) \propto w_i P_{ik} / \pi_k`,

- one-vs-all is :math:`\sum_k \pi_k D(p(x|k), p(x))`, eq. (2) of the paper,
- one-vs-one is :math:`\sum_{kl} \pi_k \pi_l D(p(x|k), p(x|l))`, eq. (3).

Gradients are those of these formulas as functions of any positive P, so that they
hold inside a softmax and elsewhere. Where a distance is 0, its gradient is taken as 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from skdiffclust.gemini._transport import transport

# Squared distances below this many roundings of their parts count as zero.
_ROUNDINGS = 8


@dataclass(frozen=True)
class Objective:
    """An entry of the registry: two functions, and the relation that they need.

    `one_vs_all` and `one_vs_one` take (assignments, row_weights, relation) and return
    (value, gradient); `relation` is "kernel", "distance" or None. If an objective
    `is_smooth`, its gradient is continuous except where a distance is zero.
    """

    relation: str | None
    one_vs_all: Callable
    one_vs_one: Callable
    is_smooth: bool = True

    def with_gradient(self, mode):
        """Return the function for mode "auto", "ova" or "ovo"."""
        mode = mode_for(self.relation, mode)
        return self.one_vs_all if mode == "ova" else self.one_vs_one


def mode_for(relation, mode):
    """Return "ova" or "ovo": what "auto" stands for, or the mode itself.

    "auto" is one-vs-one where distances between samples count, because it gains more
    from clusters in the middle. It is one-vs-all for f-divergences, because one-vs-one
    KL and chi-squared divergences are not bounded.
    """
    if mode != "auto":
        return mode
    return "ova" if relation is None else "ovo"


# ------------------------------------------------------------------ maximum mean


def mmd(assignments, row_weights, relation, mode):
    """Return (value, gradient) for distances between means of features of the kernel.

    Written with S_k = pi_k (m_k - m). One-vs-all is the distance of cluster means from
    the mean: the value is sum_k ||S_k||, and the gradient w_i <x_i - m, S_k> / ||S_k||,
    equations (14) and (15). One-vs-one is that between cluster means, for which
    pi_k pi_l ||m_k - m_l|| = ||pi_l S_k - pi_k S_l|| needs no division by proportions.
    """
    # Differences from a row are exactly zero where all assignments are equal.
    columns = assignments - assignments[0]
    shift = row_weights @ columns
    share = (assignments[0] + shift).astype(np.float64)
    columns -= shift
    columns *= row_weights[:, None]
    inner, gram = relation.products(columns, row_weights)
    noise = relation.noise * float(np.abs(columns).sum(axis=0).max()) ** 2
    value, mixing, by_share = mmd_of_sums(gram, share, mode, noise, relation.rounding)
    gradient = np.asfortranarray(inner @ mixing)
    gradient += by_share
    gradient *= row_weights[:, None]
    return value, gradient.astype(assignments.dtype, copy=False)


def mmd_of_logits(logits, row_weights, relation, mode):
    """Return the MMD of the softmax of logits (n, k), and minus the gradient by them.

    For dense `Features` this is one compiled function: on a few hundred samples the
    calls of NumPy take longer than what they compute.
    """
    from skdiffclust.gemini import _kernels as kernels

    return kernels.mmd_of_logits(
        np.ascontiguousarray(logits, dtype=np.float64),
        relation.wide,
        row_weights.astype(np.float64, copy=False),
        mode == "ovo",
        _ROUNDINGS * relation.noise,
        _ROUNDINGS * relation.rounding,
    )


def mmd_of_sums(gram, share, mode, noise=0.0, rounding=2.0**-52):
    """Return the MMD of a mode from <S_k, S_l> (k, k) and pi (k,), and derivatives.

    The derivatives by S are a matrix (k, k) times S; those by pi are (k,). Squared
    lengths of a few times `noise`, or `rounding` of their parts, count as zero.
    """
    # numba is imported here, because it would slow down the import of the package.
    from skdiffclust.gemini import _kernels as kernels

    kernel = kernels.mmd_one_vs_all if mode == "ova" else kernels.mmd_one_vs_one
    return kernel(gram, share, _ROUNDINGS * noise, _ROUNDINGS * rounding)


# ------------------------------------------------------------------ f-divergences


@dataclass(frozen=True)
class Divergence:
    """Generator of an f-divergence, with what one-vs-one needs.

    `generator` is f and `derivative` f' up to a constant, which keeps digits if it is
    about zero at one, of the ratio r = P / pi; `symmetric` is H(a, b) = b f(a / b) +
    a f(b / a), and `derivative_of_first` its derivative by a.
    """

    generator: Callable
    derivative: Callable
    symmetric: Callable
    derivative_of_first: Callable

    def one_vs_all(self, assignments, row_weights, relation):
        """Return (value, gradient) of sum_k pi_k sum_i w_i f(P_ik / pi_k)."""
        ratio, share, inside = _ratios(assignments, row_weights)
        values = self.generator(ratio)
        derivatives = self.derivative(ratio)
        of_share = row_weights @ (values - ratio * derivatives)
        gradient = (derivatives + of_share) * row_weights[:, None] * inside
        return float(share @ (row_weights @ values)), gradient

    def one_vs_one(self, assignments, row_weights, relation):
        """Return (value, gradient) of sum_kl pi_k pi_l sum_i w_i H(r_ik, r_il) / 2."""
        ratio, share, inside = _ratios(assignments, row_weights)
        of_ratio = np.zeros_like(ratio)
        of_share = np.zeros_like(share)
        for other, weight in enumerate(share):
            second = ratio[:, other : other + 1]
            of_ratio += weight * self.derivative_of_first(ratio, second)
            of_share += weight * (row_weights @ self.symmetric(ratio, second))
        value = float(share @ of_share) / 2
        of_share -= row_weights @ (ratio * of_ratio)
        return value, (of_ratio + of_share) * row_weights[:, None] * inside


def _ratios(assignments, row_weights):
    """Return P / pi (n, k), pi (k,), and where P is above its floor."""
    floor = np.finfo(assignments.dtype).eps ** 0.75  # 2e-12, or 6e-6 in float32
    inside = assignments > floor
    assignments = np.maximum(assignments, assignments.dtype.type(floor))
    share = row_weights @ assignments
    return assignments / share, share, inside


KULLBACK_LEIBLER = Divergence(
    generator=lambda r: r * np.log(r),
    derivative=lambda r: np.log(r),
    symmetric=lambda a, b: (a - b) * np.log(a / b),
    derivative_of_first=lambda a, b: np.log(a / b) + 1 - b / a,
)
TOTAL_VARIATION = Divergence(
    generator=lambda r: np.abs(r - 1) / 2,
    derivative=lambda r: np.sign(r - 1) / 2,
    symmetric=lambda a, b: np.abs(a - b),
    derivative_of_first=lambda a, b: np.sign(a - b),
)
SQUARED_HELLINGER = Divergence(
    generator=lambda r: 1 - np.sqrt(r),
    derivative=lambda r: -0.5 / np.sqrt(r),
    symmetric=lambda a, b: np.square(np.sqrt(a) - np.sqrt(b)),
    derivative_of_first=lambda a, b: 1 - np.sqrt(b / a),
)
CHI_SQUARE = Divergence(
    generator=lambda r: np.square(r - 1),
    derivative=lambda r: 2 * (r - 1),
    symmetric=lambda a, b: np.square(a - b) * (1 / a + 1 / b),
    derivative_of_first=lambda a, b: (a - b) * (2 / a + 2 / b - (a - b) / np.square(a)),
)


# ------------------------------------------------------------------ Wasserstein


def wasserstein_one_vs_all(assignments, row_weights, relation):
    """Return (value, gradient) for transport between each cluster and all samples.

    Equations (D61) and (D67), with the exact dual potentials u, v of each transport:
    the gradient is w_i (u_ik + sum_j w_j v_jk).
    """
    densities, share = _densities(assignments, row_weights)
    gradient = np.empty_like(densities)
    value = 0.0
    target = np.asarray(row_weights, dtype=np.float64)
    for k, density in enumerate(densities.T):
        cost, (u, v) = transport(density, target, relation, key=k)
        value += share[k] * cost
        gradient[:, k] = target * (u + target @ v)
    return float(value), gradient.astype(assignments.dtype, copy=False)


def wasserstein_one_vs_one(assignments, row_weights, relation):
    """Return (value, gradient) for transport between all pairs of clusters.

    Equation (D68); each pair is solved once, for both directions.
    """
    densities, share = _densities(assignments, row_weights)
    gradient = np.zeros_like(densities)
    value = 0.0
    for k in range(len(share)):
        for other in range(k):
            first = densities[:, k]
            second = densities[:, other]
            cost, (u, v) = transport(first, second, relation, key=(k, other))
            value += 2 * share[k] * share[other] * cost
            gradient[:, k] += 2 * share[other] * (u + second @ v)
            gradient[:, other] += 2 * share[k] * (v + first @ u)
    gradient *= row_weights[:, None]
    return float(value), gradient.astype(assignments.dtype, copy=False)


def _densities(assignments, row_weights):
    """Return p(x_i | y = k) (n, k), by columns, and the proportions (k,), float64."""
    assignments = np.maximum(assignments, np.finfo(np.float32).tiny, dtype=np.float64)
    joint = assignments * row_weights[:, None]
    share = joint.sum(axis=0)
    return np.asfortranarray(joint / share), share


# ------------------------------------------------------------------ registry


ObjectiveName = Literal["chi2", "hellinger", "kl", "mmd", "tv", "wasserstein"]
OBJECTIVES = {
    "chi2": Objective(None, CHI_SQUARE.one_vs_all, CHI_SQUARE.one_vs_one),
    "hellinger": Objective(
        None, SQUARED_HELLINGER.one_vs_all, SQUARED_HELLINGER.one_vs_one
    ),
    "kl": Objective(None, KULLBACK_LEIBLER.one_vs_all, KULLBACK_LEIBLER.one_vs_one),
    "mmd": Objective("kernel", partial(mmd, mode="ova"), partial(mmd, mode="ovo")),
    "tv": Objective(
        None, TOTAL_VARIATION.one_vs_all, TOTAL_VARIATION.one_vs_one, is_smooth=False
    ),
    "wasserstein": Objective(
        "distance", wasserstein_one_vs_all, wasserstein_one_vs_one, is_smooth=False
    ),
}
