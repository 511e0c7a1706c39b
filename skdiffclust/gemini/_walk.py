"""Steps along the regularisation path: one per penalty, each from the last.

A step works on the features that are selected, and on those that its certificate says
are missing: features that are out may come back at any step. If a callback ends the
training, there is no next loop, and the step is None.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sklearn.utils import check_random_state

from skdiffclust._assignments import softmax
from skdiffclust._optimisers import Adam, Momentum
from skdiffclust._threads import small_products
from skdiffclust.gemini._models import MODELS
from skdiffclust.gemini._objectives import OBJECTIVES
from skdiffclust.gemini._path import (
    SparsePath,
    Step,
    attributes_of_model,
    compact,
    expand,
)
from skdiffclust.gemini._penalties import GroupLasso, Groups, factors_of_groups
from skdiffclust.gemini._problem import Problem, Samples, Settings, make_problem
from skdiffclust.gemini._sparse_rows import centered, column_squares, take_columns
from skdiffclust.gemini._starts import make_starts, matched, ordered, softened
from skdiffclust.gemini._training import loss_and_gradients, train_model

# The largest certificate of a solution.
TOLERANCE = 0.01
# The same for a model with ReLUs, whose gradient jumps.
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


@dataclass(frozen=True)
class Options:
    """How the penalty grows along a path, in the unit of the user."""

    alpha_init: float | None = None
    alpha_multiplier: float = MULTIPLIER
    min_features: int = 2
    refine: bool = False
    max_alpha: float = np.inf


@dataclass(frozen=True)
class Task:
    """What the steps of a path have in common: a problem, and how it is penalised."""

    settings: Settings
    samples: Samples
    problem: Problem
    penalty: GroupLasso  # with alpha zero

    @classmethod
    def of(cls, settings, samples):
        """Return the task of Samples under Settings."""
        if samples.precomputed is not None and settings.dynamic:
            raise ValueError(
                "The 'precomputed' parameter must be None for SparseGEMINI with "
                "dynamic=True, where it is computed from the features that are in. Got "
                "a matrix instead. Set dynamic=False, or leave it out."
            )
        problem = make_problem(settings, samples)
        groups = Groups.of(settings.groups, len(samples.means))
        factors = settings.penalty_factor
        if factors is not None:
            factors = factors_of_groups(factors, problem.X, problem.row_weights, groups)
        penalty = GroupLasso(groups, 0.0, factors, settings.hierarchy)
        return cls(settings, samples, problem, penalty)

    @property
    def tolerance(self):
        """The largest certificate of a step, None where there is none."""
        n_samples = len(self.problem.X)
        is_whole = self.settings.batch(n_samples) >= n_samples
        if not is_whole or not OBJECTIVES[self.settings.objective].is_smooth:
            return None
        return TOLERANCE if self.settings.kind == "linear" else TRAINED_TOLERANCE

    @property
    def is_exact(self):
        """Whether steps are solved and not trained."""
        return self.settings.kind == "linear" and self.tolerance is not None

    @cached_property
    def shared(self):
        """The fitted attributes that all steps have in common."""
        n_features = len(self.samples.means)
        return {
            "n_features_in_": n_features,
            "means_": self.samples.means,
            "_precomputed_given": self.samples.precomputed is not None,
            **self.settings.gamma_attribute(self.problem.units, n_features),
        }

    def attributes(self, model):
        """Return the fitted attributes of a model, for callbacks."""
        model = self.problem.units.model(model)
        return self.shared | attributes_of_model(model, self.penalty.groups)

    def logits(self, model):
        """Return the logits (n, k) that `predict` computes for the samples."""
        return self.problem.units.model(model).outputs(self.rows)

    @cached_property
    def rows(self):
        """The centred samples, in the unit of the user."""
        return centered(self.samples.X, self.samples.means)

    def problem_of(self, support):
        """Return the Problem of a step: in the dynamic regime of its support (d,)."""
        is_fixed = not self.settings.dynamic or self.problem.relation is None
        if is_fixed or not support.any():
            return self.problem
        relation = self.settings.relation(
            self.problem.X[:, support], self.samples.X[:, support], self.problem.units
        )
        return replace(self.problem, relation=relation)


class Walk:
    """State of a path: the model, its momentum, and the random stream.

    Steps of a linear model with a tolerance are solved and certified, see `_solver`;
    others are trained, until their certificate is at most the tolerance if there is
    one. `loops` yields the loops of training; those of the steps so far are in
    `taken`. `starts` are those of the first stage, None if it is not part of the walk.
    """

    def __init__(self, task: Task, model, rng, loops: Iterator, starts=None):
        self.task = task
        self.rng = rng
        self.starts = starts
        self.taken = []
        self.model = type(model).from_arrays([array.copy() for array in model.arrays])
        self._loops = loops
        self._moving = [self.model.arrays]
        if not task.is_exact:
            self._optimiser = Momentum(self.model.arrays, task.settings.learning_rate)
            self._moving.append(self._optimiser.state)
        # The objective without a penalty: near the end of a path there is hardly one.
        self.scale = 0.0
        self._latest = None, None

    @property
    def support(self):
        """Which features (d,) are selected."""
        return self.task.penalty.support(self.model)

    def arrays(self):
        """Return all arrays that a step changes, by name, without the random stream."""
        return {
            f"{moving}.{name}": array
            for moving, arrays in zip(("model", "previous"), self._moving, strict=False)
            for name, array in zip(self.model.names, arrays, strict=True)
        }

    def save(self):
        """Return copies of all arrays that a step changes, and the state of the stream.

        They are the arguments of `restore`.
        """
        arrays = {name: array.copy() for name, array in self.arrays().items()}
        return arrays, self.rng.get_state()

    def restore(self, arrays, stream):
        """Continue from what `save` returned."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]
        self.rng.set_state(stream)

    def record(self, alpha, n_iter, kkt=np.nan):
        """Return the Step of the current arrays, with empty clusters moved last."""
        logits = self.task.logits(self.model)
        n_clusters = logits.shape[1]
        is_empty = np.bincount(logits.argmax(axis=1), minlength=n_clusters) == 0
        if is_empty.any():
            order = np.argsort(is_empty, kind="stable")
            logits = logits[:, order]
            for arrays in self._moving:
                moved = type(self.model).from_arrays(arrays).permute_outputs(order)
                _copy_into(arrays, moved.arrays)
        return self.step_of(self.model, logits, alpha, n_iter, kkt)

    def step_of(self, model, logits, alpha, n_iter, kkt=np.nan):
        """Return the Step of a model with these logits (n, k)."""
        support = self.task.penalty.support(model)
        problem = self.problem_of(support)
        objective, _ = problem.objective(
            softmax(logits), problem.row_weights, problem.relation
        )
        return Step(
            alpha=float(alpha),
            objective=float(objective),
            penalty=self.task.penalty.value(model),
            kkt=float(kkt),
            support=support,
            labels=logits.argmax(axis=1),
            n_iter=n_iter,
            weights=compact(model, support),
            logits=logits[problem.some_rows],
        )

    def advance(self, alpha, is_last=False, is_trial=False):
        """Train at a penalty and return its Step, None if a callback ends the training.

        The last one is refined if steps are solved. A trial has no certificate if it is
        trained.
        """
        penalty = self.task.penalty.at(alpha)
        problem = self.problem_of(self.support)
        if self.task.is_exact:
            return self._solve(problem, penalty, is_last, is_trial)
        # A resumed path does not have the potentials, which need not be unique.
        getattr(problem.relation, "potentials", {}).clear()
        n_iter = 0
        kkt = np.nan
        tolerance = self.task.tolerance
        has_residual = np.full(len(penalty.groups), tolerance is None)
        is_far = True
        while is_far and n_iter < _MOST_EPOCHS * self.task.settings.max_iter:
            loop = self._next_loop(is_trial)
            if loop is None:
                return None
            loop.compare_with(self.scale)
            active = penalty.groups.norms(self.model.inputs[0]) > 0
            self._train(active | has_residual, problem, penalty, loop)
            n_iter += loop.n_iter
            if loop.stop_reason == "diverged":
                break
            if alpha and not (is_trial or tolerance is None):
                _, _, gradients = loss_and_gradients(self.model, problem)
                kkt, has_residual = penalty.certificate(self.model, gradients)
            is_far = kkt > (tolerance or np.inf) and loop.stop_reason == "patience"
        return self.record(alpha, n_iter, kkt)

    def problem_of(self, support):
        """Return the Problem of a support (d,); that of the latest one is kept."""
        key = support.tobytes()
        if key != self._latest[0]:
            self._latest = key, self.task.problem_of(support)
        return self._latest[1]

    def _next_loop(self, is_trial):
        """Return the next loop, None if a callback has ended the training."""
        loop = next(self._loops, None)
        if loop is not None and not is_trial:
            self.taken.append(loop)
        return loop

    def _solve(self, problem, penalty, is_last, is_trial):
        """Solve at a penalty and return its Step, None if there is no next loop."""
        # numba is imported here, because it would slow down the import of the package.
        from skdiffclust.gemini._solver import GroupSolver

        loop = self._next_loop(is_trial)
        if loop is None:
            return None
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
                    attributes=lambda: self.task.attributes(
                        type(self.model).from_arrays(solver.arrays(weights.dtype))
                    ),
                    objective=solver.point.value,
                )
                if solver.is_done and (solver.is_fine or not is_last):
                    loop.stop("solved")
        loop.take_best_state()
        _copy_into(self.model.arrays, solver.arrays(weights.dtype))
        return self.record(penalty.alpha, loop.n_iter, solver.certificate())

    def _train(self, active, problem, penalty, loop):
        """Run the epochs of a step on active groups (g,); keep the last weights.

        The weights of all other groups are zero.
        """
        penalty, columns = penalty.on(active)
        if not np.array_equal(columns, np.arange(problem.X.shape[1])):
            problem = replace(problem, X=take_columns(problem.X, columns))
        kind = self.task.settings.kind
        arrays, state = (
            compact(MODELS[kind].from_arrays(whole), columns) for whole in self._moving
        )
        optimiser = Momentum(arrays, self._optimiser.learning_rate)
        optimiser.state = state

        def on_all(arrays):
            return expand(kind, arrays, columns, len(self.model.inputs[0]))

        train_model(
            MODELS[kind].from_arrays(arrays),
            problem,
            loop,
            optimiser,
            batch_size=self.task.settings.batch(len(problem.X)),
            random_state=self.rng,
            attributes=lambda model: self.task.attributes(
                MODELS[kind].from_arrays(on_all(model.arrays))
            ),
            penalty=penalty,
        )
        # A path has many loops, and only the last weights are needed.
        best = loop.take_best_state()
        if loop.stop_reason == "diverged":
            # The velocity, which has diverged, is reset.
            arrays = state = best
        for whole, values in zip(self._moving, (arrays, state), strict=True):
            _copy_into(whole, on_all(values))


