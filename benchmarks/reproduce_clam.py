"""Saha et al., ICML 2023: Tables 1 and 9, and Figure 1, on the data at hand.

    python benchmarks/reproduce_clam.py [NAME ...] [--starts 50] [--methods ...]
    python benchmarks/reproduce_clam.py figures

Two procedures of the authors stand beside k-means and ClAM: Algorithm 1 of the text,
and the code that they published, which differs. All starts of a procedure are trained
side by side, on the first axis of the arrays. The best of ten starts is chosen once by
the silhouette, as in their code, once by it among the starts that find all clusters,
and once by the loss, as in their text; with 50 starts that is repeated five times.

figures  two and three strips in the unit square, and two round clusters beside three
         outliers, by the script of the authors for such figures: its 84 settings, ten
         starts each

Results are appended to ``reproduce_clam.jsonl`` in the current folder, and what is
there is not run again.
"""

import argparse
import itertools
import warnings
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from shared import Results, print_seconds, seconds, standardised, those_here
from shared import load as load_raw
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.metrics import (
    adjusted_rand_score,
    normalized_mutual_info_score,
    silhouette_score,
)

from skdiffclust import ClAM


class Setting(NamedTuple):
    """A line of Table 6."""

    beta: float
    n_steps: int
    rate: float
    batch_size: int
    mask_probability: float = 0.0
    mask_value: str = "mean"


TABLE_6 = {
    "zoo": Setting(2.4, 10, 0.1, 8, 0.2),
    "ecoli": Setting(0.095, 12, 0.1, 16, 0.15),
    "movlib": Setting(0.7, 7, 0.01, 8, 0.15),
    "yale": Setting(0.06, 10, 0.1, 8, 0.15),
    "micepe": Setting(0.1, 5, 0.2, 8, 0.15),
    "usps_test": Setting(0.1, 5, 0.001, 16, 0.15, "min"),
    "segment": Setting(0.1, 7, 0.1, 8, 0.1),
    "ctg": Setting(0.4, 12, 0.1, 8, 0.1),
}


# ------------------------------------------------------- the procedures of the authors


def recalled(x, memories, beta, n_steps, hidden=1.0):
    """Return x (r, b, d) after lines 9 to 12 of Algorithm 1, dt/τ being 1/T.

    ::

         9  for t = 1, ..., T
        10    Δ_μ ← ρ_μ − x                          for all μ
        11    δ ← m̄ ⊙ dt/τ Σ_μ Δ_μ softmax_μ(−β ‖Δ_μ‖²)
        12    x ← x + δ

    `memories` (r, k, d) are ρ, `hidden` is m̄. ‖x‖² is the same for all μ.
    """
    share = hidden / n_steps
    norms = beta * memories.square().sum(dim=-1).unsqueeze(1)
    scaled = 2 * beta * memories.mT
    for _ in range(n_steps):
        weights = torch.softmax(x @ scaled - norms, dim=-1)
        x = torch.lerp(x, weights @ memories, share)
    return x


