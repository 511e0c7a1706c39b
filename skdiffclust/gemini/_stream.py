"""The epochs of GEMINI on the next samples of a stream."""

from skdiffclust._history import EpochLoop
from skdiffclust.gemini._models import MODELS
from skdiffclust.gemini._training import train_model

_EPOCHS = 10


def check_widths(model, settings):
    """Refuse to continue with a fitted model of other Settings."""
    sizes = [len(model.weights[0]), *(len(biases) for biases in model.biases)]
    asked = settings.layer_sizes(sizes[0])
    if sizes != asked:
        raise ValueError(
            "The 'n_clusters', 'model' and 'hidden_layer_sizes' parameters of GEMINI "
            "must be those of the first call of partial_fit, which give layers of "
            f"widths {sizes}. Got ones that give {asked} instead. Call fit to start "
            "again."
        )


def check_given(precomputed, was_given):
    """Refuse a precomputed matrix in only some of the calls of a stream."""
    if (precomputed is not None) != was_given:
        raise ValueError(
            "The 'precomputed' parameter of GEMINI.partial_fit must be given in every "
            f"call or in none. Got {'None' if precomputed is None else 'a matrix'} "
            "instead. Do as in the first call, or call fit to start again."
        )


def continue_training(fitted, problem, settings, optimiser, random_state):
    """Return the model after some epochs on a problem, and their loop.

    The problem is in the units of the first call, and so is the optimiser, whose
    moments are kept from call to call, with the stream that batches are drawn from.
    """
    # The fitted model, copied, in the units of the problem.
    factor = problem.units.features
    arrays = [
        array * array.dtype.type(factor) if name in fitted.input_names else array.copy()
        for name, array in zip(fitted.names, fitted.arrays, strict=True)
    ]
    model = MODELS[settings.kind].from_arrays(arrays)
    optimiser.learning_rate = settings.learning_rate
    # With one batch, the first epoch takes no step, and none follows the last.
    loop = EpochLoop(
        settings.name, max_iter=1 + _EPOCHS, learning_rate=settings.learning_rate
    )
    train_model(
        model,
        problem,
        loop,
        optimiser,
        batch_size=settings.batch(problem.X.shape[0]),
        random_state=random_state,
    )
    return MODELS[settings.kind].from_arrays(loop.best_state), loop
