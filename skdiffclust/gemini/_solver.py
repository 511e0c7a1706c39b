"""Solver of linear models under a penalty on the norms of groups, with a certificate.

A step works on a set of groups: those that are selected, and those that a proximal step
would add. On the groups that are not zero the problem is smooth, and L-BFGS minimises
it; a group is dropped if a proximal step of the length of the last quasi-Newton step
sets it to zero, or a step would reverse its direction, and dropping it lowers the loss.
Then all groups are checked, and the set grows until none is left to add. A solution is
certified by the residual of a proximal step of length one: for each group of weights w
with gradient g, ||w - prox(w - g)||, and for biases ||g||, over the penalty.
"""

from dataclasses import replace

import numpy as np

from skdiffclust._encoder import Encoder
from skdiffclust.gemini import _kernels as kernels
from skdiffclust.gemini._sparse_rows import take_columns
from skdiffclust.gemini._training import loss_and_gradients

# Certificate to which a solution is refined, if rounding allows, so that it does not
# depend on the steps before.
_FINE_TOLERANCE = 1e-9
# Pairs of differences that L-BFGS keeps.
_MEMORY = 10
# Share of a linear model's decrease that a step has to reach.
_ARMIJO = 1e-4
_MOST_HALVINGS = 30
# Relative rounding of a loss.
_ROUNDING = 1e-15
# Number of checks of all groups, after which missing groups stay out.
_MOST_LOOKS = 50
# Groups are solved to this share of the tolerance, before all are checked.
_INNER_SHARE = 0.5
# Largest number of groups added at once, unless more are selected already.
_FEWEST_NEW = 10


def linear_loss(problem, n_clusters, columns):
    """Return a function of the flat vector of a linear model, in float64.

    It gives the loss, the objective and the gradient of the loss. The model is of the
    features `columns` (m,), in this order.
    """
    X = take_columns(problem.X, columns)
    if isinstance(X, np.ndarray):
        X = X.astype(np.float64, copy=False)
    problem = replace(problem, X=X)

    def evaluate(z):
        end = len(z) - n_clusters
        model = Encoder([z[:end].reshape(-1, n_clusters)], [z[end:]])
        loss, value, (by_weights, by_biases) = loss_and_gradients(model, problem)
        return loss, value, np.concatenate([by_weights.ravel(), by_biases])

    return evaluate


class Point:
    """A vector z with its loss, gradient, and the penalty of its blocks."""

    def __init__(self, z, evaluate, starts, penalty):
        self.z = z
        self.starts = starts
        loss, self.value, self.gradient = evaluate(z)
        self.norms, self._moved = kernels.block_lengths(z, self.gradient, starts, 1.0)
        self.loss = loss + float(penalty.thresholds @ self.norms)
        self.whole_gradient = kernels.add_derivatives(
            z, self.gradient, starts, self.norms, penalty.thresholds
        )
        self._penalty = penalty

    @property
    def residuals(self):
        """Residuals (g,) of a proximal step of length one, over the penalty."""
        proximal = self._penalty.prox_of_norms(self._moved, 1.0)
        residuals = kernels.block_residuals(
            self.z, self.gradient, self.starts, self._moved, proximal
        )
        return residuals / self._penalty.thresholds

    @property
    def bias_residual(self):
        """Norm of the gradient by what is not penalised, over the penalty."""
        free = self.gradient[self.starts[-1] :]
        return float(np.sqrt(free @ free)) / self._penalty.alpha

    def leaving(self, step):
        """Return which selected blocks (g,) a proximal step sets to zero."""
        _, moved = kernels.block_lengths(self.z, self.gradient, self.starts, step)
        return (self._penalty.prox_of_norms(moved, step) == 0) & (self.norms > 0)


class QuasiNewton:
    """Minimise the loss on the selected blocks, one iteration at a time."""

    def __init__(self, z, evaluate, starts, penalty):
        self._evaluate = evaluate
        self._starts = starts
        self._penalty = penalty
        self.point = self._at(z)
        self._moves = np.zeros((_MEMORY, len(z)))
        self._changes = np.zeros_like(self._moves)
        self._n_pairs = 0
        self._step = 1.0
        # Whether no step lowers the loss any further than rounding allows.
        self.is_stuck = False

    def _at(self, z):
        """Return the Point of z."""
        return Point(z, self._evaluate, self._starts, self._penalty)

    def residual(self):
        """Return the largest residual of the biases and of the selected blocks."""
        inside = self.point.residuals[self.point.norms > 0]
        return max(self.point.bias_residual, float(inside.max(initial=0.0)))

    def iterate(self, may_leave=True):
        """Take a step; `is_stuck` if none lowers the loss."""
        point = self.point
        if may_leave and self.prune(self._step):
            return
        direction = kernels.quasi_newton(
            point.whole_gradient, self._moves, self._changes, self._n_pairs
        )
        if self._n_pairs == 0:
            direction *= min(1.0, self._step)
        derivative = direction @ point.whole_gradient
        if not derivative < 0:
            self._forget()
            return
        length = 1.0
        for _ in range(_MOST_HALVINGS):
            new = self._at(kernels.move(point.z, direction, length, self._starts))
            gain = new.loss - point.loss
            # If rounding hides the gain, the derivative decides.
            slope = direction @ new.whole_gradient
            is_level = gain <= _ROUNDING * abs(point.loss) and (
                abs(slope) <= 0.9 * abs(derivative)
            )
            if gain <= _ARMIJO * length * derivative or is_level:
                self._accept(new)
                return
            best = -derivative * length**2 / (2 * (gain - derivative * length))
            length = float(np.clip(best, 0.1 * length, 0.5 * length))
        self._forget()

    def prune(self, step=1.0):
        """Set to zero what a proximal step does, if it lowers the loss; return whether.

        The step has the length `step`.
        """
        leaving = self.point.leaving(step)
        if not leaving.any():
            return False
        z = self.point.z.copy()
        z[: self._starts[-1]][np.repeat(leaving, np.diff(self._starts))] = 0.0
        new = self._at(z)
        if not new.loss <= self.point.loss:
            return False
        self._accept(new)
        return True

    def _accept(self, new):
        """Move to a point, and keep the differences."""
        move = new.z - self.point.z
        change = new.whole_gradient - self.point.whole_gradient
        left = (new.norms == 0) & (self.point.norms > 0)
        if left.any():
            # Values of the other blocks are kept.
            is_zero = np.repeat(left, np.diff(self._starts))
            for rows in (self._moves, self._changes, move[None], change[None]):
                rows[:, : self._starts[-1]][:, is_zero] = 0.0
        curvature = move @ change
        square = move @ move
        if curvature > 1e-10 * np.sqrt(square * (change @ change)):
            place = self._n_pairs % _MEMORY
            self._moves[place] = move
            self._changes[place] = change
            self._n_pairs += 1
            self._step = square / curvature
        self.is_stuck = False
        self.point = new

    def _forget(self):
        """Start again from a short step along the gradient, which is the last try."""
        self.is_stuck = self._n_pairs == 0
        self._n_pairs = 0
        self._step = min(self._step, 1.0) / 100


