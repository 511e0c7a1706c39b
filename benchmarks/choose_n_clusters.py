"""How often is the number of clusters found, by "auto" and by a search with a scorer?

    python benchmarks/choose_n_clusters.py search [ESTIMATOR ...]
    python benchmarks/choose_n_clusters.py families ClAM [--states N] [--no-peers]
    python benchmarks/choose_n_clusters.py gemini
    python benchmarks/choose_n_clusters.py forest [--seeds 3000 3005]
    python benchmarks/choose_n_clusters.py embeddings [NAME ...]

search  a search over 2 to 12 clusters with each scorer of ``metrics``, for each
        estimator: the numbers chosen on three shuffles of the folds of seven sets.
        All of this was fixed before any of these sets was scored.
families  how often "auto" of an estimator finds the number and warns that there is no
        clear structure, and how often k-means of largest silhouette (2 to 40 clusters)
        finds it, on generated families, which chose no constant of ClAM or of
        SpanningForestClustering, and on real data, some of which did.
gemini  ``GEMINI("auto", mode="ovo")``, k-means of largest silhouette and mixtures of
        least BIC (2 to 10 clusters) on mixtures that chose no constant, on scenarios 4
        and 5 of Celeux et al., and on single Gaussians.

forest  the mean adjusted Rand index of ``SpanningForestClustering("auto")``, of its
        cut into the true number, of the number by the falls of the scores, and of
        HDBSCAN (``min_cluster_size=15``) on the families of ``shapes.py``, and how
        often there is no warning on sets without structure. The rule was chosen on
        seeds 0 to 2 and 1000 to 1002, and its limits on seeds 0 to 4 of the sets
        without structure; other seeds report.
embeddings  the same on ten UMAP components with ``min_dist=0`` of real data (umap-learn
        is needed). Two embeddings of usps_test, usps_train, mnist_t10k, isolet,
        segment, letter and pbmc68k_reduced, of seeds 0 and 1, helped to choose.

Samples that belong to no class (-1) are left out of the index.
"""

import argparse
import re
import warnings
from time import perf_counter

import numpy as np
import shapes
from shared import (
    OWN,
    is_here,
    largest_silhouette,
    load,
    seconds,
    some,
    standardised,
    versions,
)
from sklearn import datasets
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdiffclust import (
    GEMINI,
    ClAM,
    GraphCutClustering,
    SpanningForestClustering,
)
from skdiffclust.datasets import make_celeux_one
from skdiffclust.forests._hierarchy._number import falls_of, number_by_falls
from skdiffclust.metrics import available_scorers, get_scorer

# A search.


CANDIDATES = range(2, 13)


N_FOLDS = 3


SHUFFLES = range(3)


# Defaults, but for less work: one start, few epochs. GEMINI is one-vs-one, since
# one-vs-all leaves clusters empty whatever their number.
ESTIMATORS = {
    "KMeans": KMeans(n_init=10, random_state=0),
    "SpanningForestClustering": SpanningForestClustering(),
    "GEMINI": GEMINI(mode="ovo", n_init=1, max_iter=200, random_state=0),
    "ClAM": ClAM(self_supervised=False, random_state=0),
    "GraphCutClustering": GraphCutClustering(random_state=0),
}


def searched_sets():
    """Yield (name, X, y, whether features have units of their own)."""
    yield "blobs, 3", *datasets.make_blobs(300, centers=3, random_state=0), True
    yield "blobs, 5", *datasets.make_blobs(500, centers=5, random_state=0), True
    yield "moons", *datasets.make_moons(400, noise=0.05, random_state=0), True
    for name in ("iris", "wine", "breast_cancer"):
        yield name, *getattr(datasets, f"load_{name}")(return_X_y=True), True
    yield "digits", *datasets.load_digits(return_X_y=True), False