def learned(X, memories, beta, setting, hide, n_epochs):
    """Return the memories (r, k, d) and their loss (r,) after lines 3 to 14.

    ::

         3  for epoch n = 1, ..., N
         4    for batch B of S
         7      m ← random mask                      `hide`
         8      x⁰ ← m ⊙ x                           hidden entries by Table 6's value
       9-12     x^T ← the pattern completed          `recalled`
        13      L ← Σ_B ‖m̄ ⊙ (x^T − x)‖²             a mean, as in the code
        14      ρ ← ρ − ε ∇L                         by Adam (Section B.1)

    The rate ε is multiplied by .8, to 1e-5 at the least, after five epochs in which the
    loss falls by less than .001 (Table 5), in the code on average over the last ten.
    The memories of the epoch of least loss are kept (Section B.1).
    """
    n_starts, n_samples = len(memories), len(X)
    memories = memories.clone().requires_grad_()
    adam = torch.optim.Adam([memories], lr=1.0, eps=1e-7)
    rate = torch.full((n_starts, 1, 1), setting.rate)
    stalled = torch.zeros(n_starts, 1, 1)
    best, least = memories.detach().clone(), torch.full((n_starts,), torch.inf)
    losses = []
    for epoch in range(1, n_epochs + 1):
        total = torch.zeros(n_starts)
        order = torch.rand(n_starts, n_samples).argsort(dim=1)
        for batch in order.split(setting.batch_size, dim=1):
            x = X[batch]
            start, hidden = hide(epoch, x)
            error = recalled(start, memories, beta, setting.n_steps, hidden) - x
            loss = (hidden * error.square()).mean(dim=(1, 2))
            adam.zero_grad()
            loss.sum().backward()
            before = memories.detach().clone()
            adam.step()
            # Each start has its own rate, by which the step of rate 1 is multiplied.
            memories.data = before + rate * (memories.data - before)
            total += loss.detach()
        is_least = total < least
        best[is_least] = memories.detach()[is_least]
        least = torch.minimum(least, total)
        losses.append(total)
        if epoch > 10:
            fall = (losses[-11] - losses[-1]).reshape(-1, 1, 1) / 10
            stalled = torch.where(fall < 0.001, stalled + 1, 0)
            rate = torch.where(stalled == 5, (0.8 * rate).clamp(min=1e-5), rate)
            stalled = torch.where(stalled == 5, 0, stalled)
    return best, least


def labels_of(X, memories, beta, n_steps):
    """Return the cluster (r, n) of each sample: lines 16 to 25, nothing is hidden."""
    with torch.no_grad():
        return torch.stack(
            [
                torch.cdist(recalled(X[None], one[None], beta, n_steps)[0], one).argmin(
                    dim=1
                )
                for one in memories
            ]
        )


def one_mask_a_sample(fill, n_hidden, epoch, x):
    """Return x⁰ and m̄ of Algorithm 1: as many hidden features for each sample."""
    drawn = torch.rand(x.shape).topk(n_hidden, sorted=False).indices
    hidden = torch.zeros_like(x).scatter(-1, drawn, 1.0)
    return torch.lerp(x, fill, hidden), hidden


def masks_of_the_code(fill, n_hidden, epoch, x):
    """Return x⁰ and m̄ of the published code.

    One mask for the whole batch in every third epoch; drawn with replacement, and never
    the first feature.
    """
    n_starts, n_samples, n_features = x.shape
    n_masks = 1 if epoch % 3 == 0 else n_samples
    drawn = torch.randint(1, n_features, (n_starts, n_masks, n_hidden))
    hidden = torch.zeros(n_starts, n_masks, n_features).scatter(2, drawn, 1.0)
    return torch.lerp(x, fill, hidden), hidden.expand(x.shape)


def no_masks(fill, n_hidden, epoch, x):
    """Return x and m̄ of the loss (8), which all features are part of."""
    return x, torch.ones_like(x)


def published(X, k, setting, n_starts, *, hide, beta, n_epochs=200):
    """Return the labels (r, n) and losses (r,) of starts: Algorithm 1, line 2 first.

    ::

         2  Initialize prototypes R randomly         N(.1, .1), as in the code
    """
    torch.manual_seed(0)
    fill = torch.from_numpy(getattr(X, setting.mask_value)(axis=0)).float()
    X = torch.from_numpy(X).float()
    n_hidden = max(1, int(setting.mask_probability * X.shape[1]))
    memories = 0.1 + 0.1 * torch.randn(n_starts, k, X.shape[1])
    hide = partial(hide, fill, n_hidden)
    memories, loss = learned(X, memories, beta, setting, hide, n_epochs)
    labels = labels_of(X, memories, beta, setting.n_steps)
    return labels.numpy(), loss.numpy()


# ------------------------------------------------------------------------------- peers


def k_means(X, k, setting, n_starts):
    """Return the labels (r, n) and inertias (r,) of k-means from other seeds."""
    models = [KMeans(k, n_init=1, random_state=s).fit(X) for s in range(n_starts)]
    return [m.labels_ for m in models], [m.inertia_ for m in models]


