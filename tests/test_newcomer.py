"""Ten tasks of a newcomer, each with the page that answers it.

Each test is what a reader writes after reading its page, on small data. One test
follows the links of the pages: an answer is at most two clicks from the landing page.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_wine, make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdiffclust import (
    GEMINI,
    AssociativeImputer,
    ClAM,
    GraphCutClustering,
    SpanningForestClustering,
    SparseGEMINI,
)
from skdiffclust.metrics import silhouette_scorer

DOC = Path(__file__).resolve().parents[1] / "doc"
# The task, the page that answers it, and what the page has to mention.
TASKS = {
    "cluster a CSV file": ("getting_started", "read_csv"),
    "choose the number of clusters": ("user_guide/tuning", "silhouette_scorer"),
    "cluster texts": ("which_method", "TF-IDF"),
    "missing values": ("user_guide/missing_values", "AssociativeImputer"),
    "use constraints": ("user_guide/partial_labels", "must_link"),
    "cluster a graph": ("which_method", 'affinity="precomputed"'),
    "select variables": ("user_guide/gemini", "get_support"),
    "use one's own network": ("user_guide/gpu", "loss.backward()"),
    "save and load a model": ("user_guide/persistence", "pickle.loads"),
    "cluster ten million samples": ("user_guide/large_data", "_by_blocks"),
}


def links_of(page):
    """Return the pages that a page leads to: cross-references, cards and contents."""
    text = (DOC / f"{page}.rst").read_text(encoding="utf-8")
    found = re.findall(r":doc:`(?:[^`<]*<)?([\w/.]+)>?`", text)
    found += re.findall(r"^ *:link: (\S+)$", text, flags=re.MULTILINE)
    found += re.findall(r"button-ref:: (\S+)", text)
    for block in re.findall(r"toctree::\n(?: +:.*\n)*\n((?: +\S+\n)+)", text):
        found += block.split()
    pages = set()
    for name in found:
        path = os.path.normpath(os.path.join(os.path.dirname(page), name))
        if (DOC / f"{path}.rst").is_file():
            pages.add(path)
    return pages


def test_an_answer_is_two_clicks_away():
    first = links_of("index")
    reached = first.union(*map(links_of, first))
    assert {page for page, _ in TASKS.values()} <= reached


@pytest.mark.parametrize("task", TASKS)
def test_the_page_speaks_of_it(task):
    page, words = TASKS[task]
    assert words in (DOC / f"{page}.rst").read_text(encoding="utf-8")


@pytest.mark.full
def test_cluster_a_csv_file(tmp_path):
    pandas = pytest.importorskip("pandas")
    load_wine(as_frame=True).data.to_csv(tmp_path / "table.csv", index=False)
    X = pandas.read_csv(tmp_path / "table.csv")
    labels = make_pipeline(StandardScaler(), ClAM(3, random_state=0)).fit_predict(X)
    assert adjusted_rand_score(load_wine().target, labels) > 0.8


def test_a_csv_file_as_it_comes(tmp_path):
    """An integer id, a date, a Boolean, rare levels and gaps, as the tutorial says."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=240)
    table = pd.DataFrame(
        {
            "customer": rng.permutation(10_000)[:240],
            "joined": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(kind * 200 + rng.integers(30, size=240), unit="D"),
            "active": np.where(kind == 1, "True", "False"),
            "city": np.take(["Bonn", "Lyon", "Turin"], kind),
            "spent": 100.0 * kind + rng.normal(scale=10, size=240),
            "visits": -5.0 * kind + rng.normal(scale=1, size=240),
        }
    )
    table.loc[:4, "city"] = [f"rare {i}" for i in range(5)]
    for name in ("spent", "visits", "city", "joined"):
        table.loc[rng.uniform(size=240) < 0.08, name] = None
    table.to_csv(tmp_path / "table.csv", index=False)

    page = (DOC / "getting_started.rst").read_text(encoding="utf-8")
    (prepare,) = re.findall(r"code-block:: python\n\n((?: {4}.*\n)+)", page)
    (columns,) = re.findall(
        r"( {4}from sklearn.compose(?:.*\n|\n)*?    model = .*\n)", page
    )
    (search,) = re.findall(r"( {4}search = (?:.*\n)*?    \)\.fit\(X\)\n)", page)
    names = {
        "pd": pd,
        "table": pd.read_csv(tmp_path / "table.csv"),
        "GridSearchCV": GridSearchCV,
        "KFold": KFold,
        "silhouette_scorer": silhouette_scorer,
    }
    exec(dedent(prepare), names)
    names["X"] = names["table"]
    exec(dedent(columns) + dedent(search), names)
    found = names["search"]
    assert found.best_params_ == {"clam__n_clusters": 3}
    assert adjusted_rand_score(kind, found.best_estimator_[-1].labels_) > 0.95