def choose(estimator, X, scaled):
    """Return {scorer: the number of clusters that it picks on each shuffle}."""
    model = make_pipeline(StandardScaler() if scaled else "passthrough", estimator)
    parameter = f"{model.steps[-1][0]}__n_clusters"
    scoring = {name: get_scorer(name) for name in available_scorers()}
    chosen = {name: [] for name in scoring}
    for shuffle in SHUFFLES:
        search = GridSearchCV(
            model,
            {parameter: list(CANDIDATES)},
            scoring=scoring,
            refit=False,
            cv=KFold(N_FOLDS, shuffle=True, random_state=shuffle),
            error_score="raise",
        ).fit(X)
        for name in scoring:
            best = np.argmax(search.cv_results_[f"mean_test_{name}"])
            chosen[name].append(CANDIDATES[best])
    return chosen


def search(names):
    """Print a block for every estimator, then the sums."""
    print(versions("scikit-learn"))
    total = dict.fromkeys(available_scorers(), 0)
    n_choices = 0
    for name in names or ESTIMATORS:
        right = dict.fromkeys(total, 0)
        print(f"\n{name:25s}" + "".join(f"{scorer:>19s}" for scorer in total))
        for set_name, X, y, scaled in searched_sets():
            start = perf_counter()
            truth = len(np.unique(y))
            chosen = choose(ESTIMATORS[name], X, scaled)
            n_choices += len(SHUFFLES)
            for scorer, picks in chosen.items():
                right[scorer] += picks.count(truth)
            cells = "".join(f"{' '.join(map(str, p)):>19s}" for p in chosen.values())
            seconds = perf_counter() - start
            print(f"{set_name + f' ({truth})':25s}{cells}{seconds:8.0f} s", flush=True)
        print(f"{'right':25s}" + "".join(f"{right[scorer]:19d}" for scorer in total))
        total = {scorer: total[scorer] + right[scorer] for scorer in total}
    print(
        f"\n{f'right, of {n_choices}':25s}"
        + "".join(f"{n:19d}" for n in total.values())
    )


# Problems with clusters, whose number is to be found, and without.


def apart(rng, k, n_features, gap, box):
    """Return k centres that are at least `gap` apart."""
    centers = []
    while len(centers) < k:
        center = rng.uniform(-box, box, n_features)
        if all(np.linalg.norm(center - other) >= gap for other in centers):
            centers.append(center)
        else:
            box *= 1.01
    return np.array(centers)


def blobs(rng, sizes, *, n_features=2, gap=8.0, spread=1.0):
    """Return normal clusters at least `gap` apart."""
    k = len(sizes)
    box = gap * k ** (1 / min(n_features, 3)) * 0.7
    centers = apart(rng, k, n_features, gap, box)
    y = np.repeat(np.arange(k), sizes)
    spread = np.broadcast_to(spread, k)[y][:, None]
    return centers[y] + spread * rng.normal(size=(len(y), n_features)), y


def noisy(rng, X, y, fraction):
    """Add uniform samples of no class over the bounding box."""
    shape = (round(fraction * len(X)), X.shape[1])
    noise = rng.uniform(X.min(axis=0), X.max(axis=0), shape)
    return np.r_[X, noise], np.r_[y, np.full(len(noise), -1)]


def lattice(rng, side, distance, n_each=40):
    """Return normal clusters on a square grid."""
    places = np.stack(np.meshgrid(range(side), range(side)), -1).reshape(-1, 2)
    y = np.repeat(np.arange(side * side), n_each)
    return distance * places[y] + rng.normal(size=(len(y), 2)), y


def rings(rng, n_rings=3):
    """Return rings of growing radius."""
    y = np.repeat(np.arange(n_rings), 120 * (1 + np.arange(n_rings)))
    angle = rng.uniform(0, 2 * np.pi, len(y))
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * (1 + y[:, None])
    return X + 0.06 * rng.normal(size=X.shape), y


def stretched(rng):
    """Return blobs under linear maps."""
    X, y = blobs(rng, [150] * 4, gap=14)
    for label in range(4):
        own = y == label
        center = X[own].mean(axis=0)
        X[own] = (X[own] - center) @ rng.normal(size=(2, 2)) * 1.3 + center
    return X, y


