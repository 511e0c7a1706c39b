"""Deep ClAM beside k-means on pixels, on PCA and on codes, DEC and IDEC.

    OMP_NUM_THREADS=1 python benchmarks/bench_deep.py [--seeds N] [NAME[:SAMPLES] ...]

Names are digits, usps_train and mnist_t10k, with all samples unless a number follows;
all of them by default. Prints the adjusted Rand index of each method for each seed, and
its median. All networks have the layers of ``ClAM(encoder="mlp")``. One autoencoder a
seed is trained for k-means on its codes, DEC and IDEC, with features hidden as ours
hides them and as many steps; DEC (Xie, Girshick, Farhadi, ICML 2016) and IDEC (Guo,
Gao, Liu, Yin, IJCAI 2017, gamma 0.1) then take as many steps of Adam as ours may take
after pretraining, with targets renewed every epoch and once in 140 steps, of which the
better one by the median is named. k-means has ten starts.
"""

import argparse
import copy
import sys
import time

import numpy as np
import torch
from data_sets import load_data
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from torch import nn

from skdiffclust import ClAM
from skdiffclust.memories import _deep

BATCH = _deep._BATCH
SIZES = [*_deep._HIDDEN, _deep._LATENT]
RATE = 1e-3
HIDDEN = 0.15


def load(name):
    """Return centred samples of unit mean variance, float32, and their classes."""
    name, _, n_samples = name.partition(":")
    X, y = load_digits(return_X_y=True) if name == "digits" else load_data(name)
    if n_samples:
        chosen = np.random.RandomState(0).permutation(len(X))[: int(n_samples)]
        X, y = X[chosen], y[chosen]
    X = X.astype(np.float32)
    X -= X.mean(axis=0)
    return X / np.sqrt(np.square(X).mean()), y


def perceptron(sizes):
    """Return a perceptron of these layers."""
    layers = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def batches(n_samples, n_steps, generator):
    """Yield the numbers of an epoch and of the samples of a batch, for n_steps."""
    step, epoch = 0, 0
    while step < n_steps:
        for batch in torch.randperm(n_samples, generator=generator).split(BATCH):
            yield epoch, batch
            step += 1
        epoch += 1


def pretrain(X, seed):
    """Return encoder and decoder of samples X (n, d)."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    sizes = [X.shape[1], *SIZES]
    parts = perceptron(sizes), perceptron(sizes[::-1])
    adam = torch.optim.Adam(nn.ModuleList(parts).parameters(), lr=RATE)
    for _, batch in batches(len(X), _deep._PRETRAINING, generator):
        x = X[batch]
        shown = x * (torch.rand(x.shape, generator=generator) >= HIDDEN)
        loss = (parts[1](parts[0](shown)) - x).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    return parts


def shares(code, centers):
    """Return the soft assignments (n, k) of DEC, by Student's t."""
    share = 1.0 / (1.0 + torch.cdist(code, centers).square())
    return share / share.sum(dim=1, keepdim=True)


@torch.no_grad()
def targets(encoder, X, centers):
    """Return the sharpened assignments (n, k) of DEC."""
    share = shares(encoder(X), centers)
    target = share.square() / share.sum(dim=0)
    return target / target.sum(dim=1, keepdim=True)


def embedded_clustering(X, parts, n_clusters, seed, *, gamma, renewal):
    """Return the labels of DEC (gamma None) or IDEC."""
    encoder, decoder = copy.deepcopy(parts)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        code = encoder(X).numpy()
    found = KMeans(n_clusters, n_init=10, random_state=seed).fit(code)
    centers = nn.Parameter(torch.from_numpy(found.cluster_centers_.astype(np.float32)))
    trained = [*encoder.parameters(), centers]
    if gamma is not None:
        trained += decoder.parameters()
    adam = torch.optim.Adam(trained, lr=RATE)
    n_steps, due = _deep._ROUNDS * _deep._ROUND, 0
    per_epoch = -(-len(X) // BATCH)
    for step, (_, batch) in enumerate(batches(len(X), n_steps, generator)):
        if step >= due:
            target = targets(encoder, X, centers)
            due += renewal or per_epoch
        code = encoder(X[batch])
        share = shares(code, centers).clamp_min(1e-12)
        wanted = target[batch].clamp_min(1e-12)
        loss = (wanted * (wanted.log() - share.log())).sum(dim=1).mean()
        if gamma is not None:
            error = (decoder(code) - X[batch]).square().mean()
            loss = error + gamma * loss
        adam.zero_grad()
        loss.backward()
        adam.step()
    with torch.no_grad():
        return shares(encoder(X), centers).argmax(dim=1).numpy()


def compare(X, n_clusters, seed):
    """Return the labels of each method, and the seconds of ours and of IDEC."""
    k_means = KMeans(n_clusters, n_init=10, random_state=seed)
    found = {"k-means": k_means.fit_predict(X)}
    found["PCA"] = k_means.fit_predict(
        PCA(SIZES[-1], random_state=seed).fit_transform(X)
    )
    start = time.process_time()
    rows = torch.from_numpy(X)
    parts = pretrain(rows, seed)
    with torch.no_grad():
        found["codes"] = k_means.fit_predict(parts[0](rows).numpy())
    pretraining = time.process_time() - start
    for name, gamma in {"DEC": None, "IDEC": 0.1}.items():
        for renewal in (None, 140):
            start = time.process_time()
            arguments = dict(gamma=gamma, renewal=renewal)
            labels = embedded_clustering(rows, parts, n_clusters, seed, **arguments)
            found[f"{name}, {renewal or 'epoch'}"] = labels
    seconds = [pretraining + time.process_time() - start]
    start = time.process_time()
    model = ClAM(n_clusters, encoder="mlp", random_state=seed).fit(X)
    found["ClAM"] = model.labels_
    return found, [time.process_time() - start, *seconds]


def main():
    """Print the table of each data set."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.names or ["digits", "usps_train", "mnist_t10k"]:
        X, y = load(name)
        table, times = {}, []
        for seed in range(args.seeds):
            found, spent = compare(X, len(np.unique(y)), seed)
            print(f"{name}, seed {seed}", file=sys.stderr, flush=True)
            times.append(spent)
            for method, labels in found.items():
                table.setdefault(method, []).append(adjusted_rand_score(y, labels))
        print(f"{name}, {X.shape[0]} x {X.shape[1]}")
        for method, scores in table.items():
            line = " ".join(f"{score:.3f}" for score in scores)
            print(f"  {method:12s} median {np.median(scores):.3f}   {line}")
        ours, peer = np.median(times, axis=0)
        print(f"  seconds: ClAM {ours:.1f}, IDEC {peer:.1f}", flush=True)


if __name__ == "__main__":
    main()