class GroupSolver:
    """Solves for weights (d, k) and biases (k,) under a penalty, by working sets.

    `penalty` has a factor for each of its groups; see `_penalties`. Call `iterate`
    until `is_done`; ``residual`` is the certificate then.
    """

    def __init__(self, problem, weights, biases, penalty, tolerance):
        self._problem = problem
        self._penalty = penalty
        self._tolerance = tolerance
        self._weights = np.array(weights, dtype=np.float64)
        self._biases = np.array(biases, dtype=np.float64)
        self._n_clusters = len(biases)
        self._order = penalty.groups.order
        self._everywhere = linear_loss(problem, self._n_clusters, self._order)
        self.is_done = False
        self._n_looks = 0
        self._begin(penalty.groups.norms(self._weights) > 0)

    def _begin(self, active):
        """Work on groups (g,) from now on."""
        self.residual = np.inf
        penalty, self._columns = self._penalty.on(active)
        z = np.concatenate([self._weights[self._columns].ravel(), self._biases])
        evaluate = linear_loss(self._problem, self._n_clusters, self._columns)
        starts = penalty.groups.starts * self._n_clusters
        self._inner = QuasiNewton(z, evaluate, starts, penalty)

    def iterate(self):
        """Take a step, or check all groups if those in the set are solved."""
        inner = self._inner
        if not inner.is_stuck and inner.residual() > _INNER_SHARE * self._tolerance:
            inner.iterate()
            self._write_back()
        elif inner.prune():
            self._write_back()
        else:
            self._look_around()

    @property
    def point(self):
        """The current Point of the working set."""
        return self._inner.point

    def arrays(self, dtype):
        """Return copies of weights and biases."""
        return [self._weights.astype(dtype), self._biases.astype(dtype)]

    def _write_back(self):
        """Copy the current point of the working set, whose residual is not known."""
        self.residual = np.inf
        z = self._inner.point.z
        end = len(z) - self._n_clusters
        self._weights[self._columns] = z[:end].reshape(-1, self._n_clusters)
        self._biases[...] = z[end:]

    @property
    def is_fine(self):
        """Whether `refine` cannot improve the solution."""
        return self._inner.is_stuck or self._inner.residual() <= _FINE_TOLERANCE

    def refine(self):
        """Take a step on the groups of a solution, none of which may be dropped."""
        self._inner.iterate(may_leave=False)
        self._write_back()

    def certificate(self):
        """Return the residual of the current point."""
        if self.residual == np.inf:
            self._residuals()
        return self.residual

    def _residuals(self):
        """Return the Point of all groups, and its residuals (g,)."""
        z = np.concatenate([self._weights[self._order].ravel(), self._biases])
        starts = self._penalty.groups.starts * self._n_clusters
        point = Point(z, self._everywhere, starts, self._penalty)
        residuals = point.residuals
        self.residual = max(point.bias_residual, float(residuals.max()))
        return point, residuals

    def _look_around(self):
        """End with a certificate, or add the groups with the largest residuals."""
        point, residuals = self._residuals()
        inside = point.norms > 0
        missing = np.where(inside, 0.0, residuals)
        wanted = missing > self._tolerance
        self._n_looks += 1
        if not wanted.any() or not inside.any() or self._n_looks == _MOST_LOOKS:
            # Solved, as far as rounding allows.
            self.is_done = True
            return
        n_new = max(_FEWEST_NEW, int(np.count_nonzero(inside)))
        chosen = np.argsort(-missing, kind="stable")[:n_new]
        self._bring_in(chosen[wanted[chosen]], point)

    def _bring_in(self, chosen, point):
        """Add groups to the working set, a short proximal step away from zero."""
        starts = point.starts
        gradient = point.gradient[: starts[-1]]
        lengths = np.sqrt(np.add.reduceat(np.square(gradient), starts[:-1]))
        step = 1e-2 * np.sqrt(np.square(point.norms).sum()) / lengths[chosen].max()
        step = min(1.0, step)
        factors = np.zeros_like(lengths)
        factors[chosen] = self._penalty.prox_of_norms(step * lengths, step)[chosen]
        factors[chosen] /= lengths[chosen]
        entering = np.repeat(factors, np.diff(starts)) * gradient
        self._weights[self._order] -= entering.reshape(-1, self._n_clusters)
        active = point.norms > 0
        active[chosen] = True
        self._begin(active)
