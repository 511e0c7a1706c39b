"""Does the graph of a learned representation cut better? Section 4.4 of PRCut's paper.

    python benchmarks/reproduce_representations.py usps_train mnist_t10k

The ratio-cut of the nearest neighbours, of equal weight as in the paper, of pixels, of
50 principal components, and of a small convolutional network that learned without
labels from shifted, scaled and noisy copies (SimCLR's loss). One line a representation;
the sets come from the loader, data_sets.py.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys

import numpy as np
import torch
from data_sets import load_data
from sklearn.decomposition import PCA
from sklearn.metrics import normalized_mutual_info_score
from torch import nn
from torch.nn import functional

from skdiffclust import PRCut
from skdiffclust.metrics import clustering_accuracy

N_NEIGHBORS = {"usps_train": 20, "mnist_t10k": 25}
N_STEPS, BATCH, TEMPERATURE = 800, 256, 0.2


def views(images, generator):
    """Return copies (b, 1, s, s), each shifted, turned, scaled and noisy on its own."""
    b = len(images)

    def uniform(width):
        return width * (2.0 * torch.rand(b, generator=generator) - 1.0)

    angle, size = uniform(0.3), 1.0 + uniform(0.15)
    cos, sin = torch.cos(angle) * size, torch.sin(angle) * size
    rows = (
        torch.stack([cos, -sin, uniform(0.15)], 1),
        torch.stack([sin, cos, uniform(0.15)], 1),
    )
    grid = functional.affine_grid(
        torch.stack(rows, 1), images.shape, align_corners=False
    )
    moved = functional.grid_sample(images, grid, align_corners=False)
    return moved + 0.1 * torch.randn(moved.shape, generator=generator)


def contrastive(X):
    """Return the learned representation (n, 128) of square images X (n, s²)."""
    side = int(np.sqrt(X.shape[1]))
    images = torch.from_numpy(X).reshape(-1, 1, side, side)
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (side // 4) ** 2, 128),
    )
    head = nn.Sequential(nn.ReLU(), nn.Linear(128, 32))  # is thrown away, as in SimCLR
    parameters = [*body.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(N_STEPS):
        rows = torch.randint(len(images), (BATCH,), generator=generator)
        left, right = (
            functional.normalize(head(body(views(images[rows], generator))), dim=1)
            for _ in range(2)
        )
        scores = left @ right.T / TEMPERATURE
        target = torch.arange(BATCH)
        loss = functional.cross_entropy(scores, target)
        loss = loss + functional.cross_entropy(scores.T, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return functional.normalize(body(images), dim=1).numpy()


def main(names):
    """Print accuracy and mutual information of each representation."""
    torch.set_num_threads(1)
    for name in names:
        X, y = load_data(name)
        X = X.astype(np.float32) / np.abs(X).max()
        found = {
            "pixels": lambda X: X,
            "50 principal components": PCA(50, random_state=0).fit_transform,
            "contrastive": contrastive,
        }
        for kind, represent in found.items():
            model = PRCut(
                10,
                cut="ratio",
                affinity="nearest_neighbors",
                n_neighbors=N_NEIGHBORS[name],
                random_state=0,
            ).fit(represent(X))
            accuracy = clustering_accuracy(y, model.labels_)
            information = normalized_mutual_info_score(y, model.labels_)
            print(name, kind, f"accuracy {accuracy:.3f} NMI {information:.3f}")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:] or list(N_NEIGHBORS))
