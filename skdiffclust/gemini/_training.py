"""Loss and gradients of a model on samples, and the epochs."""

import numpy as np

from skdiffclust._assignments import softmax, softmax_backward
from skdiffclust._batches import mini_batches
from skdiffclust._threads import largest_product, small_products
from skdiffclust.gemini._objectives import mmd_of_logits
from skdiffclust.gemini._supervision import Supervision

# Factor of the penalty for links and labels.
_LINK_WEIGHT = 10.0


def loss_and_gradients(model, problem, rows=None):
    """Return the loss, the objective, and the gradients of the arrays of a model.

    The loss is minus the objective, plus l2 times the sum of squared weights and ten
    times the penalty for links and labels. `rows` (m,) are the samples of a batch, None
    for all.
    """
    if problem.device is None:
        backward = model.backward
        logits, inputs = model.forward(problem.X if rows is None else problem.X[rows])
    else:
        backward = problem.on_device.backward
        logits, inputs = problem.on_device.forward(model, rows)
    loss, value, gradient = logits_loss(problem, logits, rows)
    gradients = backward(gradient, inputs)
    if problem.l2:
        loss += _add_decay(model, gradients, problem)
    return loss, value, gradients


def logits_loss(problem, logits, rows=None):
    """Return the loss of logits (b, k), the objective, and the gradient by them.

    `rows` (b,) are those of a batch, None for all. Without l2; the gradient is in the
    dtype of the logits.
    """
    weights, relation = problem.of_batch(rows)
    if problem.compiled_mode is not None:
        value, gradient = mmd_of_logits(
            logits, weights, relation, problem.compiled_mode
        )
    else:
        # Column by column: sums over a few clusters are those of long arrays.
        assignments = softmax(np.asfortranarray(logits))
        value, by_assignments = problem.objective(assignments, weights, relation)
        gradient = softmax_backward(assignments, -by_assignments)
    loss = -value
    if problem.constraints is not None:
        supervision = (
            problem.supervision
            if rows is None
            else Supervision.of(problem.constraints, rows)
        )
        assignments = softmax(logits)
        penalty, by_assignments = supervision.penalty(assignments)
        loss += _LINK_WEIGHT * penalty
        gradient += softmax_backward(assignments, _LINK_WEIGHT * by_assignments)
    return loss, value, gradient.astype(logits.dtype, copy=False)


def _add_decay(model, gradients, problem):
    """Add the gradient of l2 times the sum of squared weights; return the value."""
    total = 0.0
    for name, array, gradient in zip(model.names, model.arrays, gradients, strict=True):
        if not name.startswith("biases"):
            factor = problem.l2[name not in model.input_names]
            gradient += 2 * factor * array
            total += factor * float(np.vdot(array, array))
    return total


def train_model(
    model,
    problem,
    loop,
    optimiser,
    *,
    batch_size,
    random_state,
    attributes=None,
    penalty=None,
):
    """Run the epochs of a loop; its best state is a list of copies of the arrays.

    With one batch an epoch, the recorded loss is that of the arrays before the step,
    which is computed anyway. No step follows the last one, so that the final arrays are
    those recorded, unless `max_iter` ends a training under a penalty. With more batches
    the recorded loss is the mean over them. `attributes` makes fitted attributes of a
    model, for callbacks, which otherwise receive no estimator; the proximal operator of
    a `penalty` is applied after each step. Without an optimiser no step is taken.
    """
    whole = batch_size >= len(problem.X)

    def step(gradients):
        if optimiser is None:
            return
        optimiser.step(model.arrays, gradients)
        if penalty is not None:
            penalty.prox(model, optimiser.learning_rate)

    n_rows = min(batch_size, len(problem.X))
    # The loop detects an overflow and warns of it.
    with (
        np.errstate(over="ignore", invalid="ignore"),
        small_products(largest_product(n_rows, model.arrays)),
    ):
        for _ in loop:
            if whole:
                loss, value, gradients = loss_and_gradients(model, problem)
            else:
                loss, value = _batch_epoch(
                    model, problem, step, batch_size, random_state
                )
            if penalty is not None and penalty.alpha:
                loss += penalty.alpha * penalty.value(model)
            loop.record(
                loss,
                state=lambda: [array.copy() for array in model.arrays],
                attributes=attributes and (lambda: attributes(model)),
                objective=value,
            )
            if optimiser is None:
                loop.stop("solved")
            continues = loop.stop_reason is None
            if penalty is not None and penalty.alpha:
                # The next penalty continues from here: one epoch is one step.
                continues |= loop.stop_reason == "max_iter"
            if whole and continues:
                step(gradients)


def _batch_epoch(model, problem, step, batch_size, random_state):
    """Take a step for each batch; return the means of loss and objective over them.

    A batch whose samples have no weight is skipped.
    """
    sums = np.zeros(2)
    n_batches = 0
    for rows in mini_batches(len(problem.X), batch_size, random_state):
        if not problem.row_weights[rows].any():
            continue
        loss, value, gradients = loss_and_gradients(model, problem, rows)
        step(gradients)
        sums += loss, value
        n_batches += 1
    return sums / n_batches
