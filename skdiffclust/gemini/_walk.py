"""Steps along the regularisation path: one per penalty, each from the last.

A step works on the features that are selected, and on those that its certificate says
are missing: features that are out may come back at any step. If a callback ends the
training, there is no next loop, which is a StopIteration.
"""

from dataclasses import replace

import numpy as np

from skdiffclust._assignments import softmax
from skdiffclust._checkpoint import restore_stream, stream_arrays
from skdiffclust._optimisers import Momentum
from skdiffclust._threads import small_products
from skdiffclust.gemini._models import MODELS
from skdiffclust.gemini._path import Step, compact, expand
from skdiffclust.gemini._sparse_rows import column_squares, take_columns
from skdiffclust.gemini._training import loss_and_gradients, train_model

# The largest certificate of a solution.
TOLERANCE = 0.01
# The same of a model with ReLUs, whose gradient jumps.
TRAINED_TOLERANCE = 0.05
# First penalty of a path, as a share of `largest_alpha`.
_SMALLEST_SHARE = 1e-3
# Factor from one penalty of a path to the next.
MULTIPLIER = 1.05
# A perceptron is trained again at one penalty until its certificate is small enough,
# for at most this many times `max_iter` epochs. The first penalties of a path need up
# to 260 trainings of about ten epochs each.
_MOST_EPOCHS = 5
# Refinement ends when two penalties are this close.
_SMALLEST_RATIO = 1.0005