def clam(X, k, setting, n_starts):
    """Return the labels (r, n) and inertias (r,) of ClAM, trained from other seeds.

    Without the k-means of the default, which ends in nearly the same clusters whatever
    the seed, so that silhouettes have nothing to select.
    """
    models = [
        ClAM(
            k,
            init=kmeans_plusplus(X, k, random_state=state)[0],
            max_iter=200,
            learning_rate=0.05,
            random_state=state,
        ).fit(X)
        for state in range(n_starts)
    ]
    return [m.labels_ for m in models], [m.inertia_ for m in models]


def methods(setting):
    """Return {title: function of X, k, a line of Table 6 and a number of starts}."""
    beta = setting.beta
    return {
        "k-means": k_means,
        "ClAM": clam,
        "Algorithm 1": partial(published, hide=one_mask_a_sample, beta=beta),
        "published code": partial(published, hide=masks_of_the_code, beta=beta / 2),
        "the same, β": partial(published, hide=masks_of_the_code, beta=beta),
        "w/ (8), no masks": partial(published, hide=no_masks, beta=beta / 2),
    }


# ----------------------------------------------------------------------------- figures


def load(name):
    """Return rows and classes, standardised, but for USPS.

    There the silhouette of k-means is near the paper's with grey levels as they are.
    """
    X, y = load_raw(name)
    return (X if name == "usps_test" else standardised(X)), y


def silhouette(X, labels):
    """Return the silhouette, or -1 with a single cluster."""
    return silhouette_score(X, labels) if len(np.unique(labels)) > 1 else -1.0


def measured(method, X, y, setting, n_starts):
    """Return the seconds, and for each start the loss and what the labels score."""
    spent, (labels, loss) = seconds(method, X, len(np.unique(y)), setting, n_starts)
    return {
        "seconds": spent,
        "loss": [float(one) for one in loss],
        "silhouette": [float(silhouette(X, one)) for one in labels],
        "clusters": [len(np.unique(one)) for one in labels],
        "NMI": [normalized_mutual_info_score(y, one) for one in labels],
        "ARI": [adjusted_rand_score(y, one) for one in labels],
    }


def best_of_ten(cell, better, k):
    """Return {score: the values of the best start of each ten} by a key.

    With "all clusters", the largest silhouette of the starts that have all k; tens
    without such a start are left out.
    """
    values = np.array(cell["loss" if better == "loss" else "silhouette"])
    values = -values if better == "loss" else values
    if better == "all clusters":
        values[np.array(cell["clusters"]) < k] = -np.inf
    tens = np.arange(len(values)).reshape(-1, 10)
    chosen = [ten[np.argmax(values[ten])] for ten in tens if max(values[ten]) > -np.inf]
    return {name: np.array(scores)[chosen] for name, scores in cell.items()}


def tables(names, n_starts, titles):
    """Run what is not recorded yet, and print lines of Tables 1 and 9."""
    results = Results(Path("reproduce_clam.jsonl"))
    for name in those_here(*names):
        X, y = load(name)
        for title in titles:
            method = methods(TABLE_6[name])[title]
            key = [name, title, n_starts]
            cell = results.once(
                key, measured, method, X, y, TABLE_6[name], n_starts
            ).copy()
            spent = cell.pop("seconds")
            for better in ("silhouette", "all clusters", "loss"):
                found = best_of_ten(cell, better, len(np.unique(y)))
                print(
                    f"{name:10s} {title:17s} best of ten by {better:12s} "
                    f"silhouette {found['silhouette'].mean():6.3f} "
                    f"({found['silhouette'].std():.3f})  "
                    f"clusters {found['clusters'].mean():4.1f}  "
                    f"NMI {found['NMI'].mean():.3f}  ARI {found['ARI'].mean():.3f}  "
                    f"{spent:6.1f} s",
                    flush=True,
                )


# --------------------------------------------------------------- Figures 1, 13 and 15