def nested(rng):
    """Return three groups of three blobs; nine clusters."""
    outer = 40 * np.array([[0, 0], [1, 0], [0.5, 0.9]])
    inner = 8 * np.array([[0, 0], [1, 0], [0.5, 0.9]])
    centers = (outer[:, None] + inner[None]).reshape(-1, 2)
    y = np.repeat(np.arange(9), 60)
    return centers[y] + rng.normal(size=(540, 2)), y


def tails(rng, degrees, gap):
    """Return three clusters of Student's t."""
    y = np.repeat(np.arange(3), 150)
    centers = gap * np.array([[0, 0], [1, 0], [0.5, 0.9]])
    return centers[y] + rng.standard_t(degrees, (450, 2)), y


def without(X):
    """Return samples that are one class."""
    return X, np.zeros(len(X), dtype=int)


def warped(rng):
    """Return one correlated Gaussian in ten dimensions."""
    return without(rng.normal(size=(500, 10)) @ rng.normal(size=(10, 10)))


HELD_OUT = {
    "blobs 6": lambda rng: blobs(rng, [100] * 6),
    "blobs 20, d = 3": lambda rng: blobs(rng, [50] * 20, n_features=3, gap=7),
    "blobs 3, 10 % noise": lambda rng: noisy(rng, *blobs(rng, [200] * 3), 0.1),
    "blobs 8, 20 % noise": lambda rng: noisy(rng, *blobs(rng, [100] * 8), 0.2),
    "blobs 5, d = 5, 10 % noise": lambda rng: noisy(
        rng, *blobs(rng, [100] * 5, n_features=5), 0.1
    ),
    "lattice 4 x 4": lambda rng: lattice(rng, 4, 6.0),
    "lattice 5 x 5, near": lambda rng: lattice(rng, 5, 5.0),
    "densities and sizes": lambda rng: blobs(
        rng, [300, 150, 100, 60], gap=11, spread=[0.3, 1, 2, 0.5]
    ),
    "sizes 8, unequal": lambda rng: blobs(rng, list(rng.randint(20, 200, 8))),
    "circles": lambda rng: datasets.make_circles(
        500, factor=0.5, noise=0.05, random_state=rng
    ),
    "rings 4": lambda rng: rings(rng, 4),
    "moons, 5 % noise": lambda rng: noisy(
        rng, *datasets.make_moons(400, noise=0.05, random_state=rng), 0.05
    ),
    "stretched": stretched,
    "nested": nested,
    "heavy tails, t2": lambda rng: tails(rng, 2, 30),
    "blobs 5, d = 100": lambda rng: blobs(rng, [80] * 5, n_features=100, gap=20),
    "lattice 3 x 3, touching": lambda rng: lattice(rng, 3, 4.0, 80),
    "lattice 6 x 6, near": lambda rng: lattice(rng, 6, 4.5, 60),
    "blobs 3, near, 20 % noise": lambda rng: noisy(
        rng, *blobs(rng, [150] * 3, gap=5), 0.2
    ),
    "blobs 25, d = 4, near": lambda rng: blobs(rng, [50] * 25, n_features=4, gap=6),
    "blobs 7, near": lambda rng: blobs(rng, [80] * 7, gap=5),
}


NOTHING_HELD_OUT = {
    "Gaussian, n = 150": lambda rng: without(rng.normal(size=(150, 3))),
    "disc": lambda rng: without(
        np.sqrt(rng.uniform(size=(800, 1)))
        * np.stack([np.cos(a := rng.uniform(0, 7, 800)), np.sin(a)], -1)
    ),
    "t5": lambda rng: without(rng.standard_t(5, (500, 3))),
    "correlated, d = 10": warped,
    "exponential": lambda rng: without(rng.exponential(size=(500, 2))),
    "Gaussian, n = 2000": lambda rng: without(rng.normal(size=(2000, 2))),
}


