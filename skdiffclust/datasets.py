"""Synthetic problems of the papers; nothing is downloaded."""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from scipy.linalg import block_diag
from sklearn.utils import check_random_state

from skdiffclust._compat import Interval, validate_params
from skdiffclust._short_repr import short_repr

__all__ = [
    "SyntheticClusters",
    "make_celeux_one",
    "make_celeux_two",
]

# Scenario of the first problem -> (rows, noise features, distance of the means).
_SCENARIOS = {
    1: (30, 20, 0.6),
    2: (30, 20, 1.7),
    3: (300, 20, 0.6),
    4: (300, 20, 1.7),
    5: (300, 95, 1.7),
}


@dataclass(frozen=True, eq=False)
class SyntheticClusters:
    """Samples with known clusters and known informative features.

    It can be unpacked as ``X, y, informative``.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features), float64
        Samples.
    y : ndarray of shape (n_samples,), int64
        Component from which each sample was drawn.
    informative : ndarray of shape (n_features,), bool
        Mask of the features that distinguish the components, redundant ones excluded.
    """

    X: np.ndarray
    y: np.ndarray
    informative: np.ndarray

    __repr__ = short_repr

    def __iter__(self) -> Iterator[np.ndarray]:
        """Unpack as X, y, informative."""
        return iter((self.X, self.y, self.informative))


@validate_params(
    {"scenario": [Interval(Integral, 1, 5, closed="both")]},
    prefer_skip_nested_validation=True,
)
def make_celeux_one(scenario=5, *, random_state=None) -> SyntheticClusters:
    r"""Generate three Gaussian clusters in five features, followed by noise features.

    This is the first problem of [1]_ and of Section 5.3 of [2]_: components of equal
    proportions with identity covariance and means :math:`\alpha \mathbf 1`,
    :math:`-\alpha \mathbf 1` and 0 in five features, followed by p features of standard
    normal noise.

    Parameters
    ----------
    scenario : {1, 2, 3, 4, 5}, default=5
        Values of (n, p, alpha): (30, 20, 0.6), (30, 20, 1.7), (300, 20, 0.6),
        (300, 20, 1.7) or (300, 95, 1.7), where n is the number of samples.
    random_state : int, RandomState instance or None, default=None
        Determines the components and features. Pass an int for reproducible results.

    Returns
    -------
    data : SyntheticClusters
        The samples, their components, and the mask of informative features.

    Raises
    ------
    ValueError
        If `scenario` is not one of these numbers.

    References
    ----------
    .. [1] G. Celeux et al., "Comparing model selection and regularization approaches
       to variable selection in model-based clustering", Journal de la Société
       Française de Statistique 155(2), 2014.
    .. [2] L. Ohl et al., "Sparse and geometry-aware generalisation of the mutual
       information for joint discriminative clustering and feature selection",
       Statistics and Computing 34:155, 2024.

    Examples
    --------
    >>> from skdiffclust.datasets import make_celeux_one
    >>> X, y, informative = make_celeux_one(scenario=4, random_state=0)
    >>> X.shape, int(informative.sum())
    ((300, 25), 5)
    """
    n_samples, n_noise, distance = _SCENARIOS[scenario]
    rng = check_random_state(random_state)
    means = distance * np.outer([1.0, -1.0, 0.0], np.ones(5))
    X, y = _gaussians(n_samples, means, rng)
    X = np.hstack([X, rng.normal(size=(n_samples, n_noise))])
    return SyntheticClusters(X, y, np.arange(X.shape[1]) < 5)


@validate_params(
    {"n_samples": [Interval(Integral, 1, None, closed="left")]},
    prefer_skip_nested_validation=True,
)
def make_celeux_two(n_samples=2000, *, random_state=None) -> SyntheticClusters:
    r"""Generate four Gaussian clusters in two features, followed by redundant ones.

    This is the second problem of [1]_ and of Section 5.3 of [2]_: components of equal
    proportions with identity covariance and means (0, 0), (4, 0), (0, 2) and (4, 2).
    Features 3 to 11 are redundant: they are linear functions of the first two plus
    Gaussian noise (equations (16) and (17)). Features 12 to 14 are normal noise with
    means 3.2, 3.6 and 4.

    Parameters
    ----------
    n_samples : int, default=2000
        Number of samples.
    random_state : int, RandomState instance or None, default=None
        Determines the components and features. Pass an int for reproducible results.

    Returns
    -------
    data : SyntheticClusters
        The samples, their components, and the mask of informative features, which are
        the first two.

    References
    ----------
    .. [1] G. Celeux et al., "Comparing model selection and regularization approaches
       to variable selection in model-based clustering", Journal de la Société
       Française de Statistique 155(2), 2014.
    .. [2] L. Ohl et al., "Sparse and geometry-aware generalisation of the mutual
       information for joint discriminative clustering and feature selection",
       Statistics and Computing 34:155, 2024.

    Examples
    --------
    >>> from skdiffclust.datasets import make_celeux_two
    >>> X, y, informative = make_celeux_two(100, random_state=0)
    >>> X.shape, informative.nonzero()[0]
    ((100, 14), array([0, 1]))
    """
    rng = check_random_state(random_state)
    means = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 2.0], [4.0, 2.0]])
    first, y = _gaussians(n_samples, means, rng)
    offset = np.array([0, 0, 0.4, 0.8, 1.2, 1.6, 2.0, 2.4, 2.8])
    slopes = np.array(
        [
            [0.5, 2.0, 0.0, -1.0, 2.0, 0.5, 4.0, 3.0, 2.0],
            [1.0, 0.0, 3.0, 2.0, -4.0, 0.0, 0.5, 0.0, 1.0],
        ]
    )
    noise = rng.multivariate_normal(np.zeros(9), _redundant_covariance(), n_samples)
    last = rng.normal(loc=[3.2, 3.6, 4.0], size=(n_samples, 3))
    X = np.hstack([first, offset + first @ slopes + noise, last])
    return SyntheticClusters(X, y, np.arange(14) < 2)


def _redundant_covariance():
    """Return the covariance (9, 9) of equation (17)."""
    blocks = [np.eye(3), 0.5 * np.eye(2)]
    for angle, scales in ((np.pi / 3, [1, 3]), (np.pi / 6, [2, 6])):
        c = np.cos(angle)
        s = np.sin(angle)
        rotation = np.array([[c, -s], [s, c]])
        blocks.append(rotation.T @ np.diag(scales) @ rotation)
    return block_diag(*blocks)


def _gaussians(n_samples, means, rng):
    """Return samples (n, d) of components with identity covariance, and these (n,)."""
    y = rng.choice(len(means), size=n_samples)
    X = means[y] + rng.normal(size=(n_samples, means.shape[1]))
    return X, y.astype(np.int64)