SETTINGS = list(
    itertools.product(
        (0.001, 0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 20, 30, 50, 100, 200),
        (10, 20),
        (0.001, 0.01, 0.1),
    )
)


def problem(figure):
    """Return samples in the unit square and their clusters, -1 for three outliers.

    The paper shows such samples, and does not say how they are drawn.
    """
    rng = np.random.RandomState(0)
    centres, covariance = [(0.35, 0.5), (0.65, 0.5)], [[0.0105, 0.01], [0.01, 0.0105]]
    if figure == "three strips":
        centres = [(0.2, 0.5), (0.5, 0.5), (0.8, 0.5)]
    elif figure == "outliers":
        covariance = [[0.003, 0.0], [0.0, 0.003]]
    sizes = 275, 125, 225
    samples = [
        rng.multivariate_normal(centre, covariance, size)
        for centre, size in zip(centres, sizes, strict=False)
    ]
    y = np.repeat(np.arange(len(samples)), [len(one) for one in samples])
    if figure == "outliers":
        samples.append([(0.9, 0.1), (0.95, 0.15), (0.9, 0.2)])
        y = np.append(y, [-1, -1, -1])
    return np.concatenate(samples), y


def with_noise(epoch, x):
    """Return x⁰ and m̄ of the script for figures: a little noise, nothing hidden."""
    return x + 0.01 * torch.randn_like(x), torch.ones_like(x)


def found(figure):
    """Return for each setting the index of ten starts, and of the two chosen ones."""
    X, y = problem(figure)
    X_, inner = torch.from_numpy(X).float(), y >= 0
    torch.manual_seed(0)
    rows = []
    for beta, n_steps, rate in SETTINGS:
        start = 0.2 + 0.1 * torch.randn(10, y.max() + 1, 2)
        setting = Setting(beta, n_steps, rate, 32)
        memories, loss = learned(X_, start, beta / 2, setting, with_noise, 10)
        labels = labels_of(X_, memories, beta / 2, n_steps).numpy()
        aris = [adjusted_rand_score(y[inner], one[inner]) for one in labels]
        by_silhouette = np.argmax([silhouette(X, one) for one in labels])
        rows.append([aris, aris[loss.argmin()], aris[by_silhouette]])
    return rows


def figures():
    """Print how often clusters are found, and whether loss or silhouette say so."""
    results = Results(Path("reproduce_clam.jsonl"))
    is_slow = np.array([beta * rate <= 0.02 for beta, _, rate in SETTINGS])
    for figure in ("two strips", "three strips", "outliers"):
        X, y = problem(figure)
        peer = KMeans(y.max() + 1, n_init=10, random_state=0).fit_predict(X)
        rows = results.once(["figure", figure], found, figure)
        aris, by_loss, by_silhouette = map(np.array, zip(*rows, strict=True))
        print(
            f"{figure}: ARI above .9 in {np.sum(aris[is_slow] > 0.9)} of "
            f"{aris[is_slow].size} starts where β times the rate is at most .02, in "
            f"{np.sum(aris[~is_slow] > 0.9)} of {aris[~is_slow].size} others; of "
            f"{len(aris)} settings the loss chooses one in {np.sum(by_loss > 0.9)}, "
            f"the silhouette in {np.sum(by_silhouette > 0.9)}; k-means: ARI "
            f"{adjusted_rand_score(y[y >= 0], peer[y >= 0]):.2f}",
            flush=True,
        )


def main():
    """Print the tables, or the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(TABLE_6))
    parser.add_argument("--starts", type=int, default=50)
    titles = list(methods(TABLE_6["zoo"]))
    parser.add_argument("--methods", nargs="*", choices=titles, default=titles)
    options = parser.parse_args()
    torch.set_num_threads(1)
    # Shares near 0 or 1 have tiny gradients, of which the processor is slow.
    torch.set_flush_denormal(True)
    warnings.simplefilter("ignore")  # settings of the paper lose clusters
    if options.names == ["figures"]:
        figures()
    else:
        tables(options.names, options.starts, options.methods)
    print_seconds()


if __name__ == "__main__":
    main()