def new_walk(task, loops):
    """Return a Walk whose weights and stream are arbitrary, for a checkpoint to set."""
    rng = np.random.RandomState(0)
    sizes = task.settings.layer_sizes(len(task.samples.means))
    model = MODELS[task.settings.kind].with_random_weights(
        sizes, rng, task.problem.X.dtype
    )
    return Walk(task, model, rng, loops)


def _copy_into(arrays, values):
    """Overwrite arrays with the values of others."""
    for array, new in zip(arrays, values, strict=True):
        array[...] = new


def first_stage(task, loops, random_state):
    """Train initial models without penalty; return the best as a Walk and its Step."""
    settings = task.settings
    problem = task.problem
    rng = check_random_state(random_state)
    starts = make_starts(problem, settings, rng)
    runs = []
    for number, (model, loop) in enumerate(zip(starts.models, loops, strict=False)):
        is_final = number == starts.final
        train_model(
            model,
            problem,
            loop,
            None if is_final else Adam(model.arrays, settings.learning_rate),
            batch_size=settings.batch(len(problem.X)),
            random_state=rng,
            attributes=task.attributes,
            penalty=task.penalty,
        )
        runs.append(loop)
    losses = [loop.best_loss for loop in runs]
    number = int(np.argmin(losses))
    trained = [type(model).from_arrays(loop.take_best_state()) for loop in runs]
    if settings.n_clusters == 1:
        # No weight changes the objective, so no feature is selected.
        for weights in (w for model in trained for w in model.inputs):
            weights[...] = 0
    best = ordered(trained[number], task.logits(trained[number]), problem.row_weights)
    logits = task.logits(best)
    # The best one may be sharp, without a gradient.
    start = softened(best, problem)
    if settings.kind == "skip" or task.tolerance is None:
        # Steps that are trained continue from the training.
        start = trained[int(np.argmin(losses[: starts.n_trained]))]
        own = start.forward(problem.X)[0].argmax(axis=1)
        start = matched(start, own, logits.argmax(axis=1))
    walk = Walk(task, start, rng, loops, starts)
    step = walk.step_of(best, logits, 0.0, runs[number].n_iter)
    walk.scale = abs(step.objective)
    return walk, step