class Walk:
    """State of a path: the model, its momentum, and the random stream.

    `problem_of` takes the support (d,) and returns the Problem of a step; without the
    dynamic regime it is the same one each time. `attributes` makes fitted attributes of
    a model, for callbacks; `logits` are those that `predict` computes for the samples.
    Steps of a linear model with a `tolerance` are solved and certified, see `_solver`;
    others are trained, until their certificate is at most `tolerance` unless that is
    None.
    """

    def __init__(
        self,
        kind,
        arrays,
        penalty,
        problem_of,
        rng,
        batch_size,
        rate,
        attributes,
        logits,
        tolerance,
        max_iter,
    ):
        self.kind = kind
        self.penalty = penalty
        self.rng = rng
        self.problem_of = problem_of
        self.batch_size = batch_size
        self.attributes = attributes
        self.logits = logits
        self.is_exact = kind == "linear" and tolerance is not None
        self.tolerance = tolerance
        self.max_iter = max_iter
        self.model = MODELS[kind].from_arrays([array.copy() for array in arrays])
        self.optimiser = Momentum(self.model.arrays, rate)
        # The objective without a penalty: near the end of a path there is hardly one.
        self.scale = 0.0

    @property
    def support(self):
        """Which features (d,) are selected."""
        return self.penalty.support(self.model)

    def state(self):
        """Return copies of all that a step changes, as arrays by name."""
        arrays = stream_arrays(self.rng)
        for name, array, previous in zip(
            self.model.names, self.model.arrays, self.optimiser.state, strict=True
        ):
            arrays[f"model.{name}"] = array.copy()
            arrays[f"previous.{name}"] = previous.copy()
        return arrays

    def load(self, arrays):
        """Continue from what `state` returned."""
        restore_stream(self.rng, arrays)
        for name, array, previous in zip(
            self.model.names, self.model.arrays, self.optimiser.state, strict=True
        ):
            array[...] = arrays[f"model.{name}"]
            previous[...] = arrays[f"previous.{name}"]

    def record(self, alpha, n_iter, kkt=np.nan):
        """Return the Step of the current arrays, with empty clusters moved last."""
        logits = self.logits(self.model)
        n_clusters = logits.shape[1]
        is_empty = np.bincount(logits.argmax(axis=1), minlength=n_clusters) == 0
        if is_empty.any():
            order = np.argsort(is_empty, kind="stable")
            logits = logits[:, order]
            for arrays in (self.model.arrays, self.optimiser.state):
                moved = MODELS[self.kind].from_arrays(arrays).permute_outputs(order)
                for array, new in zip(arrays, moved.arrays, strict=True):
                    array[...] = new
        return self.step_of(self.model, logits, alpha, n_iter, kkt)

    def step_of(self, model, logits, alpha, n_iter, kkt=np.nan):
        """Return the Step of a model with these logits (n, k)."""
        support = self.penalty.support(model)
        problem = self.problem_of(support)
        objective, _ = problem.objective(
            softmax(logits), problem.row_weights, problem.relation
        )
        return Step(
            alpha=float(alpha),
            objective=float(objective),
            penalty=self.penalty.value(model),
            kkt=float(kkt),
            support=support,
            labels=logits.argmax(axis=1),
            n_iter=n_iter,
            weights=compact(model, support),
            logits=logits[problem.some_rows],
        )

    def advance(self, alpha, loops, is_last=False, is_trial=False):
        """Train at a penalty and return its Step.

        The last one is refined if steps are solved. A trial has no certificate if it is
        trained.
        """
        penalty = self.penalty.at(alpha)
        problem = self.problem_of(self.support)
        if self.is_exact:
            return self._solve(problem, penalty, loops, is_last)
        # A resumed path does not have the potentials, which need not be unique.
        getattr(problem.relation, "potentials", {}).clear()
        n_iter = 0
        kkt = np.nan
        has_residual = np.full(len(self.penalty.groups), self.tolerance is None)
        is_far = True
        while is_far and n_iter < _MOST_EPOCHS * self.max_iter:
            loop = next(loops)
            loop.compare_with(self.scale)
            active = self.penalty.groups.norms(self.model.inputs[0]) > 0
            self._train(active | has_residual, problem, penalty, loop)
            n_iter += loop.n_iter
            if loop.stop_reason == "diverged":
                break
            if alpha and not (is_trial or self.tolerance is None):
                _, _, gradients = loss_and_gradients(self.model, problem)
                kkt, has_residual = penalty.certificate(self.model, gradients)
            is_far = kkt > (self.tolerance or np.inf) and loop.stop_reason == "patience"
        return self.record(alpha, n_iter, kkt)

    def _solve(self, problem, penalty, loops, is_last):
        """Solve at a penalty and return its Step."""
        # numba is imported here, because it would slow down the import of the package.
        from skdiffclust.gemini._solver import GroupSolver

        loop = next(loops)
        # It ends with a certificate, not for lack of progress.
        loop.disable_patience()
        weights, biases = self.model.arrays
        solver = GroupSolver(problem, weights, biases, penalty, TOLERANCE)

        with small_products(len(problem.X) * weights.size):
            for _ in loop:
                if solver.is_done:
                    solver.refine()
                else:
                    solver.iterate()
                loop.record(
                    solver.point.loss,
                    state=solver.point.z.copy,
                    attributes=lambda: self.attributes(
                        MODELS[self.kind].from_arrays(solver.arrays(weights.dtype))
                    ),
                    objective=solver.point.value,
                )
                if solver.is_done and (solver.is_fine or not is_last):
                    loop.stop("solved")
        loop.take_best_state()
        solved = solver.arrays(weights.dtype)
        for array, new in zip(self.model.arrays, solved, strict=True):
            array[...] = new
        return self.record(penalty.alpha, loop.n_iter, solver.certificate())

    def _train(self, active, problem, penalty, loop):
        """Run the epochs of a step on active groups (g,); keep the last weights.

        The weights of all other groups are zero.
        """
        penalty, columns = penalty.on(active)
        if not np.array_equal(columns, np.arange(problem.X.shape[1])):
            problem = replace(problem, X=take_columns(problem.X, columns))
        wholes = [
            MODELS[self.kind].from_arrays(arrays)
            for arrays in (self.model.arrays, self.optimiser.state)
        ]
        arrays, state = (compact(whole, columns) for whole in wholes)
        optimiser = Momentum(arrays, self.optimiser.learning_rate)
        optimiser.state = state

        def on_all(arrays):
            return expand(self.kind, arrays, columns, len(self.model.inputs[0]))

        train_model(
            MODELS[self.kind].from_arrays(arrays),
            problem,
            loop,
            optimiser,
            batch_size=self.batch_size,
            random_state=self.rng,
            attributes=lambda model: self.attributes(
                MODELS[self.kind].from_arrays(on_all(model.arrays))
            ),
            penalty=penalty,
        )
        # A path has many loops, and only the last weights are needed.
        best = loop.take_best_state()
        if loop.stop_reason == "diverged":
            # The velocity, which has diverged, is reset.
            arrays = state = best
        for whole, values in zip(wholes, (arrays, state), strict=True):
            for array, new in zip(whole.arrays, on_all(values), strict=True):
                array[...] = new


