"""Check what type checkers see of the installed package: mypy and pyright.

    python .ci/check_types.py [wheel | editable]

A script is clean in both, mistakes planted in another are found, and `--verifytypes`
knows what every public function returns. The package is the one that this Python has
installed, as a wheel or editable, as said; the checkers run in a folder elsewhere,
which has no other. scikit-learn has no annotations; its types are not asked for.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from importlib import metadata
from pathlib import Path

GOOD = """\
from typing import assert_type

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdiffclust import GEMINI, ClAM, GraphCutClustering, SparseGEMINI
from skdiffclust import SpanningForestClustering
from skdiffclust.gemini import SparsePath, gemini_score
from skdiffclust.metrics import silhouette_scorer

X = np.random.default_rng(0).normal(size=(60, 2))
forest = SpanningForestClustering(3).fit(X)
assert_type(forest, SpanningForestClustering)
assert_type(forest.predict(X), np.ndarray)
assert_type(forest.cut("auto", min_size=5.0), np.ndarray)
for k in np.arange(2, 5):
    SpanningForestClustering(k, cut_rule="longest").fit(X)
assert_type(GraphCutClustering("auto", n_neighbors=5).fit(X), GraphCutClustering)
assert_type(ClAM(3, init=X[:3], metric="manhattan").fit(X).score(X), float)
path = SparseGEMINI(3, random_state=0).path(X)
assert_type(path, SparsePath)
assert_type(path.select(n_features=1), SparseGEMINI)
probabilities = GEMINI(3, objective="mmd", mode="ovo").fit(X).predict_proba(X)
assert_type(gemini_score(probabilities, X), float)
value, gradient = gemini_score(probabilities, X, return_gradient=True)
assert_type(gradient, np.ndarray)
make_pipeline(StandardScaler(), ClAM(3, random_state=0)).fit(X)
GridSearchCV(forest, {"n_clusters": [2, 3]}, scoring=silhouette_scorer).fit(X)
print(silhouette_scorer(forest, X), forest.labels_)
"""

# One mistake a line.
BAD = """\
from skdiffclust import GraphCutClustering, SpanningForestClustering
SpanningForestClustering(n_cluster=3)
SpanningForestClustering("autp")
print(SpanningForestClustering(3).fit([[0.0], [1.0]]).labelz_)
GraphCutClustering(2, cut="normalised")
"""


def run(*arguments, expected):
    """Run a checker and return what it printed; fail unless it ends as expected."""
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    # pyright asks the first Python of the path for its packages.
    variables["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), variables["PATH"]]
    )
    result = subprocess.run(
        [sys.executable, "-m", *arguments],
        capture_output=True,
        text=True,
        env=variables,
    )
    if result.returncode != expected:
        sys.exit(f"{' '.join(arguments)}:\n{result.stdout}{result.stderr}")
    return result.stdout


def check_installation(kind):
    """Stop unless the package is installed as `kind` says."""
    # A folder of build files in the checkout is another one.
    here = [sysconfig.get_path("purelib")]
    (source,) = metadata.distributions(name="skdiffclust", path=here)
    origin = json.loads(source.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable", False) != (kind == "editable"):
        sys.exit(f"skdiffclust is not installed as '{kind}': {origin}")


def check_mistakes():
    """Stop unless pyright finds the mistake in each line but the first."""
    printed = run("basedpyright", "--outputjson", "bad.py", expected=1)
    found = {
        problem["range"]["start"]["line"]
        for problem in json.loads(printed)["generalDiagnostics"]
        if problem["severity"] == "error"
    }
    missed = set(range(1, len(BAD.splitlines()))) - found
    if missed:
        sys.exit(f"pyright misses the mistakes in lines {missed} (from 0) of:\n{BAD}")


def check_returns():
    """Stop if the type of a public return is unknown, but for scikit-learn's own."""
    arguments = ("--ignoreexternal", "--verifytypes", "skdiffclust", "--outputjson")
    report = json.loads(run("basedpyright", *arguments, expected=1))
    symbols = report["typeCompleteness"]["symbols"]
    names = {symbol["name"] for symbol in symbols}
    if "skdiffclust.forests._spanning_forest.SpanningForestClustering.fit" not in names:
        sys.exit("--verifytypes has not read the package")
    unknown = [
        f"{symbol['name']}: {problem['message']}"
        for symbol in symbols
        if symbol["category"] in ("function", "method")
        for problem in symbol["diagnostics"]
        if re.match("Return type (is unknown|annotation)", problem["message"])
        and not symbol["name"].endswith(("__sklearn_tags__", "get_metadata_routing"))
    ]
    if unknown:
        sys.exit("\n".join(["Returns of unknown type:", *unknown]))


def main(kind):
    """Run all checks in a folder that has nothing else."""
    check_installation(kind)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("good.py").write_text(GOOD, encoding="utf-8")
        Path("bad.py").write_text(BAD, encoding="utf-8")
        Path("mypy.ini").write_text(
            "[mypy]\n[mypy-sklearn.*]\nignore_missing_imports = true\n",
            encoding="utf-8",
        )
        Path("pyrightconfig.json").write_text(
            json.dumps(
                {"typeCheckingMode": "standard", "reportMissingTypeStubs": False}
            ),
            encoding="utf-8",
        )
        run("mypy", "--strict", "good.py", expected=0)
        run("basedpyright", "good.py", expected=0)
        check_mistakes()
        check_returns()
        os.chdir("/")
    print(f"types of the {kind} installation: as they should be")


if __name__ == "__main__":
    main(sys.argv[1])