def path_steps(task, loops, random_state, options, begun=None):
    """Yield the Walk and its newest Step, for growing penalties under Options.

    The first step has no penalty, and the last one at most `min_features`. `begun` is
    the Walk and the Step that a path continues from. With `refine`,
    where more than one group leaves at once, the step is taken back and the penalty
    between the two is tried first.
    """
    walk, step = begun or first_stage(task, loops, random_state)
    if begun is None:
        yield walk, step
    unit = task.problem.units.alpha
    last_alpha = step.alpha
    alpha = last_alpha * options.alpha_multiplier or (options.alpha_init or 0.0) / unit
    if not alpha:
        alpha = first_alpha(walk)
    n_in = np.count_nonzero(walk.support)
    while alpha is not None and n_in > options.min_features:
        if alpha > options.max_alpha / unit:
            return
        before = walk.save() if options.refine else None
        were_in = walk.support
        step = walk.advance(alpha)
        if step is None:
            return
        n_left = np.count_nonzero(task.penalty.groups.sums(were_in & ~step.support))
        if options.refine and n_left > 1 and alpha > _SMALLEST_RATIO * last_alpha > 0:
            walk.restore(*before)
            alpha = float(np.sqrt(alpha * last_alpha))
            continue
        yield walk, step
        n_in = np.count_nonzero(step.support)
        last_alpha = alpha
        alpha = alpha * options.alpha_multiplier


