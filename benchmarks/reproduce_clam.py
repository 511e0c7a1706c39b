"""Saha et al., ICML 2023: Tables 1, 2, 3 and 9 on the data at hand.

    python benchmarks/reproduce_clam.py [zoo ecoli movlib ctg usps_train]
    python benchmarks/reproduce_clam.py --print
    python benchmarks/reproduce_clam.py --starts segment micepe usps_test

Results are appended to ``reproduce_clam.jsonl`` in the current folder, and what is
there is not run again; ``--print`` makes the tables of them, and marks what another
state of the code computed. Silhouettes stand beside the number of clusters found.
"""

import hashlib
import sys
import warnings
from pathlib import Path

import numpy as np
from shared import Results, is_here, seconds, some, standardised
from shared import load as load_raw
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.metrics import adjusted_rand_score as ari
from sklearn.metrics import normalized_mutual_info_score as nmi
from sklearn.metrics import silhouette_score

import skdiffclust
from skdiffclust import ClAM
from skdiffclust.memories._assign import assign
from skdiffclust.memories._dynamics import Dynamics
from skdiffclust.memories._training import completion_with_gradient

RESULTS = Results(Path("reproduce_clam.jsonl"))
# Table 6: β, T, learning rate, batch size, mask probability, mask value.
TABLE_6 = {
    "zoo": (2.4, 10, 0.1, 8, 0.2, "mean"),
    "ecoli": (0.095, 12, 0.1, 16, 0.15, "mean"),
    "movlib": (0.7, 7, 0.01, 8, 0.15, "mean"),
    "ctg": (0.4, 12, 0.1, 8, 0.1, "mean"),
    "usps_train": (0.1, 5, 0.001, 16, 0.15, "min"),
    "usps_test": (0.1, 5, 0.001, 16, 0.15, "min"),
    "segment": (0.1, 7, 0.1, 8, 0.1, "mean"),
    "micepe": (0.1, 5, 0.2, 8, 0.15, "mean"),
}
# What `--starts` runs: 100 fits, or ten with the settings of the paper.
STARTS = (
    "k-means, 100 starts",
    "ClAM, 100 starts",
    "ClAM, weighted, 100 starts",
    "ClAM, Table 6",
    "w/ (11), Table 6",
)
# Tells this state of the code of the memories from others.
SOURCES = sorted(Path(skdiffclust.__file__).parent.glob("memories/*.py"))
CODE = hashlib.sha256(b"".join(p.read_bytes() for p in SOURCES)).hexdigest()[:8]


def load(name):
    """Return rows and classes, scaled as the paper's k-means says: USPS as it is.

    The paper's USPS are the 2007 test rows.
    """
    X, y = load_raw(name)
    if name == "usps_train":
        return some(X, y, 2007)
    return (X if name == "usps_test" else standardised(X)), y


def silhouette(X, labels):
    """Return the silhouette, or -1 with a single cluster."""
    return silhouette_score(X, labels) if len(np.unique(labels)) > 1 else -1.0


def paper_settings(name, **changes):
    """Return the parameters of Table 6; the code's β is half of the formula's."""
    beta, n_steps, rate, batch, probability, value = TABLE_6[name]
    return (
        dict(
            inverse_temperature=beta / 2,
            n_steps=n_steps,
            step_size=1 / n_steps,
            learning_rate=rate,
            batch_size=batch,
            mask_probability=probability,
            mask_value=value,
            self_supervised=True,
            init="random",
        )
        | changes
    )


def k_means(X, k, n_starts):
    """Return as many k-means, each of one start."""
    return [KMeans(k, n_init=1, random_state=state) for state in range(n_starts)]


def trained_seeds(X, k, n_starts, **params):
    """Return as many ClAM, trained from other seeds of k-means++.

    Without the k-means of the default, which ends in nearly the same clusters whatever
    the seed, so that silhouettes have nothing to select.
    """
    return [
        ClAM(
            k,
            init=kmeans_plusplus(X, k, random_state=state)[0],
            random_state=state,
            **params,
        )
        for state in range(n_starts)
    ]


def methods(name):
    """Return title -> function of (X, k) that returns labels of several fits."""
    chosen = {
        "ClAM, Table 6": (paper_settings(name), 10),
        "w/ (11), Table 6": (paper_settings(name, weighted=True), 10),
        "ClAM, the default": ({"n_init": 10}, 1),
    }
    models = {
        "k-means, 100 starts": lambda X, k: k_means(X, k, 100),
        **{
            title: lambda X, k, p=params, n=n_starts: [
                ClAM(k, random_state=state, **({"n_init": 1} | p)) for state in range(n)
            ]
            for title, (params, n_starts) in chosen.items()
        },
        "ClAM, 100 starts": lambda X, k: trained_seeds(X, k, 100),
        "ClAM, weighted, 100 starts": lambda X, k: trained_seeds(
            X, k, 100, weighted=True
        ),
    }
    return {
        title: lambda X, k, made=made: [model.fit_predict(X) for model in made(X, k)]
        for title, made in models.items()
    } | {"published recipe": lambda X, k: published(TABLE_6[name], X, k)}


