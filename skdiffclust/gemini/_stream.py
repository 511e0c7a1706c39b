"""The epochs of GEMINI on the next samples of a stream."""

from copy import deepcopy

from sklearn.utils import check_random_state

from skdiffclust._history import EpochLoop
from skdiffclust._optimisers import Adam
from skdiffclust.gemini._models import MODELS
from skdiffclust.gemini._training import train_model

_EPOCHS = 10


def check_stream(gemini, affinity):
    """Refuse to continue with another model or without what `fit` was given."""
    sizes = [len(gemini.coefs_[0]), *(len(biases) for biases in gemini.intercepts_)]
    asked = gemini._layer_sizes(sizes[0])
    if gemini.model == "linear":
        asked = [asked[0], asked[-1]]
    if sizes != asked:
        raise ValueError(
            "The 'n_clusters', 'model' and 'hidden_layer_sizes' parameters of GEMINI "
            "must be those of the first call of partial_fit, which give layers of "
            f"widths {sizes}. Got ones that give {asked} instead. Call fit to start "
            "again."
        )
    if (affinity is not None) != gemini._affinity_given:
        raise ValueError(
            "The 'affinity' parameter of GEMINI.partial_fit must be given in every "
            f"call or in none. Got {'None' if affinity is None else 'a matrix'} "
            "instead. Do as in the first call, or call fit to start again."
        )


def continue_training(gemini, problem):
    """Return the model after some epochs on a problem, its loop, and the next stream.

    The problem is in the units of the first call, and so is the optimiser, whose
    moments are kept from call to call, with the stream that batches are drawn from.
    """
    # The model, copied, in the units of the problem.
    fitted = gemini._fitted_model()
    factor = problem.units.features
    arrays = [
        array * array.dtype.type(factor) if name in fitted.input_names else array.copy()
        for name, array in zip(fitted.names, fitted.arrays, strict=True)
    ]
    model = MODELS[gemini.model].from_arrays(arrays)
    stream = deepcopy(getattr(gemini, "_stream", None))
    if stream is None:
        stream = (
            Adam(model.arrays, gemini.learning_rate),
            check_random_state(gemini.random_state),
        )
    optimiser, random_state = stream
    optimiser.learning_rate = gemini.learning_rate
    # The first of all samples at once takes no step, nor does one follow the last.
    loop = EpochLoop(
        type(gemini).__name__,
        max_iter=1 + _EPOCHS,
        learning_rate=gemini.learning_rate,
    )
    train_model(
        model,
        problem,
        loop,
        optimiser,
        batch_size=gemini._batch(problem.X.shape[0]),
        random_state=random_state,
    )
    best = MODELS[gemini.model].from_arrays(loop.best_state)
    return best, loop, stream
