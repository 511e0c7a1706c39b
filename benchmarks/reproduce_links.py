"""Links that are not labels: two views of an image, and pairs queried one at a time.

    python benchmarks/reproduce_links.py [views] [queries] [--seeds 3]

Small experiments on the 8 x 8 digits of scikit-learn, which the paper names and does
not run. *views*: images are moved by up to a pixel, and there is no label at all; two
shifted copies of each training image must share a cluster, and other shifted images
judge the embedding. *queries*: an oracle says of one pair at a time whether its rows
share a class; the pair is the one whose connectivity under noise is nearest to one
half, or a random one. Results are appended to ``reproduce_links.jsonl`` in the current
folder, and what is there is not run again.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from reproduce_digits import SETTINGS, errors, pixels, split

from skdiffclust import SpanningForestEmbedding
from skdiffclust.forests import perturbed_forest
from skdiffclust.nn import standardized_similarity

N_CLASSES, BATCH = 10, 64
N_POOL, QUERIES = 300, (50, 100, 200)


def embedding_of(n_clusters, max_iter, seed):
    """Return the untrained estimator of both experiments."""
    return SpanningForestEmbedding(
        n_clusters,
        encoder="mlp",
        hidden_layer_sizes=(256,),
        n_components=32,
        batch_size=BATCH,
        max_iter=max_iter,
        learning_rate=3e-3,
        noise_scale=0.1,
        n_neighbors=None,
        random_state=seed,
    )


def shifted(X, rng):
    """Return images (n, 64), each moved by up to a pixel in both directions."""
    images = np.pad(X.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    starts = rng.randint(0, 3, size=(len(X), 2))
    views = [
        image[i : i + 8, j : j + 8]
        for image, (i, j) in zip(images, starts, strict=True)
    ]
    return np.stack(views).reshape(len(X), 64)


def views(variant, seed):
    """Return the errors on shifted images of an embedding learned without labels."""
    X, _, sets = split(SETTINGS["digits"], seed, 0, 0)
    rng = np.random.RandomState(seed)
    sets = {name: (shifted(rows, rng), y) for name, (rows, y) in sets.items()}
    embed = pixels(None, None, None, None, None)
    if variant != "raw":
        pair = np.tile(np.arange(len(X)), 2)
        copies = np.concatenate([shifted(X, rng), shifted(X, rng)])
        # A batch holds 32 pairs: 32 trees are the pairs themselves.
        model = embedding_of(int(variant.split()[0]), 30, seed)
        embed = model.fit(copies, must_link=pair).transform
    return errors(embed, sets["probe"], *sets["test"], 0)


def most_uncertain(model, X, asked, rng):
    """Return the pair of a random batch that noise joins most nearly half the time."""
    while True:
        rows = np.sort(rng.choice(len(X), BATCH, replace=False))
        points = torch.from_numpy(
            X[rows] if model is None else model.transform(X[rows])
        )
        similarity = standardized_similarity(points).numpy().astype(float)
        found = perturbed_forest(
            0.5 * (similarity + similarity.T),
            N_CLASSES,
            return_connectivity=True,
            random_state=rng,
        )
        doubt = np.abs(found.connectivity - 0.5)
        i, j = np.unravel_index(np.argmin(doubt), doubt.shape)
        pair = tuple(sorted((int(rows[i]), int(rows[j]))))
        if pair not in asked:
            return pair


def queries(variant, seed):
    """Return the errors on test images after some numbers of queries."""
    X, y, sets = split(SETTINGS["digits"], seed, N_POOL, 0)
    X, y = X[:N_POOL], y[:N_POOL]
    rng = np.random.RandomState(seed)
    asked, model, found = {}, None, {}
    while len(asked) < max(QUERIES):
        if variant == "random":
            i, j = sorted(rng.choice(N_POOL, 2, replace=False).tolist())
        else:
            i, j = most_uncertain(model, X, asked, rng)
        if (i, j) in asked:
            continue
        asked[i, j] = bool(y[i] == y[j])
        if len(asked) in QUERIES:
            pairs, same = np.array(list(asked)), np.array(list(asked.values()))
            model = embedding_of(N_CLASSES, 30, seed)
            model.fit(X, must_link=pairs[same], cannot_link=pairs[~same])
            now = errors(model.transform, sets["probe"], *sets["test"], 0)
            found |= {f"{name} {len(asked)}": error for name, error in now.items()}
            found[f"same class {len(asked)}"] = float(same.mean())
    return found


EXPERIMENTS = {
    "views": (views, ["raw", "10 clusters", "32 clusters"]),
    "queries": (queries, ["random", "uncertain"]),
}


def run(name, variant, seed, folder):
    """Return the errors of one run, from the file if they are there."""
    path, key = folder / "reproduce_links.jsonl", [name, variant, seed]
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["key"] == key:
                return entry["errors"]
    found = EXPERIMENTS[name][0](variant, seed)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"key": key, "errors": found}) + "\n")
    return found


def main():
    """Print one line for each variant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(EXPERIMENTS))
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    for name in args.names:
        for variant in EXPERIMENTS[name][1]:
            runs = [run(name, variant, seed, Path()) for seed in range(args.seeds)]
            figures = " ".join(
                f"{key} {np.mean([one[key] for one in runs]):.3f}"
                f" ({min(one[key] for one in runs):.3f}"
                f" to {max(one[key] for one in runs):.3f})"
                for key in runs[0]
            )
            print(f"{name}, {variant:12s}: {figures}", flush=True)


if __name__ == "__main__":
    main()