def best_by_silhouette(X, fits):
    """Return the labels of largest silhouette."""
    return max(fits, key=lambda labels: silhouette(X, labels))


def published(settings, X, k, n_init=10, n_epochs=200):
    """Return the labels of restarts trained as the published code trains, by its β.

    One set of hidden features a batch, every third epoch, drawn with replacement
    without the first; the other epochs hide nothing. Memories start from rows;
    Adam's rate falls by 0.8 after 5 epochs without 0.1 %.
    """
    beta, n_steps, rate, batch, probability, value = settings
    rng = np.random.RandomState(0)
    memories = np.stack([X[rng.permutation(len(X))[:k]] for _ in range(n_init)])
    dynamics = Dynamics(beta / 2, n_steps, 1 / n_steps, "euclidean")
    fill = getattr(X, value)(axis=0)
    rates, best = np.full(n_init, rate), np.full(n_init, np.inf)
    stalled, mean, square, step = np.zeros(n_init), 0.0, 0.0, 0
    for epoch in range(n_epochs):
        order, losses = rng.permutation(len(X)), np.zeros(n_init)
        for first in range(0, len(X), batch):
            rows = X[order[first : first + batch]]
            drawn = rng.randint(1, X.shape[1], round(probability * X.shape[1]))
            hidden = np.unique(drawn) if epoch % 3 == 2 else []
            columns = np.r_[hidden, np.setdiff1d(np.arange(X.shape[1]), hidden)]
            columns = columns.astype(int)
            found = completion_with_gradient(
                rows[:, columns],
                memories[:, :, columns],
                np.zeros((n_init, k)),
                dynamics,
                groups=[(slice(0, len(rows)), slice(0, len(hidden)))],
                fill=fill[columns],
                sample_weight=np.ones(len(rows)),
            )
            gradient = np.empty_like(memories)
            gradient[:, :, columns] = found.gradient / rows.size
            step += 1
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.999 * square + 0.001 * gradient**2
            size = np.sqrt(square / (1 - 0.999**step)) + 1e-7
            rise = rates[:, None, None] * mean / (1 - 0.9**step)
            memories = memories - rise / size
            losses += found.loss / X.size
        better = losses < best * (1 - 1e-3)
        best, stalled = np.where(better, losses, best), np.where(better, 0, stalled + 1)
        rates = np.where(stalled >= 5, np.maximum(0.8 * rates, 1e-5), rates)
        stalled[stalled >= 5] = 0
    return [assign(X, centers, np.zeros(k), dynamics) for centers in memories]


def measured(labels_of, X, k):
    """Return what is kept of the fits of a method."""
    spent, labels = seconds(lambda: best_by_silhouette(X, labels_of(X, k)))
    return {
        "seconds": spent,
        "n_samples": len(X),
        "silhouette": float(silhouette(X, labels)),
        "clusters": len(np.unique(labels)),
        "code": CODE,
        "labels": labels.tolist(),
    }


def print_tables():
    """Print a line a method: Tables 1, 3 and 9."""
    for (name, title), cell in RESULTS.items():
        labels = np.array(cell["labels"])
        line = f"{name:10s} {title:44s} silhouette {cell['silhouette']:6.3f}  clusters "
        line += f"{cell['clusters']:2d}  {cell['seconds']:8.2f} s"
        line += "" if cell["code"] == CODE else f"  code {cell['code']}"
        y = load(name)[1]
        print(line, f" NMI {nmi(y, labels):.3f}  ARI {ari(y, labels):.3f}")


def main(names, titles=None):
    """Run what is not recorded yet, or the methods of some titles."""
    warnings.simplefilter("ignore")  # settings of the paper lose clusters
    for name in names:
        if not is_here(name):
            print(f"The data set {name!r} is not here: see SKDIFFCLUST_DATA.")
            continue
        X, y = load(name)
        found = methods(name)
        for title in titles or found:
            k = len(np.unique(y))
            cell = RESULTS.once([name, title], measured, found[title], X, k)
            print(name, title, *list(cell.values())[:-1], flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        print_tables()
    elif sys.argv[1:2] == ["--starts"]:
        main(sys.argv[2:], STARTS)
    else:
        main(sys.argv[1:] or list(TABLE_6))
