"""Tables of numbers and categories: Gower's distance beside imputation and one-hot.

    python -m venv mixed && mixed/bin/pip install -r benchmarks/requirements.txt pandas
    PYTHONPATH=. mixed/bin/python benchmarks/bench_mixed.py gaps tables time

gaps    the adjusted Rand index of the forest on 600 samples of 4 clusters, 4 numbers
        and 4 categories, of which a share of the values is missing: Gower's distance
        where a missing value counts the mean of its feature, where features with gaps
        are left out, and where means and most frequent levels are imputed; five seeds
tables  the same index on real tables with classes, at the number of classes, of at
        most 1000 samples, beside k-means, k-prototypes and average linkage. Every other
        table by name chose; the others report. What is random has five seeds
time    processor seconds of 20 000 samples of 30 features with 5 % gaps, one thread
"""

import io
import sys
import tarfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from shared import interval, versions
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdiffclust import GraphCutClustering, SpanningForestClustering

SEEDS = range(5)
N_MOST = 1000
# Of pydataset, but for the penguins: file, class, and columns that are identifiers.
# They were chosen by what they are about, before anything was clustered.
TABLES = {
    "Arthritis": ("vcd/Arthritis", "Improved", ["ID"]),
    "car90": ("rpart/car90", "Type", []),
    "Cars93": ("MASS/Cars93", "Type", ["Model", "Make"]),
    "Chile": ("car/Chile", "vote", []),
    "crabs": ("MASS/crabs", "sp", ["index"]),
    "cu.summary": ("rpart/cu.summary", "Type", []),
    "mpg": ("ggplot2/mpg", "class", ["model"]),
    "msleep": ("ggplot2/msleep", "vore", ["name", "genus"]),
    "pbc": ("survival/pbc", "stage", ["id"]),
    "penguins": (None, "species", []),
    "Salaries": ("car/Salaries", "rank", []),
    "SLID": ("car/SLID", "language", []),
    "survey": ("MASS/survey", "Sex", []),
    "tips": ("reshape2/tips", "time", []),
    "titanic": ("COUNT/titanic", "class", []),
}


def folder(package):
    """Return the folder of a package, which is not imported."""
    return Path(find_spec(package).submodule_search_locations[0])


def load(name):
    """Return a table and its classes."""
    path, target, identifiers = TABLES[name]
    if path is None:
        text = (folder("palmerpenguins") / "data" / "penguins.csv").read_bytes()
    else:
        with tarfile.open(folder("pydataset") / "resources.tar.gz") as archive:
            text = archive.extractfile(f"resources/rdata/csv/{path}.csv").read()
    # "None" is a class of one of them.
    gaps = {"keep_default_na": False, "na_values": ["", "NA"]}
    index = None if path is None else 0
    frame = pd.read_csv(io.BytesIO(text), index_col=index, **gaps)
    frame = frame[frame[target].notna()]
    if len(frame) > N_MOST:
        frame = frame.sample(N_MOST, random_state=0)
    y = frame[target].astype(str).to_numpy()
    frame = frame.drop(columns=[target, *identifiers]).reset_index(drop=True)
    return frame.loc[:, frame.notna().any()], y


def made(share, seed):
    """Return a table of four clusters, with a share of the values missing."""
    rng = np.random.default_rng(seed)
    y = np.arange(600) % 4
    centres = rng.permuted(np.tile(np.arange(4.0), (4, 1)), axis=1)
    numbers = centres[:, y].T + 0.15 * rng.normal(size=(600, 4))
    levels = np.where(
        rng.random((600, 4)) < 0.9, y[:, None], rng.integers(0, 4, (600, 4))
    )
    frame = pd.DataFrame(numbers, columns=list("abcd"))
    frame[list("efgh")] = np.array(list("pqrs"))[levels]
    return frame.mask(rng.random(frame.shape) < share), y


def imputed(frame):
    """Return the table completed by means and most frequent levels."""
    frame = frame.copy()
    for name in frame:
        is_number = pd.api.types.is_numeric_dtype(frame[name])
        most = frame[name].mean() if is_number else frame[name].mode()[0]
        frame[name] = frame[name].fillna(most)
    return frame


def gower(frame, *, leave_out=False):
    """Return Gower's distances (n, n), by NumPy."""
    total = counts = 0.0
    for name in frame:
        values = frame[name].to_numpy()
        is_known = frame[name].notna().to_numpy()
        if pd.api.types.is_numeric_dtype(frame[name]):
            values = values.astype(float)
            spread = (np.nanmax(values) - np.nanmin(values)) or 1.0
            part = np.abs(values[:, None] - values) / spread
        else:
            values = values.astype(str)
            part = (values[:, None] != values).astype(float)
        both = is_known[:, None] & is_known
        pairs = both & ~np.eye(len(frame), dtype=bool)
        filled = np.where(both, part, 0.0 if leave_out else part[pairs].mean())
        total = total + filled
        counts = counts + (both if leave_out else 1.0)
    distances = np.where(counts > 0, total / np.maximum(counts, 1.0), 1.0)
    np.fill_diagonal(distances, 0.0)
    return distances


def encoder():
    """Return the usual encoding: means, unit variance, one-hot codes."""
    levels = make_pipeline(
        SimpleImputer(strategy="most_frequent"),
        OneHotEncoder(sparse_output=False, handle_unknown="ignore"),
    )
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return make_column_transformer(
        (numbers, lambda X: X.select_dtypes("number").columns),
        (levels, lambda X: X.select_dtypes(exclude="number").columns),
    )


