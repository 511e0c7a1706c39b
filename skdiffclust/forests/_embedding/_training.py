"""Training of an encoder by the partial Fenchel-Young loss, batch by batch."""

import numpy as np

from skdiffclust._checkpoint import identify, probe_rows
from skdiffclust.forests._constrained._spanning import maximum_spanning_forest
from skdiffclust.forests._perturbed._hash import draw_seed
from skdiffclust.forests._perturbed._samplers import Noise
from skdiffclust.metrics import connectivity_error

_ROWS_AT_A_TIME = 1024


class Trainer:
    """An encoder module with its optimizer, rows and noise.

    Parameters
    ----------
    estimator : SpanningForestEmbedding
        Read for its parameters, never written.
    module : torch.nn.Module
        Trained in place.
    X : ndarray of shape (n_samples, ...)
    n_clusters : int
    random_state : RandomState
    device : str
    """

    def __init__(self, estimator, module, X, n_clusters, random_state, device):
        import torch

        self.settings = estimator
        self.module = module.to(device)
        self.X = X
        self.n_clusters = n_clusters
        self.rng = random_state
        self.device = device
        self.optimizer = torch.optim.Adam(
            module.parameters(),
            lr=estimator.learning_rate,
            weight_decay=estimator.weight_decay,
        )

    def run(self, loop, batches, held_out, y, attributes, checkpoint=None):
        """Run the epochs of a loop; leave the module with its best weights."""
        from skdiffclust._torch import isolated_streams, load_module_state, train_module

        def close(loop, loss):
            columns = {"training_loss": loss}
            if len(held_out):
                columns["validation_error"] = error = np.nan
                if np.isfinite(loss):
                    error = self.error(self.X[held_out], y[held_out])
                columns["validation_error"] = loss = error
            loop.record(loss, state=self.state, attributes=attributes, **columns)

        # What of the user's may draw from the streams, or a file that has them.
        of_the_user = map(callable, (self.settings.encoder, self.settings.similarity))
        needed = any(of_the_user) or checkpoint is not None
        with isolated_streams(self.rng, self.device, needed=needed):
            train_module(
                loop,
                self.module,
                lambda size: batches.epoch(size, self.rng),
                self.loss,
                self.optimizer,
                batch_size=self.settings.batch_size,
                close=close,
                checkpoint=checkpoint,
            )
        load_module_state(self.module, loop.best_state)
        self.module.eval()

    def checkpoint(self, folder, data, *, has_held_out, resume):
        """Return the LoopCheckpoint in a folder, for data that are a dict of arrays."""
        import torch

        from skdiffclust._torch import LoopCheckpoint, module_identity

        start = b"".join(array.tobytes() for array in self.state().values())
        data = {"X": self.X, **data, "first weights": np.frombuffer(start, np.uint8)}
        params = self.settings.get_params(deep=False)
        outputs = {}
        if isinstance(params["encoder"], torch.nn.Module):
            # What a module draws is not to change what is drawn later.
            with torch.random.fork_rng(devices=[]):
                self.module.eval()
                output = self.embed(self.X[probe_rows(len(self.X))])
            outputs["encoder"] = module_identity(self.module, output)
        columns = ["loss", "training_loss", "validation_error"]
        return LoopCheckpoint(
            folder,
            "SpanningForestEmbedding",
            identify(data, params, outputs),
            self.rng,
            columns=columns if has_held_out else columns[:2],
            resume=resume,
        )

    def state(self):
        """Copy the weights."""
        from skdiffclust._torch import module_state

        return module_state(self.module)

    def loss(self, batch):
        """Return the partial loss of a batch (rows, constraints, n_clusters)."""
        from skdiffclust.forests._perturbed._torch import (
            partial_loss,
            standardized_similarity,
        )

        rows, constraints, n_clusters = batch
        n_samples = int(self.settings.n_perturbations)
        noise = Noise(
            float(self.settings.noise_scale),
            n_samples,
            "normal",
            n_samples > 1,
            draw_seed(self.rng),
        )
        embedding = self.module(self._tensor(self.X[rows]))
        similarity = standardized_similarity(embedding, self.settings.similarity)
        return partial_loss(similarity, constraints, n_clusters, noise)

    def embed(self, X, *, block_samples=_ROWS_AT_A_TIME):
        """Return the embedding (n, n_components) of rows as the module is now."""
        from skdiffclust._torch import module_outputs

        def check(embedding, n_rows):
            if embedding.ndim != 2 or len(embedding) != n_rows:
                raise ValueError(
                    "The 'encoder' parameter of SpanningForestEmbedding must map "
                    "samples to an embedding (n, n_components). Got shape "
                    f"{tuple(embedding.shape)} for {n_rows} samples instead. Flatten "
                    "its output."
                )

        return module_outputs(self.module, X, check, block_samples=block_samples)

    def error(self, X, y):
        """Return the connectivity error of rows with labels, batch by batch."""
        settings = self.settings
        return batch_error(
            self.embed(X), y, self.n_clusters, settings.batch_size, settings.similarity
        )

    def _tensor(self, X):
        """Return rows as a tensor on the device, in the dtype of the module."""
        from skdiffclust._torch import to_tensor

        dtype = next(self.module.parameters()).dtype
        return to_tensor(X, self.device, dtype)


def units_of(embedding, similarity):
    """Return origin and scale that training left undetermined: a center, a scale.

    (embedding - center) / scale has mean 0, unless the similarity is the cosine, and
    a root mean square of 1. A float or an array (n_components,), and a float, in the
    dtype of the embedding (n, n_components).
    """
    zero = embedding.dtype.type(0)
    one = embedding.dtype.type(1)
    if callable(similarity) or not np.isfinite(embedding).all():
        return zero, one
    wide = embedding.astype(np.float64)
    center = zero if similarity == "cosine" else wide.mean(axis=0)
    scale = np.sqrt(np.mean((wide - center) ** 2))
    if not np.finfo(embedding.dtype).tiny < scale < np.inf:
        return zero, one
    return np.asarray(center, dtype=embedding.dtype), embedding.dtype.type(scale)


def batch_error(embedding, y, n_clusters, batch_size, similarity):
    """Return the connectivity error of labels (n,) and forests of batches of rows.

    Batches are taken in the order of the rows, as in the paper; a last one of a single
    row is left out. Where all labels of a batch are known the forest has as many
    clusters as there are classes, else `n_clusters`. Only pairs of labelled rows count.
    """
    import torch

    from skdiffclust.forests._perturbed._torch import standardized_similarity

    wrong = 0.0
    n_pairs = 0
    for first in range(0, len(y), batch_size):
        labels = y[first : first + batch_size]
        n_known = int(np.count_nonzero(labels >= 0))
        if len(labels) < 2 or not n_known:
            continue
        k = min(n_clusters, len(labels))
        if n_known == len(labels):
            k = len(np.unique(labels))
        rows = torch.from_numpy(embedding[first : first + batch_size])
        matrix = standardized_similarity(rows, similarity).numpy()
        found = maximum_spanning_forest(0.5 * (matrix + matrix.T), k).labels
        wrong += n_known**2 * connectivity_error(labels, found)
        n_pairs += n_known**2
    return wrong / n_pairs if n_pairs else np.nan
