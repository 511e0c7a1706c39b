"""Deep ClAM: an encoder trained end to end with memories in its latent space."""

import numpy as np

from skdiffclust._batches import mini_batches
from skdiffclust._encoder import forward, init_layers

_HIDDEN, _LATENT = 64, 10
_RATE = 5e-3  # of Adam
_EPOCHS, _STEPS = 20, 200  # at least so many


def train_encoder(clam, Z, weight, n_clusters, random_state, device):
    """Return (weights, biases) of the "mlp", or a trained copy of the user's module.

    Z (n, d) are rows in training units. The loss is that of an autoencoder whose code
    is recalled: ``|| x - decoder(recall(encoder(x))) ||^2``, with hidden features if
    self_supervised. Half of it scores the code as it is, without which memories that
    are still anywhere teach the encoder nothing. The linear decoder is dropped.
    """
    import torch

    from skdiffclust._torch import (
        encoder_arrays,
        isolated_streams,
        to_tensor,
    )

    rows = to_tensor(Z, device)
    row_weight = to_tensor(weight.astype(Z.dtype), device)
    with isolated_streams(random_state, device):
        module, decoder, layer = _modules(clam, rows, n_clusters, random_state)
        parameters = [*module.parameters(), *decoder.parameters(), *layer.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=_RATE)
        module.train()
        n_batches = -(-len(Z) // clam.batch_size)
        for _ in range(max(_EPOCHS, _STEPS // n_batches)):
            for chosen in mini_batches(len(Z), clam.batch_size, random_state):
                part, start = rows[chosen], rows[chosen]
                if clam.self_supervised:
                    seen = torch.rand(part.shape[1], device=device)
                    start = start * (seen >= clam.mask_probability)
                code = module(start)
                error = (decoder(code) - part).square().mean(1)
                error = error + (decoder(layer(code)) - part).square().mean(1)
                optimizer.zero_grad()
                (error * row_weight[chosen]).mean().backward()
                optimizer.step()
    module = module.cpu().eval()
    if clam.encoder == "mlp":
        return encoder_arrays(module)
    return module


def _modules(clam, rows, n_clusters, random_state):
    """Return encoder, linear decoder and memories on the device of the rows (n, d)."""
    import copy

    import torch
    from torch import nn

    from skdiffclust._torch import encoder_module, to_numpy
    from skdiffclust.memories._torch import AssociativeMemory

    n_features, dtype = rows.shape[1], rows.dtype
    if isinstance(clam.encoder, str):
        width = min(_LATENT, n_features)
        sizes = [n_features, _HIDDEN, width]
        layers = init_layers(sizes, random_state, to_numpy(rows[:1]).dtype)
        module = encoder_module(*layers)
    else:
        module = copy.deepcopy(clam.encoder)
    module = module.to(rows.device, dtype)
    with torch.no_grad():
        code = module.eval()(rows[: max(n_clusters, 256)])
    first = random_state.permutation(len(code))[:n_clusters]
    layer = AssociativeMemory(
        n_clusters,
        code.shape[1],
        inverse_temperature=10.0 / max(float(code.var(0).sum()), 1e-6),
        memories=code[first].float().cpu(),
    )
    decoder = nn.Linear(code.shape[1], n_features)
    return module, decoder.to(rows.device, dtype), layer.to(rows.device, dtype)


def encode(encoder, Z):
    """Return the latent rows (n, p), float64, of rows Z (n, d) in training units."""
    if isinstance(encoder, tuple):
        return forward(Z, *encoder).astype(np.float64)
    import torch

    from skdiffclust._torch import to_numpy, to_tensor

    parameter = next(encoder.parameters(), None)
    dtype = torch.float32 if parameter is None else parameter.dtype
    with torch.no_grad():
        parts = [
            to_numpy(encoder(to_tensor(Z[i : i + 1024], dtype=dtype)))
            for i in range(0, len(Z), 1024)
        ]
    return np.concatenate(parts).astype(np.float64)
