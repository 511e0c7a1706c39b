"""Checkpoints of a loop of epochs, to continue from after an interruption."""

from skdiffclust._checkpoint import (
    STREAM,
    Checkpoint,
    Field,
    restore_stream,
    stream_arrays,
)
from skdiffclust._history import STOP_REASONS


class LoopCheckpoint:
    """All state that an epoch changes, written to a folder after each epoch.

    A resumed loop gives the same bits as an uninterrupted one. The state is an object
    like `ArraysState`, with the methods ``fields()``, the valid arrays by name;
    ``arrays()``, the current ones; ``load(arrays)``, which restores them and raises
    ValueError or RuntimeError if they do not fit; and ``best_fields()``, the valid
    arrays in the ``best_state`` of the loop.

    Parameters
    ----------
    folder : path-like
    kind : str
        The kind of computation.
    identity : dict
        What `identify` returned for the data and parameters.
    random_state : RandomState
        The stream that batches are drawn from.
    columns : list of str
        Names in the history of the loop.
    reasons : list of str, default=()
        Reasons that its `stop` may be called with.
    resume : bool
        Whether to continue from the folder, if there is one.
    """

    def __init__(
        self, folder, kind, identity, random_state, *, columns, reasons=(), resume
    ):
        self._about = folder, kind, identity
        self._random_state = random_state
        self._resume = resume
        self._columns = columns
        self._reasons = reasons

    def load(self, loop, trained, batch_size):
        """Restore the state in the folder; return its batch size."""
        record = {
            name: Field("float64", finite=name == "loss") for name in self._columns
        }
        state = self._fields(loop, trained, batch_size)
        self._checkpoint = Checkpoint(*self._about, record=record, state=state)
        records, arrays = self._checkpoint.open(resume=self._resume)
        if not records:
            return batch_size
        history = {
            name: [record[name].item() for record in records] for name in self._columns
        }
        n_iter = len(records)
        best_epoch = arrays["loop.best_epoch"].item()
        if best_epoch >= n_iter or not restore_stream(self._random_state, arrays):
            raise self._checkpoint.refusal("one whose state is of no epoch")
        best = {name: arrays[f"best.{name}"] for name in trained.best_fields()}
        loop.restore(
            {
                **{name: arrays[f"loop.{name}"].item() for name in numbers_of(loop)},
                "history": history,
                "n_iter": n_iter,
                "stop_reason": arrays["loop.stop_reason"].item().decode() or None,
            },
            best,
        )
        try:
            trained.load({name: arrays[name] for name in trained.fields()}, best)
        except (RuntimeError, ValueError):
            raise self._checkpoint.refusal(
                "one whose state is none of the model"
            ) from None
        return arrays["batch_size"].item()

    def save(self, loop, trained, batch_size):
        """Write the state after an epoch; warn if that cannot be done."""
        snapshot = loop.snapshot()
        record = {name: snapshot["history"][name][-1] for name in self._columns}
        arrays = {f"loop.{name}": snapshot[name] for name in numbers_of(loop)}
        arrays |= {
            **stream_arrays(self._random_state),
            "loop.stop_reason": (snapshot["stop_reason"] or "").encode(),
            "batch_size": batch_size,
            **trained.arrays(),
        }
        for name, value in loop.best_state.items():
            arrays[f"best.{name}"] = value
        self._checkpoint.append(record, arrays)

    def _fields(self, loop, trained, batch_size):
        """Return the valid fields of a state."""
        reasons = ["", *STOP_REASONS, *self._reasons]
        fields = {
            **STREAM,
            "loop.stop_reason": Field(
                "S16", choices=tuple(reason.encode() for reason in reasons)
            ),
            "batch_size": Field("int64", low=1, high=int(batch_size)),
            **trained.fields(),
        }
        for name, value in numbers_of(loop).items():
            is_float = isinstance(value, float)
            field = Field("float64") if is_float else Field("int64", low=0)
            fields[f"loop.{name}"] = field
        for name, field in trained.best_fields().items():
            fields[f"best.{name}"] = field
        return fields


class ArraysState:
    """Named arrays, and the Adam that trains them, for a checkpoint.

    Parameters
    ----------
    names : list of str
    arrays : list of ndarray
        Written in place by `load`.
    optimiser : Adam
        Of these arrays.
    """

    def __init__(self, names, arrays, optimiser):
        self._named = dict(zip(names, arrays, strict=True))
        self._optimiser = optimiser

    def state(self):
        """Return copies of the arrays by name, as the ``best_state`` of a loop."""
        return {name: array.copy() for name, array in self._named.items()}

    def restore(self, state):
        """Write back what `state` returned."""
        for name, array in self._named.items():
            array[...] = state[name]

    def fields(self):
        """Return the valid fields of `arrays`."""
        fields = {"adam.n_steps": Field("int64", low=0)}
        for name, field in self.best_fields().items():
            fields[f"arrays.{name}"] = field
            fields[f"adam.means.{name}"] = field
            fields[f"adam.squares.{name}"] = Field(field.dtype, field.shape, low=0)
        return fields

    def best_fields(self):
        """Return the valid fields of `state`."""
        return {
            name: Field(array.dtype, array.shape) for name, array in self._named.items()
        }

    def arrays(self):
        """Return all arrays that a step changes, by name."""
        return self._parts() | {"adam.n_steps": self._optimiser.n_steps}

    def load(self, arrays, best):
        """Write back what `arrays` returned."""
        for name, part in self._parts().items():
            part[...] = arrays[name]
        self._optimiser.n_steps = arrays["adam.n_steps"].item()

    def _parts(self):
        """Return the arrays and the running means of their gradients, by name."""
        parts = {}
        for (name, array), mean, square in zip(
            self._named.items(),
            self._optimiser.means,
            self._optimiser.squares,
            strict=True,
        ):
            parts[f"arrays.{name}"] = array
            parts[f"adam.means.{name}"] = mean
            parts[f"adam.squares.{name}"] = square
        return parts


def numbers_of(loop):
    """Return the numbers (dict) that a loop carries from an epoch to the next."""
    others = {"history", "n_iter", "stop_reason"}
    return {
        name: value for name, value in loop.snapshot().items() if name not in others
    }


def without_prefix(prefix, arrays):
    """Return the arrays (dict) whose names have a prefix, without the prefix."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