def k_prototypes(frame, k, seed):
    """Return the clusters of k-prototypes of the imputed table, scaled."""
    from kmodes.kmodes import KModes
    from kmodes.kprototypes import KPrototypes

    full = imputed(frame)
    numbers = full.select_dtypes("number").columns
    others = [i for i, name in enumerate(full) if name not in numbers]
    if len(others) == full.shape[1]:
        return KModes(k, random_state=seed).fit_predict(full.to_numpy())
    full[numbers] = StandardScaler().fit_transform(full[numbers].astype(float))
    model = KPrototypes(k, random_state=seed, n_init=5)
    return model.fit_predict(full.to_numpy(object), categorical=others)


def by_gower(estimator):
    """Return a method that clusters the table itself."""
    return lambda frame, k, seed: seeded(estimator, k, seed).fit_predict(frame)


def by_codes(estimator):
    """Return a method that clusters the imputed and encoded table."""

    def method(frame, k, seed):
        return seeded(estimator, k, seed).fit_predict(encoder().fit_transform(frame))

    return method


def seeded(estimator, k, seed):
    """Return the estimator with a number of clusters and a seed."""
    estimator.set_params(n_clusters=k)
    return estimator.set_params(random_state=seed)


def linkage(frame, k, seed):
    """Return the clusters of average linkage on Gower's distances."""
    model = AgglomerativeClustering(k, metric="precomputed", linkage="average")
    return model.fit_predict(gower(frame))


def left_out(frame, k, seed):
    """Return the clusters of the forest, features with gaps left out."""
    model = SpanningForestClustering(k, metric="precomputed")
    return model.fit_predict(gower(frame, leave_out=True))


def imputed_first(frame, k, seed):
    """Return the clusters of the forest by Gower's distances of the imputed table."""
    return SpanningForestClustering(k, metric="gower").fit_predict(imputed(frame))


METHODS = {
    "forest, Gower": by_gower(SpanningForestClustering(metric="gower")),
    "forest, gaps left out": left_out,
    "forest, imputed, Gower": imputed_first,
    "forest, imputed, one-hot": by_codes(SpanningForestClustering()),
    "graph, Gower": by_gower(GraphCutClustering(metric="gower")),
    "graph, imputed, one-hot": by_codes(GraphCutClustering()),
    "k-means, imputed, one-hot": by_codes(KMeans(n_init=10)),
    "k-prototypes, imputed": k_prototypes,
    "average linkage, Gower": linkage,
}
NOT_RANDOM = "forest", "average"


def score(method, frame, y):
    """Return the mean of the adjusted Rand index over seeds."""
    seeds = SEEDS[:1] if method.startswith(NOT_RANDOM) else SEEDS
    k = len(np.unique(y))
    labels = [METHODS[method](frame, k, seed) for seed in seeds]
    return np.mean([adjusted_rand_score(y, found) for found in labels])


def run_gaps():
    """Print the index by the share of gaps."""
    for share in (0.0, 0.1, 0.2, 0.3):
        for method in list(METHODS)[:3]:
            scores = [score(method, *made(share, seed)) for seed in SEEDS]
            print(f"gaps {share:.0%}  {method:26s}{interval(scores)}", flush=True)


def run_tables():
    """Print the index of each table and method, and the means of both halves."""
    names = sorted(TABLES, key=str.lower)
    found = {}
    for name in names:
        frame, y = load(name)
        scores = [score(method, frame, y) for method in METHODS]
        found[name] = scores
        size = f"{frame.shape[0]} x {frame.shape[1]}"
        gaps = f"{frame.isna().to_numpy().mean():.1%}"
        half = "chooses" if names.index(name) % 2 == 0 else "reports"
        line = "".join(f"{value:7.2f}" for value in scores)
        print(f"{name:12s}{half:9s}{size:11s}{gaps:7s}{line}", flush=True)
    for half, part in (("chooses", names[::2]), ("reports", names[1::2])):
        scores = np.transpose([found[name] for name in part])
        means = dict(zip(METHODS, scores, strict=True))
        for method, of_tables in means.items():
            print(f"{half}  {method:28s}{interval(of_tables)}")
        for kind in ("forest", "graph"):
            ours, usual = f"{kind}, Gower", f"{kind}, imputed, one-hot"
            less = interval(means[ours] - means[usual])
            print(f"{half}  {kind}, Gower less one-hot  {less}")


def run_time():
    """Print the processor seconds of a tree, predictions, and a graph of neighbours."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(20_000, 30)))
    for name in frame.columns[15:]:
        frame[name] = rng.choice(list("pqrst"), 20_000)
    frame = frame.mask(rng.random(frame.shape) < 0.05)
    forest = SpanningForestClustering(5, metric="gower", n_jobs=1)
    graph = GraphCutClustering(5, metric="gower", n_neighbors=15, n_init=1)
    calls = {
        "forest, fit": lambda rows: forest.fit(rows),
        "forest, predict": lambda rows: forest.predict(rows),
        "graph of 15 neighbours, fit": lambda rows: graph.fit(rows),
    }
    for name, call in calls.items():
        call(frame[:6000])  # compiled
        begun = time.process_time()
        call(frame)
        print(f"{name:30s}{time.process_time() - begun:6.1f} s", flush=True)
        if name == "forest, fit":
            forest.fit(frame)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(versions("scikit-learn", "kmodes"))
    for part in sys.argv[1:]:
        globals()[f"run_{part}"]()
