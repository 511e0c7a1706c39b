"""Checkpoints of the training of an encoder: all that an epoch leaves behind."""

import numpy as np

from skdiffclust._assignments import softmax
from skdiffclust._checkpoint import (
    STREAM,
    Checkpoint,
    Field,
    identify,
    probe_rows,
    restore_stream,
    stream_arrays,
)
from skdiffclust._history import STOP_REASONS

_COLUMNS = ["loss", "cut", "n_clusters", "objective", "balance"]
# What of a loop is in the history, or is no number.
_ELSEWHERE = {"history", "n_iter", "stop_reason"}


class CutCheckpoint:
    """The state of an `EncoderTraining` after each epoch, in a folder.

    What continues from it has the same bits as what was never interrupted. The
    pseudo-labels are found anew, and compared; they are not fitted anew.

    Parameters
    ----------
    estimator : PRCut
    training : EncoderTraining
        As it is before the first epoch.
    folder : path-like
    resume : bool
    """

    def __init__(self, estimator, training, folder, *, resume):
        self.training = training
        self.resume = resume
        data = training.data
        arrays = {
            "X": data.rows,
            "graph": data.training_graph.data,
            "columns of the graph": data.training_graph.indices,
            "rows of the graph": data.training_graph.indptr,
            "divisors": data.divisors,
            "pseudo-labels": training.target,
        }
        for name, array in training.model.start_arrays().items():
            arrays[f"first {name}"] = array
        params = estimator.get_params(deep=False)
        del params["affinity"]  # known by the graph
        outputs = {}
        if callable(estimator.encoder):
            from skdiffclust.cuts._torch import identity_of_module

            rows = data.rows[probe_rows(len(data.rows))]
            outputs["encoder"] = identity_of_module(training.module, rows)
        self.about = folder, "PRCut", identify(arrays, params, outputs)

    def load(self, loop):
        """Put everything where the folder left it; return whether there was anything.

        ValueError if the folder is not one of this fit.
        """
        training = self.training
        model = training.model
        record = {
            name: Field("float64", finite=name not in ("loss", "objective"))
            for name in _COLUMNS
        }
        self.checkpoint = Checkpoint(
            *self.about, record=record, state=self._fields(loop)
        )
        records, arrays = self.checkpoint.open(resume=self.resume)
        if not records:
            return False
        refusal = self.checkpoint.refusal
        best_epoch = arrays["loop.best_epoch"].item()
        if best_epoch >= len(records) or not restore_stream(
            training.random_state, arrays
        ):
            raise refusal("one whose state is of no epoch")
        history = {name: [row[name].item() for row in records] for name in _COLUMNS}
        history["n_clusters"] = [int(count) for count in history["n_clusters"]]
        numbers = {name: arrays[f"loop.{name}"].item() for name in _numbers(loop)}
        reason = arrays["loop.stop_reason"].item().decode() or None
        loop.restore(
            numbers
            | {"history": history, "n_iter": len(records), "stop_reason": reason},
            model.state_of(_under("best.", arrays)),
        )
        if not arrays["is_patient"].item():
            loop.n_iter_no_change = None
        try:
            model.load_arrays(_under("model.", arrays))
        except (RuntimeError, ValueError):
            raise refusal("one whose state is none of the model") from None
        training.objective.load_arrays(
            softmax(model.logits(training.X)), _under("objective.", arrays)
        )
        return True

    def save(self, loop):
        """Write the state after an epoch; warn if that cannot be done."""
        training = self.training
        snapshot = loop.snapshot()
        record = {name: float(snapshot["history"][name][-1]) for name in _COLUMNS}
        arrays = {f"loop.{name}": value for name, value in _numbers(loop).items()}
        arrays |= {
            **stream_arrays(training.random_state),
            "loop.stop_reason": (snapshot["stop_reason"] or "").encode(),
            "is_patient": int(loop.n_iter_no_change is not None),
        }
        for name, value in training.model.arrays().items():
            arrays[f"model.{name}"] = value
        for name, value in training.model.arrays_of(loop.best_state).items():
            arrays[f"best.{name}"] = value
        for name, value in training.objective.arrays().items():
            arrays[f"objective.{name}"] = value
        self.checkpoint.append(record, arrays)

    def _fields(self, loop):
        """Return what the arrays of a state may be."""
        training = self.training
        reasons = tuple(reason.encode() for reason in ["", *STOP_REASONS])
        fields = {
            **STREAM,
            "loop.stop_reason": Field("S16", choices=reasons),
            "is_patient": Field("int64", low=0, high=1),
        }
        for name, value in _numbers(loop).items():
            is_float = isinstance(value, float)
            fields[f"loop.{name}"] = (
                Field("float64") if is_float else Field("int64", low=0)
            )
        for name, field in training.model.fields().items():
            fields[f"model.{name}"] = field
        start = training.model.arrays_of(training.model.state())
        for name, array in start.items():
            finite = bool(np.isfinite(array).all())
            fields[f"best.{name}"] = Field(array.dtype, array.shape, finite=finite)
        for name, array in training.objective.arrays().items():
            array = np.asarray(array)
            fields[f"objective.{name}"] = Field(array.dtype, array.shape)
        return fields


def _numbers(loop):
    """Return the numbers (dict) that a loop carries from an epoch to the next."""
    return {
        name: value for name, value in loop.snapshot().items() if name not in _ELSEWHERE
    }


def _under(prefix, arrays):
    """Return the arrays whose names begin with a prefix, by the rest of the names."""
    n = len(prefix)
    return {name[n:]: a for name, a in arrays.items() if name.startswith(prefix)}
