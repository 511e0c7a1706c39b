"""Checkpoints of the training of an encoder."""

import numpy as np

from skdiffclust._assignments import softmax
from skdiffclust._checkpoint import Field, identify, probe_rows
from skdiffclust._loop_checkpoint import LoopCheckpoint

_COLUMNS = ["loss", "cut", "n_clusters", "objective", "balance"]


class CutCheckpoint:
    """The state of an `EncoderTraining` after each epoch, in a folder.

    A resumed fit gives the same bits as an uninterrupted one. The pseudo-labels are
    computed again, and compared; they are not fitted again.

    Parameters
    ----------
    estimator : PRCut
    training : EncoderTraining
        In its state before the first epoch.
    folder : path-like
    resume : bool
    """

    def __init__(self, estimator, training, folder, *, resume):
        self.training = training
        data = training.data
        arrays = {
            "X": data.rows,
            "graph": data.training_graph.data,
            "columns of the graph": data.training_graph.indices,
            "rows of the graph": data.training_graph.indptr,
            "divisors": data.divisors,
            "pseudo-labels": training.target,
        }
        for name, array in training.model.state().items():
            arrays[f"first {name}"] = array
        params = estimator.get_params(deep=False)
        del params["affinity"]  # identified by the graph
        outputs = {}
        if callable(estimator.encoder):
            from skdiffclust.cuts._torch import identity_of_module

            rows = data.rows[probe_rows(len(data.rows))]
            outputs["encoder"] = identity_of_module(training.module, rows)
        self.checkpoint = LoopCheckpoint(
            folder,
            "PRCut",
            identify(arrays, params, outputs),
            training.random_state,
            columns=_COLUMNS,
            resume=resume,
        )

    def load(self, loop):
        """Restore the state in the folder; return whether there was any.

        ValueError if the folder is not one of this fit.
        """
        self.checkpoint.load(loop, _CutState(self.training, loop), 1)
        if not loop.n_iter:
            return False
        loop.history["n_clusters"] = [int(n) for n in loop.history["n_clusters"]]
        return True

    def save(self, loop):
        """Write the state after an epoch; warn if that cannot be done."""
        self.checkpoint.save(loop, _CutState(self.training, loop), 1)


class _CutState:
    """State besides the loop that an epoch changes: model, objective, patience.

    Parameters
    ----------
    training : EncoderTraining
    loop : EpochLoop
    """

    def __init__(self, training, loop):
        self.training = training
        self.loop = loop

    def arrays(self):
        """Return all arrays that a step changes, by name."""
        training = self.training
        objective = training.objective.arrays()
        return {
            **training.model.trained.arrays(),
            **{f"objective.{name}": array for name, array in objective.items()},
            "n_parts": training.model.n_parts,
            "is_patient": int(self.loop.n_iter_no_change is not None),
        }

    def fields(self):
        """Return the valid fields of `arrays`."""
        model = self.training.model
        fields = {
            **model.trained.fields(),
            "n_parts": Field("int64", low=1, high=model.most_parts),
            "is_patient": Field("int64", low=0, high=1),
        }
        for name, array in self.training.objective.arrays().items():
            array = np.asarray(array)
            fields[f"objective.{name}"] = Field(array.dtype, array.shape)
        return fields

    def best_fields(self):
        """Return the valid fields of the state of the model."""
        return self.training.model.trained.best_fields()

    def load(self, arrays, best):
        """Write back what `arrays` returned."""
        training = self.training
        model = training.model
        model.trained.load(arrays, best)
        model.n_parts = arrays["n_parts"].item()
        if not arrays["is_patient"].item():
            self.loop.n_iter_no_change = None
        prefix = "objective."
        training.objective.load_arrays(
            softmax(model.logits(training.X)),
            {
                name.removeprefix(prefix): array
                for name, array in arrays.items()
                if name.startswith(prefix)
            },
        )
