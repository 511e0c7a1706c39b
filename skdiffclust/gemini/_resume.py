"""Checkpoints of a path, from which it continues bit for bit."""

import numpy as np

from skdiffclust._checkpoint import (
    STREAM_VALUES,
    Checkpoint,
    identify,
    probe_rows,
    restore_stream,
    stream_arrays,
)
from skdiffclust.gemini._path import Step
from skdiffclust.gemini._sparse_rows import arrays_of_rows

_KIND = "SparseGEMINI.path"
_SCALARS = ("alpha", "objective", "penalty", "kkt", "n_iter")
_COLUMNS = (*_SCALARS, "support", "labels", "logits")


class PathCheckpoint:
    """The steps of a path in a folder: the first one, without penalty, and all others.

    Parameters
    ----------
    folder : path-like
    task : Task
    params : dict
        Parameters of the estimator and of the path.
    """

    def __init__(self, folder, task, params):
        self._checkpoint = Checkpoint(folder, _KIND, _identity(task, params))

    def open(self, walk, *, resume):
        """Return the finished Steps, and restore the Walk after the last of them.

        ValueError if the folder does not hold a path of this data and these parameters.
        """
        task = walk.task
        model = walk.model
        self._names = [f"model.{name}" for name in model.names]
        inputs = [f"model.{name}" for name in model.input_names]
        problem = task.problem
        n_clusters = task.settings.n_clusters
        example = {
            **dict.fromkeys(("alpha", "objective", "penalty", "kkt"), 0.0),
            "n_iter": 0,
            "support": walk.support,
            "labels": np.zeros(len(problem.X), dtype=np.int64),
            "logits": np.zeros((len(problem.some_rows), n_clusters), problem.X.dtype),
            **dict(zip(self._names, model.arrays, strict=True)),
        }
        records, state = self._checkpoint.open(
            resume=resume,
            record=example,
            state=_state(walk),
            varying=inputs,
            n_values=STREAM_VALUES | {"labels": n_clusters},
        )
        for number, record in enumerate(records):
            n_selected = np.count_nonzero(record["support"])
            if any(len(record[name]) != n_selected for name in inputs):
                raise self._checkpoint.refusal(f"other weights in step {number}")
        steps = [self._step(record) for record in records]
        if steps:
            restore_stream(walk.rng, state)
            walk.restore(state, walk.rng.get_state())
            walk.scale = abs(steps[0].objective)
        return steps

    def append(self, step, walk):
        """Write a Step and the state after it; warn if that cannot be done."""
        record = {column: getattr(step, column) for column in _COLUMNS}
        record |= zip(self._names, step.weights, strict=True)
        self._checkpoint.append(record, _state(walk))

    def _step(self, record):
        """Return the Step of a record."""
        columns = {
            name: record[name] if record[name].ndim else record[name].item()
            for name in _COLUMNS
        }
        return Step(**columns, weights=[record[name] for name in self._names])


def _state(walk):
    """Return all that a step of a Walk changes, as arrays by name."""
    return stream_arrays(walk.rng) | walk.arrays()


def arrays_of_samples(samples):
    """Return the arrays that Samples consist of, by name."""
    arrays = arrays_of_rows(samples.X) | {"sample_weight": samples.row_weights}
    arrays["precomputed"] = samples.precomputed and samples.precomputed.matrix
    return arrays | (vars(samples.constraints) if samples.constraints else {})


def _identity(task, params):
    """Return what identifies a Task and parameters, for a checkpoint."""
    problem = task.problem
    used = {"kernel": "kernel", "distance": "metric"}.get(task.settings.relation_kind)
    unused = {"kernel", "metric"} - {used}
    params = {name: value for name, value in params.items() if name not in unused}
    outputs = {}
    if used is not None and not isinstance(params[used], str):
        relation = problem.relation.take(probe_rows(len(problem.X)))
        has_features = hasattr(relation, "features")
        outputs[used] = relation.features if has_features else relation.matrix
    return identify(arrays_of_samples(task.samples), params, outputs)