def make_path(steps, task, keep_threshold, template, shared):
    """Return the SparsePath of Steps, in the unit of the user.

    Estimators of its steps are copies of `template` with the attributes `shared`.
    """
    kind = task.settings.kind
    return SparsePath(
        [task.problem.units.step(step, kind) for step in steps],
        kind,
        None if task.settings.dynamic else keep_threshold,
        template,
        shared,
        task.penalty.groups,
        task.problem.row_weights[task.problem.some_rows],
    )


def advance_to(alpha, walk):
    """Return the Step at a penalty, None if a callback ends the training.

    If steps are solved, it follows the steps of the default path before it, so that the
    solution is that of the path, and not another local optimum.
    """
    if walk.task.is_exact:
        before = first_alpha(walk)
        if before is None:
            return None
        while before < alpha and walk.support.any():
            if walk.advance(before) is None:
                return None
            before *= MULTIPLIER
    # A single solution is computed to more digits.
    return walk.advance(alpha, is_last=True)


def first_alpha(walk):
    """Return the first penalty of a path, None if a callback ends the training.

    If steps are solved it is a thousandth of `largest_alpha`, or a hundredth where that
    is not solved. If they are trained, the penalty is doubled until a feature is
    dropped, and the penalty before is returned; it begins where shrinking alone,
    without any gradient, could not empty the smallest group.
    """
    task = walk.task
    if task.is_exact:
        # It may be too small to be solved within the iterations of a step, as where the
        # samples are separated with room to spare.
        problem = walk.problem_of(walk.support)
        before = walk.save()
        alpha = _SMALLEST_SHARE * largest_alpha(problem, walk.model, task.penalty)
        step = walk.advance(alpha, is_trial=True)
        walk.restore(*before)
        if step is None:
            return None
        return alpha if step.kkt <= TOLERANCE else 10 * alpha
    norms = task.penalty.groups.norms(walk.model.inputs[0])
    n_in = np.count_nonzero(walk.support)
    if not n_in:
        return 0.0  # samples are equal
    settings = task.settings
    alpha = float(norms[norms > 0].min())
    alpha /= 10 * settings.learning_rate * settings.max_iter
    while True:
        before = walk.save()
        step = walk.advance(alpha, is_trial=True)
        if step is None:
            return None
        if np.count_nonzero(step.support) < n_in:
            walk.restore(*before)
            return alpha / 2
        alpha *= 2


def uncertified(loops, kkts):
    """Return the loops of steps without certificates kkts (s,), judged by their losses.

    Steps with certificates are judged by these, unless the training diverged.
    """
    if np.isnan(kkts).all():
        return loops
    return [loop for loop in loops if loop.stop_reason == "diverged"]


def largest_alpha(problem, model, penalty):
    """Return approximately the smallest penalty at which no feature is selected.

    It is the penalty for the features with the largest factor, which leave first. Under
    the MMD, the derivative of the objective by the length of the weights of one group,
    where all are zero, is at most the root of the variance of the group times the
    largest eigenvalue of the kernel between the samples, over that of the clusters. For
    other objectives it is ten times the objective over the penalty at a model.
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
