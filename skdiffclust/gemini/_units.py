"""The unit of the features, which is removed from a problem and restored at its end.

Training works on centred features divided by one number s, the root of the mean of
their variances. With weights W' = s W on X / s the assignments are the same. An
objective that is homogeneous of degree q is v = s^q times that of X / s, and so

    -I(X) + l2 |W|² + alpha |W| = v (-I(X / s) + l2 / (v s²) |W'|² + alpha / (v s) |W'|)

is v times the problem in which steps are taken and convergence is judged. All that a
user sees is in the unit of X.
"""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.metrics.pairwise import KERNEL_PARAMS

from skdiffclust.gemini._models import MODELS
from skdiffclust.gemini._sparse_rows import column_squares

# Degrees of the objective with the linear kernel, and of distances proportional to the
# features.
_DEGREES = {
    "kernel": {"linear": 1, "cosine": 0},
    "distance": {
        "chebyshev": 1,
        "cityblock": 1,
        "cosine": 0,
        "euclidean": 1,
        "l1": 1,
        "l2": 1,
        "manhattan": 1,
        "minkowski": 1,
        "sqeuclidean": 2,
    },
}


def degree_of(kind, kernel, metric, gamma):
    """Return the degree q of an objective of a relation, None if it has none.

    `kind` is "kernel", "distance" or None, for objectives without a relation.
    """
    if kind is None:
        return 0
    name = {"kernel": kernel, "distance": metric}[kind]
    if kind == "kernel" and isinstance(gamma, str) and takes_gamma(kernel):
        return 0
    return _DEGREES[kind].get(name) if isinstance(name, str) else None


def takes_gamma(kernel):
    """Return whether a kernel has the parameter gamma."""
    return isinstance(kernel, str) and "gamma" in KERNEL_PARAMS.get(kernel, ())


def scale_gamma(kernel, n_features, scale):
    """Return the gamma that makes a kernel independent of the scale of the features.

    One over the sum of their variances, n_features times scale squared, for kernels of
    squares and products; for those of absolute differences without the square.
    """
    power = 1 if kernel in ("laplacian", "chi2") else 2
    return 1 / (n_features * scale**power)


def near_one(X):
    """Return dense or sparse X times a power of two: fourth powers are finite then.

    The product is exact.
    """
    largest = abs(X).max()
    return X * X.dtype.type(2.0 ** -np.frexp(largest)[1]) if largest > 0 else X


@dataclass(frozen=True)
class Units:
    """The numbers s and v, by which features and the objective were divided."""

    features: float = 1.0
    objective: float = 1.0

    @classmethod
    def of_rows(cls, X, row_weights, degree):
        """Return the units of centred samples X (n, d); without a degree v is one."""
        mean = float(column_squares(X, row_weights).sum()) / X.shape[1]
        # Below this, weights in the unit of X could not be represented.
        floor = float(np.finfo(X.dtype).tiny) ** 0.5
        scale = max(mean**0.5, floor) if mean > 0 else 1.0
        return cls(scale, scale ** (degree or 0))

    @property
    def alpha(self):
        """Divisor of a penalty on the norms of weights."""
        return self.objective * self.features

    def l2_of(self, l2, dtype):
        """Return the factors of the squares of input weights, and of other weights.

        They multiply arrays of a dtype, whose gradients are squared.
        """
        divisor = self.alpha * self.features
        largest = float(np.finfo(dtype).max) ** 0.5 / 100
        if l2 > largest * divisor:
            raise ValueError(
                "The 'l2' parameter must be 0 for samples whose standard deviation is "
                f"{self.features:.3g}, where the penalty would exceed the objective by "
                f"more than {largest:.1g}. Got {l2} instead. Rescale X."
            )
        return (l2 / divisor, l2 / self.objective) if l2 else (0.0, 0.0)

    def model(self, model):
        """Return the model of features in the unit of the user."""
        arrays = [
            array / array.dtype.type(self.features)
            if name in model.input_names
            else array
            for name, array in zip(model.names, model.arrays, strict=True)
        ]
        return type(model).from_arrays(arrays)

    def step(self, step, kind):
        """Return a step of a path in the unit of the user."""
        arrays = self.model(MODELS[kind].from_arrays(step.weights)).arrays
        return replace(
            step,
            alpha=step.alpha * self.alpha,
            objective=step.objective * self.objective,
            penalty=step.penalty / self.features,
            weights=arrays,
        )

    def history(self, history):
        """Return the curves "loss" and "objective" in the unit of the user."""
        return {
            name: [value * self.objective for value in curve]
            for name, curve in history.items()
        }