def warns_of(model, X, message="no clear|no more structure"):
    """Return whether a fit warns that there is no clear structure."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    return any(re.search(message, str(w.message)) for w in caught)


# Families of problems.

FILES = (
    "ctg ecoli heart_statlog house_votes_84 movlib zoo letter usps_train isolet "
    "mnist_t10k"
).split()
MOST = 1500


def high_mixture(rng, n_features):
    """Return a mixture of three to eight Gaussians whose distances vary."""
    k = rng.randint(3, 9)
    gap = rng.choice([1.5, 2.0, 3.0, 4.0, 6.0])
    centers = rng.normal(size=(k, n_features)) * gap / np.sqrt(2) * n_features**-0.25
    y = rng.randint(k, size=400)
    return centers[y] + rng.normal(size=(400, n_features)), y


def topics(rng, n_features):
    """Return normalised counts of 30 words of three to eight topics."""
    k = rng.randint(3, 9)
    shares = rng.dirichlet(np.full(n_features, 0.2), size=k)
    y = rng.randint(k, size=400)
    counts = np.array([rng.multinomial(30, shares[label]) for label in y], float)
    return counts / np.linalg.norm(counts, axis=1)[:, None], y


def random_blobs(rng, n_features):
    """Return standardised blobs whose centres are drawn from a cube."""
    k = rng.choice([3, 4, 5, 6, 8] if n_features > 2 else [3, 4, 5])
    X, y = datasets.make_blobs(400, n_features, centers=k, random_state=rng)
    return standardised(X), y


def of_mixture(rng):
    """Return a mixture of two to six Gaussians, at least 3.5 deviations apart."""
    return mixture(rng.randint(2**31))


WIDE = {
    **{f"mixture, d = {d}": (high_mixture, d) for d in (20, 100, 500)},
    **{f"topics of {d} words": (topics, d) for d in (100, 500)},
    **{f"random blobs, d = {d}": (random_blobs, d) for d in (2, 3, 5, 8)},
}


def drawn_families():
    """Return {name: function of a generator} of drawn problems."""
    found = dict(HELD_OUT)
    for name, (draw, d) in WIDE.items():
        found[name] = lambda rng, draw=draw, d=d: draw(rng, d)
    found["Gaussian mixture"] = of_mixture
    found |= NOTHING_HELD_OUT
    for d in (20, 100, 500):
        found[f"cube, d = {d}"] = lambda rng, d=d: without(rng.uniform(size=(400, d)))
        found[f"correlated, d = {d}"] = lambda rng, d=d: without(
            rng.normal(size=(400, d)) @ rng.normal(size=(d, d))
        )
    return found


def drawn_problems():
    """Yield (name, samples, true number of clusters)."""
    for name, draw in drawn_families().items():
        n_draws = 10 if "random" in name or "Gaussian mixture" in name else 3
        for seed in range(n_draws):
            X, y = draw(np.random.RandomState(5000 + seed))
            yield name, X, y if np.isscalar(y) else len(np.unique(y[y >= 0]))
    for name in filter(is_here, (*OWN, *FILES)):
        X, y = some(*load(name), MOST)
        yield name, X if name == "digits" else standardised(X), len(np.unique(y))


def found_by(model, X, n_states):
    """Return the numbers of clusters and whether each fit warned, by random state."""
    rows = []
    for state in range(n_states):
        warned = warns_of(model.set_params(random_state=state), X)
        rows.append((model.n_clusters_, warned))
    return np.array(rows).T


def families(cls, n_states, has_peers):
    """Print a line for each family and real data set, and the sums."""
    table = {}
    for name, X, truth in drawn_problems():
        found = found_by(cls("auto"), X, n_states)
        peer = 0
        if has_peers:
            numbers = range(2, 41)
            labels = largest_silhouette(X, numbers, n_init=3, n_judged=1000)
            peer = labels.max() + 1
        table.setdefault(name, []).append((truth, found, peer))
        print(f"{name}: {truth}", *found, peer, flush=True)
    print("                            k     right       warns      found")
    cells = {"drawn": [], "real": [], "nothing": []}
    for name, lines in table.items():
        truths = np.array([line[0] for line in lines])
        found = np.array([line[1] for line in lines])  # (draws, 2, states)
        peers = np.array([line[2] for line in lines])
        right = found[:, 0] == truths[:, None]
        warns = found[:, 1].astype(bool)
        is_real = name in OWN or name in FILES
        kind = "nothing" if truths.max() == 1 else "real" if is_real else "drawn"
        cells[kind].append((right, warns, peers == truths))
        numbers = " ".join(map(str, found[0, 0]))
        print(
            f"{name:26s}{truths[0]:4d}  {right.mean():.2f}   {warns.mean():.2f}   "
            f"{numbers}; {peers[0]}"
        )
    for kind, rows in cells.items():
        right, warns, peers = map(np.concatenate, zip(*rows, strict=True))
        line = f"{kind}, {len(right)} problems: "
        if kind == "nothing":
            line += f"warns {warns.mean():.3f}"
        else:
            line += (
                f"right {right.mean():.3f}, k-means {peers.mean():.3f}; warns where "
                f"right {warns[right].mean():.3f}, where wrong "
                f"{warns[~right].mean():.3f}"
            )
        print(line, flush=True)


# GEMINI.

COUNTS = range(2, 11)


def mixture(seed):
    """Return samples (400, d) and the number of their components."""
    rng = np.random.RandomState(seed)
    n_clusters, n_features = rng.randint(2, 7), rng.randint(2, 9)
    while True:
        centers = rng.normal(scale=4, size=(n_clusters, n_features))
        distances = np.linalg.norm(centers[:, None] - centers, axis=2)
        if distances[np.triu_indices(n_clusters, 1)].min() > 3.5:
            break
    shares = np.maximum(rng.dirichlet(np.full(n_clusters, 6.0)), 0.08)
    y = rng.choice(n_clusters, size=400, p=shares / shares.sum())
    return centers[y] + rng.normal(size=(400, n_features)), n_clusters


def gemini_problems():
    """Yield a name, samples, and the true number of clusters."""
    for seed in range(600, 612):
        X, n_clusters = mixture(seed)
        yield f"mixture {seed}", X, n_clusters
    for scenario in (4, 5):
        for seed in (31, 32):
            data = make_celeux_one(scenario, random_state=seed)
            yield f"scenario {scenario}, {seed}", data.X, 3
    for seed in range(700, 703):
        rng = np.random.RandomState(seed)
        scales = rng.uniform(1, 4, size=5)
        yield f"one Gaussian, {seed}", rng.normal(size=(300, 5)) * scales, 1


def by_bic(X):
    """Return the number of components, from one on, with the smallest BIC."""
    counts = range(1, COUNTS.stop)
    values = [GaussianMixture(k, random_state=0).fit(X).bic(X) for k in counts]
    return counts[int(np.argmin(values))]


def timed_auto(model, X):
    """Return a fitted model, whether its number of clusters is clear, and seconds."""
    spent, warned = seconds(warns_of, model, X)
    return model, not warned, spent


def gemini_auto():
    """Return an unfitted GEMINI that determines the number."""
    return GEMINI("auto", mode="ovo", random_state=0)


def gemini():
    """Print a row a problem, and how many each method has right."""
    print("problem             true  auto  clear  silhouette  BIC  s of auto")
    right = np.zeros(3, dtype=int)
    n_clustered = n_warned = n_single = 0
    for name, X, truth in gemini_problems():
        model, is_clear, spent = timed_auto(gemini_auto(), X)
        found = model.n_clusters_
        labels = largest_silhouette(X, COUNTS, n_init=3)
        others = labels.max() + 1, by_bic(X)
        if truth == 1:
            n_single += 1
            n_warned += not is_clear
        else:
            n_clustered += 1
            right += np.array([found, *others]) == truth
        print(
            f"{name:19s} {truth:4d}  {found:4d}  {is_clear!s:5s}  {others[0]:10d}  "
            f"{others[1]:3d}  {spent:9.1f}",
            flush=True,
        )
    print(f"right, of {n_clustered}: auto {right[0]}, silhouette {right[1]}, ", end="")
    print(f"BIC {right[2]}; warned of {n_warned} of {n_single} single Gaussians")


# Spanning forests.


def indices(X, y):
    """Return four adjusted Rand indices, whether the number is right, and a warning."""
    known = y >= 0
    k = len(np.unique(y[known]))
    model = SpanningForestClustering("auto")
    warned = warns_of(model, X)
    falls = number_by_falls(falls_of(model.cut_scores_)[: len(X) // 10])[0]
    labels = (
        model.labels_,
        model.cut(k),
        model.cut(falls),
        HDBSCAN(min_cluster_size=15, copy=True).fit_predict(X),
    )
    found = [adjusted_rand_score(y[known], one[known]) for one in labels]
    return [*found, model.n_clusters_ == k, warned]


COLUMNS = "ours, true number, falls, HDBSCAN, right, warns"


def forest(seeds):
    """Print the indices of the shapes, with intervals, and what is not warned of."""
    rows = {}
    for name in shapes.SHAPES:
        rows[name] = [
            indices(*shapes.draw(name, seed, blur))
            for seed in range(*seeds)
            for blur in (0.3, 0.8, 1.3)
        ]
        print(f"{name:26s}", np.mean(rows[name], axis=0).round(3), flush=True)
    means = np.array([np.mean(row, axis=0) for row in rows.values()])
    print(f"mean of {len(means)} families ({COLUMNS}):", means.mean(axis=0).round(3))
    rng = np.random.RandomState(0)
    for name, column in (("falls", 2), ("HDBSCAN", 3)):
        gain = means[:, 0] - means[:, column]
        drawn = gain[rng.randint(len(gain), size=(10_000, len(gain)))].mean(axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        print(f"ours - {name}: {gain.mean():.3f} [{low:.3f}, {high:.3f}]")
    silent = [
        not warns_of(SpanningForestClustering("auto"), draw(np.random.RandomState(s)))
        for draw in shapes.NOTHING.values()
        for s in range(*seeds)
    ]
    print(f"not warned of {np.mean(silent):.3f} of {len(silent)} without structure")


def embeddings(names, seeds):
    """Print the indices of embeddings."""
    from umap import UMAP

    for name in names or ("usps_train", "mnist_t10k", "isolet", "digits"):
        X, y = load(name)
        for seed in range(*seeds):
            model = UMAP(n_components=10, min_dist=0.0, random_state=seed, n_jobs=1)
            found = indices(model.fit_transform(X).astype(float), y)
            print(f"{name}, {seed} ({COLUMNS}):", np.round(found, 3), flush=True)


def main():
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ["search", "families", "gemini", "forest", "embeddings"]
    parser.add_argument("part", choices=parts)
    parser.add_argument("names", nargs="*", help="estimators, or data sets")
    parser.add_argument("--seeds", type=int, nargs=2, default=(3000, 3002))
    parser.add_argument("--states", type=int, default=3, help="random states")
    parser.add_argument("--no-peers", action="store_true", help="leave out slow ones")
    options = parser.parse_args()
    if options.part != "gemini":
        warnings.simplefilter("ignore")
    if options.part == "search":
        search(options.names)
    elif options.part == "families":
        for name in options.names or ["ClAM"]:
            families(type(ESTIMATORS[name]), options.states, not options.no_peers)
    elif options.part == "forest":
        forest(options.seeds)
    elif options.part == "embeddings":
        embeddings(options.names, options.seeds)
    else:
        gemini()


if __name__ == "__main__":
    main()
