"""Checkpoints of the training of PRCut."""

from skdiffclust._assignments import softmax
from skdiffclust._checkpoint import (
    LoopCheckpoint,
    identify,
    probe_rows,
    without_prefix,
)


class CutCheckpoint:
    """The state of an `CutTraining` after each epoch, in a folder.

    A resumed fit gives the same bits as an uninterrupted one. The labels that
    it starts from are computed again, and compared; they are not fitted again.

    Parameters
    ----------
    estimator : PRCut
    training : CutTraining
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
            "labels": data.labels,
        }
        for name, array in training.model.state().items():
            arrays[f"first {name}"] = array
        params = estimator.get_params(deep=False)
        del params["affinity"], params["init"]  # identified by graph and labels
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
            resume=resume,
        )

    def load(self, loop):
        """Restore the state in the folder; return whether there was any.

        ValueError if the folder is not one of this fit.
        """
        return self.checkpoint.load(loop, _CutState(self.training, loop))

    def save(self, loop):
        """Write the state after an epoch; warn if that cannot be done."""
        self.checkpoint.save(loop, _CutState(self.training, loop))


class _CutState:
    """State besides the loop that an epoch changes: model, objective, patience.

    Parameters
    ----------
    training : CutTraining
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
            "is_patient": int(self.loop.n_iter_no_change is not None),
        }

    def state(self):
        """Return the state of the model, as the ``best_state`` of the loop."""
        return self.training.model.state()

    def load(self, arrays):
        """Write back what `arrays` returned."""
        training = self.training
        training.model.trained.load(arrays)
        if not arrays["is_patient"].item():
            self.loop.n_iter_no_change = None
        training.objective.load_arrays(
            softmax(training.model.logits(training.X)),
            without_prefix("objective.", arrays),
        )
