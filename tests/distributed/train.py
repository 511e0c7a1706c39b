"""A training loop of three losses, in two processes or by ``torchrun``."""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from skdiffclust import SpanningForestEmbedding
from skdiffclust.nn import (
    AssociativeMemory,
    PartialFenchelYoungLoss,
    RatioCutLoss,
    gather_over_processes,
    standardized_affinity,
)

torch.set_default_dtype(torch.float64)
SHARDS = slice(0, 7), slice(7, 16)  # of different sizes


def data():
    """Rows (16, 4), labels (16,), and a graph without edges between the shards."""
    rng = np.random.RandomState(0)
    X, y = torch.from_numpy(rng.normal(size=(16, 4))), torch.arange(16) % 4 - 1
    graph = rng.uniform(size=(16, 16))
    graph[SHARDS[0], SHARDS[1]] = graph[SHARDS[1], SHARDS[0]] = 0.0
    return X, y, torch.from_numpy(graph + graph.T)


class Deep(nn.Module):
    """Encoder, decoder and memories of deep ClAM; its output is the loss."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 3), nn.Linear(3, 4)
        self.memory = AssociativeMemory(3, 3, inverse_temperature=0.7, weighted=True)
        self.memory.double()

    def forward(self, X):
        """Return the loss of rows."""
        return self.memory.reconstruction_loss(self.encoder, self.decoder, X)


def ratio_cut(module, X, y, graph):
    """PRCut."""
    return RatioCutLoss(3, balance_weight=2.0)(module(X), graph)


def forest(module, X, y, graph):
    """SpanningForestEmbedding: every process has the loss of all rows."""
    embedding, labels = gather_over_processes(module(X)), gather_over_processes(y)
    loss_of = PartialFenchelYoungLoss(3, n_perturbations=10, seed=0)
    return loss_of(standardized_affinity(embedding), labels)


def deep(module, X, y, graph):
    """Deep ClAM."""
    return module(X)


LOSSES = {
    ratio_cut: lambda: nn.Linear(4, 3),
    forest: lambda: nn.Linear(4, 3),
    deep: Deep,
}


def average(module):
    """Average the gradients of processes, as DistributedDataParallel does."""
    for parameter in module.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def train(shard, wrap=None, after_backward=None):
    """Take three steps with each loss; return losses, gradients and weights."""
    X, y, graph = data()
    found = {}
    for loss_of, make in LOSSES.items():
        torch.manual_seed(0)
        module = make()
        trained = wrap(module) if wrap else module
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for step in range(3):
            loss = loss_of(trained, X[shard], y[shard], graph[shard, shard])
            optimizer.zero_grad()
            loss.backward()
            if after_backward:
                after_backward(module)
            optimizer.step()
            found[f"{loss_of.__name__} loss {step}"] = loss.item()
        for name, value in module.named_parameters():
            found[f"{loss_of.__name__} gradient {name}"] = value.grad.numpy()
            found[f"{loss_of.__name__} weight {name}"] = value.detach().numpy()
    return found


def work(folder, rank, **how):
    """Train on the shard of this process; the first one also fits, alone."""
    torch.set_num_threads(1)
    found = train(SHARDS[rank], **how)
    if rank == 0:  # would wait for ever, did it ask the others
        X, y, _ = data()
        embedding = SpanningForestEmbedding(3, max_iter=2, random_state=0)
        found["fit"] = embedding.fit(X.numpy(), y.numpy()).coefs_[0]
    np.savez(Path(folder) / f"{rank}.npz", **found)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    work(sys.argv[1], dist.get_rank(), wrap=DistributedDataParallel)