def first_alpha(walk, loops):
    """Return the first penalty of a path.

    If steps are solved it is a thousandth of `largest_alpha`, or a hundredth where that
    is not solved. If they are trained, the penalty is doubled until a feature is
    dropped, and the penalty before is returned; it begins where shrinking alone,
    without any gradient, could not empty the smallest group.
    """
    if walk.is_exact:
        return _first_solved_alpha(walk, loops)
    norms = walk.penalty.groups.norms(walk.model.inputs[0])
    n_in = np.count_nonzero(walk.support)
    if not n_in:
        return 0.0  # samples are equal
    rate = walk.optimiser.learning_rate
    alpha = float(norms[norms > 0].min()) / (10 * rate * walk.max_iter)
    while True:
        before = walk.state()
        step = walk.advance(alpha, loops, is_trial=True)
        if np.count_nonzero(step.support) < n_in:
            walk.load(before)
            return alpha / 2
        alpha *= 2


def _first_solved_alpha(walk, loops):
    """Return what `first_alpha` returns for steps that are solved.

    It may be too small to be solved within the iterations of a step, as where the
    samples are separated with room to spare.
    """
    problem = walk.problem_of(walk.support)
    alpha = _SMALLEST_SHARE * largest_alpha(problem, walk.model, walk.penalty)
    before = walk.state()
    step = walk.advance(alpha, loops)
    walk.load(before)
    return alpha if step.kkt <= TOLERANCE else 10 * alpha


def largest_alpha(problem, model, penalty):
    """Return approximately the smallest penalty at which no feature is selected.

    It is that of features with the largest factor of the penalty, which leave first.
    Under the MMD, the derivative of the objective by the length of the weights of one
    group, where all are zero, is at most the root of the variance of the group times
    the largest eigenvalue of the kernel between the samples, over that of the clusters.
    For other objectives it is ten times the objective over the penalty at a model.
    """
    X = problem.X
    weights = problem.row_weights.astype(np.float64)
    if not hasattr(problem.relation, "products"):
        loss, value, _ = loss_and_gradients(model, problem)
        length = penalty.value(model)
        # One cluster has the objective 0, and equal samples a model without weights.
        if not value > 0 or not length > 0:
            return 1.0
        return 10 * float(value) / length
    deviations = np.sqrt(column_squares(X, weights))
    norms = penalty.groups.norms(deviations[:, None])
    largest = float(norms.max() / penalty.costs.max())
    # Power iterations of the kernel, weighted on both sides. They start from a sum of
    # features, with factors that let no equal or opposite ones cancel.
    roots = np.sqrt(weights)
    factors = np.random.RandomState(0).normal(size=len(deviations))
    vector = roots * (X @ (deviations * factors))
    eigenvalue = 0.0
    for _ in range(20):
        norm = float(np.sqrt(vector @ vector))
        if not norm > 0:
            break
        product, _ = problem.relation.products(
            (roots * vector / norm)[:, None].astype(X.dtype), problem.row_weights
        )
        vector = roots * product[:, 0]
        eigenvalue = float(np.sqrt(vector @ vector))
    if not eigenvalue > 0 or not largest > 0:
        return 1.0
    return largest * np.sqrt(eigenvalue / model.arrays[-1].size)


def advance_to(alpha, walk, loops):
    """Return the Step at a penalty.

    If steps are solved, it follows the steps of the default path before it, so that the
    solution is that of the path, and not another local optimum.
    """
    if walk.is_exact:
        before = first_alpha(walk, loops)
        while before < alpha and walk.support.any():
            walk.advance(before, loops)
            before *= MULTIPLIER
    # A single solution is computed to more digits.
    return walk.advance(alpha, loops, is_last=True)


def walk_path(
    walk,
    loops,
    alpha,
    multiplier,
    min_features,
    refine,
    last_alpha=0.0,
    max_alpha=np.inf,
):
    """Yield the Steps of growing penalties until at most min_features are in.

    None is larger than `max_alpha`. With `refine`, where more than one group leaves at
    once, the step is taken back and the penalty between the two is tried first.
    """
    n_in = np.count_nonzero(walk.support)
    while n_in > min_features and alpha <= max_alpha:
        before = walk.state()
        were_in = walk.support
        try:
            step = walk.advance(alpha, loops)
        except StopIteration:
            return
        n_left = np.count_nonzero(walk.penalty.groups.sums(were_in & ~step.support))
        if refine and n_left > 1 and alpha > _SMALLEST_RATIO * last_alpha > 0:
            walk.load(before)
            alpha = float(np.sqrt(alpha * last_alpha))
            continue
        yield step
        n_in = np.count_nonzero(step.support)
        last_alpha = alpha
        alpha = alpha * multiplier