@pytest.mark.full
def test_choose_the_number_of_clusters():
    X, y = make_blobs(200, centers=4, cluster_std=0.5, random_state=3)
    found = SpanningForestClustering("auto").fit(X)
    assert found.n_clusters_ == 4
    assert adjusted_rand_score(y, found.labels_) == 1


@pytest.mark.full
def test_cluster_texts():
    from sklearn.feature_extraction.text import TfidfVectorizer

    about = [
        ["river", "lake", "fish", "boat", "water"],
        ["oven", "flour", "bread", "butter", "dough"],
    ]
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    texts = [" ".join(rng.choice(about[topic], 8)) for topic in y]
    model = make_pipeline(
        TfidfVectorizer(),
        GraphCutClustering(2, metric="cosine", n_neighbors=10, random_state=0),
    )
    assert adjusted_rand_score(y, model.fit_predict(texts)) == 1


@pytest.mark.full
def test_missing_values():
    X, y = make_blobs(150, centers=3, n_features=4, cluster_std=0.5, random_state=1)
    X[np.random.default_rng(0).uniform(size=X.shape) < 0.1] = np.nan
    model = make_pipeline(
        AssociativeImputer(random_state=0), SpanningForestClustering(3)
    )
    assert adjusted_rand_score(y, model.fit_predict(X)) > 0.9
    assert adjusted_rand_score(y, ClAM(3, random_state=0).fit(X).labels_) > 0.9


@pytest.mark.full
def test_use_constraints():
    X, _ = make_blobs(60, centers=[[0, 0], [4, 0]], cluster_std=0.5, random_state=0)
    far = [int(X[:, 0].argmin()), int(X[:, 0].argmax())]
    forest = SpanningForestClustering(2).fit(X, must_link=[far])
    assert forest.labels_[far[0]] == forest.labels_[far[1]]
    near = np.argsort(X[:, 0])[:2]
    forest.fit(X, cannot_link=[near])
    assert forest.labels_[near[0]] != forest.labels_[near[1]]


@pytest.mark.full
def test_cluster_a_graph():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    edges = rng.uniform(size=(40, 40)) < np.where(y[:, None] == y, 0.5, 0.02)
    edges = np.triu(edges, 1)
    graph = csr_array((edges | edges.T).astype(float))
    labels = GraphCutClustering(2, affinity="precomputed", random_state=0).fit_predict(
        graph
    )
    assert adjusted_rand_score(y, labels) == 1


@pytest.mark.full
def test_select_variables():
    X, y = make_blobs(150, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    noise = np.random.default_rng(0).normal(size=(150, 4))
    X = StandardScaler().fit_transform(np.hstack([X, noise]))
    sparse = SparseGEMINI(3, mode="ovo", n_init=1, random_state=0)
    sparse.path(X, min_features=2)
    assert sparse.get_support(indices=True).tolist() == [0, 1]


@pytest.mark.full
@pytest.mark.torch
def test_use_ones_own_network():
    torch = pytest.importorskip("torch")
    from skdiffclust.nn import GEMINILoss

    torch.manual_seed(0)
    X, y = make_blobs(100, centers=[[-4, 0], [4, 0]], random_state=0)
    x = torch.from_numpy(X).float()
    network = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    loss_of = GEMINILoss("mmd", mode="ovo")
    for _ in range(100):
        optimizer.zero_grad()
        loss_of(network(x), x).backward()
        optimizer.step()
    assert adjusted_rand_score(y, network(x).argmax(1).numpy()) == 1


@pytest.mark.full
def test_save_and_load_a_model(tmp_path):
    import joblib

    X, _ = make_moons(100, noise=0.05, random_state=0)
    model = GEMINI(2, random_state=0).fit(X)
    joblib.dump(model, tmp_path / "model.joblib")
    # By another process, as later.
    code = (
        "import joblib, numpy as np\n"
        f"model = joblib.load({str(tmp_path / 'model.joblib')!r})\n"
        "print(*model.predict([[-1.0, 0.0], [2.0, 0.5]]))"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": str(DOC.parent)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    printed = np.array(result.stdout.split(), dtype=int)
    np.testing.assert_array_equal(printed, model.predict([[-1.0, 0.0], [2.0, 0.5]]))


@pytest.mark.full
def test_cluster_more_samples_than_memory_holds(tmp_path):
    from skdiffclust.forests import minimum_spanning_tree_by_blocks

    X, y = make_blobs(2000, centers=3, cluster_std=0.3, random_state=0)
    np.save(tmp_path / "samples.npy", X)
    samples = np.load(tmp_path / "samples.npy", mmap_mode="r")
    tree = minimum_spanning_tree_by_blocks(samples, n_blocks=4)
    forest = SpanningForestClustering(3).fit(samples, tree=tree)
    assert adjusted_rand_score(y, forest.labels_) == 1
