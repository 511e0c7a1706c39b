"""Training of an embedding by a module of torch."""

import copy

import numpy as np
import torch

from skdiffclust._checkpoint import probe_rows
from skdiffclust._torch import (
    isolated_streams,
    load_module_state,
    module_identity,
    module_outputs,
    module_state,
    to_tensor,
    train_module,
)
from skdiffclust.forests._embedding._training import (
    loop_checkpoint,
    noise_of_batch,
    start_rates,
)
from skdiffclust.forests._perturbed._torch import partial_loss, standardized_affinity

_SAMPLES_AT_A_TIME = 1024


class ModuleTrainer:
    """A module trained by autograd, with its optimizer, samples and noise.

    Parameters
    ----------
    settings : EmbeddingSettings
    module : nn.Module
        Trained in place.
    X : ndarray of shape (n_samples, ...)
    n_clusters : int
    random_state : RandomState
    device : str
    rates : Rates or None
        Scales to continue with. If None, they are computed from the settings.
    """

    def __init__(self, settings, module, X, n_clusters, random_state, device, rates):
        self.settings = settings
        self.module = module.to(device)
        self.X = X
        self.n_clusters = n_clusters
        self.rng = random_state
        self.device = device
        # The draws of a module must not change later draws.
        with isolated_streams(np.random.RandomState(0), device):
            self.rates = rates or start_rates(settings, self.embed, X, random_state)
        self.optimizer = torch.optim.Adam(
            module.parameters(),
            lr=self.rates.learning_rate,
        )

    def run(self, loop, batches, attributes, checkpoint=None):
        """Run the epochs of a loop; leave the module with its best weights."""

        def close(loop, loss):
            loop.record(loss, state=self.state, attributes=attributes)

        # The module may draw from the streams, and a checkpoint stores them.
        with isolated_streams(self.rng, self.device):
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

    def checkpoint(self, folder, params, data, *, resume):
        """Return the LoopCheckpoint in a folder, of parameters and a dict of arrays."""
        # Random numbers that the module draws here must not change later ones.
        with torch.random.fork_rng(devices=[]):
            self.module.eval()
            output = self.embed(self.X[probe_rows(self.X.shape[0])])
        outputs = {"encoder": module_identity(self.module, output)}
        return loop_checkpoint(self, folder, params, data, outputs, resume)

    def state(self):
        """Copy the weights."""
        return module_state(self.module)

    def loss(self, batch):
        """Return the partial loss of a batch (rows, constraints, n_clusters)."""
        rows, constraints, n_clusters = batch
        noise = noise_of_batch(self.settings, self.rates, self.rng)
        dtype = next(self.module.parameters()).dtype
        embedding = self.module(to_tensor(self.X[rows], self.device, dtype))
        affinity = standardized_affinity(embedding, self.settings.affinity)
        return partial_loss(affinity, constraints, n_clusters, noise)

    def attributes(self):
        """Return the fitted attributes that hold what was trained."""
        return {
            "encoder_": copy.deepcopy(self.module).cpu().eval(),
            "_n_features_out": self.embed(self.X[:1]).shape[1],
        }

    def embed(self, X):
        """Return the embedding (n, n_components) of samples as the module is now."""
        return embed_by_module(self.module, X, block_samples=_SAMPLES_AT_A_TIME)


def embed_by_module(module, X, *, block_samples=1):
    """Return the outputs (n, n_components) of a module for samples (n, ...)."""

    def check(embedding, n_samples):
        if embedding.ndim != 2 or len(embedding) != n_samples:
            raise ValueError(
                "The 'encoder' parameter of SpanningForestEmbedding must map "
                "samples to an embedding (n, n_components). Got shape "
                f"{tuple(embedding.shape)} for {n_samples} samples instead. Flatten "
                "its output."
            )

    return module_outputs(module, X, check, block_samples=block_samples)
