"""Checkpoints of the training of PRCut."""

from skdiffclust._checkpoint import LoopCheckpoint, identify, probe_rows


def make_checkpoint(estimator, training, folder, *, resume):
    """Return the checkpoint in a folder of a `CutTraining` before its first epoch.

    A resumed fit gives the same bits as an uninterrupted one. The labels that it starts
    from are computed again, and compared; they are not fitted again.
    """
    data = training.data
    rows = data.samples.rows
    arrays = {
        "X": rows,
        "graph": data.training_graph.data,
        "columns of the graph": data.training_graph.indices,
        "rows of the graph": data.training_graph.indptr,
        "divisors": data.groups.divisors,
        "labels": data.labels,
    }
    for name, array in training.state().items():
        arrays[f"first {name}"] = array
    params = estimator.get_params(deep=False)
    del params["affinity"], params["init"]  # identified by graph and labels
    outputs = {}
    if callable(estimator.encoder):
        from skdiffclust.cuts._torch import identity_of_module

        probed = rows[probe_rows(len(rows))]
        outputs["encoder"] = identity_of_module(training.module, probed)
    identity = identify(arrays, params, outputs)
    return LoopCheckpoint(
        folder, "PRCut", identity, training.random_state, resume=resume
    )
