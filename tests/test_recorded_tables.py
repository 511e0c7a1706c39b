"""Recorded tables: their commands write what is shown, and the charts show them."""

import csv
import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "doc" / "benchmarks"
TABLES = sorted(path.name for path in FOLDER.glob("*.csv"))
GUIDE = FOLDER.parent / "user_guide" / "large_data.rst"
PAGES = "".join(
    path.read_text("utf-8") for path in [*sorted(FOLDER.glob("*.rst")), GUIDE]
)


@pytest.fixture
def load(monkeypatch, tmp_path):
    """Return the function that imports a benchmark, whose results go elsewhere."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "doc")
    monkeypatch.setattr(sys, "argv", [str(ROOT / "doc" / "charts.py")])
    monkeypatch.chdir(tmp_path)

    def load(name):
        monkeypatch.setitem(sys.modules, name, None)  # as before, after the test
        del sys.modules[name]
        return importlib.import_module(name)

    return load


def read(path):
    """Return the heading and the rows of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        heading, *rows = csv.reader(file)
    return heading, rows


def shape_of(cell):
    """Return the text of a cell with all its numbers alike."""
    return re.sub(r"-?\d+(\.\d+)?", "0", re.sub(r"\(\D+\)", "(name)", cell))


def assert_same_format(written, name):
    """Compare what a small run has written with the table of the documentation."""
    heading, rows = read(written)
    recorded_heading, recorded = read(FOLDER / name)
    assert len(heading) <= len(recorded_heading)
    known = {tuple(map(shape_of, row[1:])) for row in recorded}
    assert all(len(row) == len(heading) for row in rows)
    for row in rows:
        shapes = tuple(map(shape_of, row[1:]))
        assert any(shapes == one[: len(shapes)] for one in known), row


@pytest.mark.parametrize("name", TABLES)
def test_a_recorded_table_is_that_of_a_page_with_a_command(name):
    assert len(re.findall(rf":file: (?:\S+/)?{name}\n", PAGES)) == 1
    text = " ".join(PAGES.split())
    commands = re.findall(r"--record (doc/benchmarks[\w./]*)", text)
    assert any(name in command or command == "doc/benchmarks" for command in commands)
    heading, rows = read(FOLDER / name)
    assert rows
    assert all(len(row) == len(heading) for row in rows)


@pytest.mark.full
def test_growth_of_forests_is_recorded(load, tmp_path):
    load("bench_forest").growth(tmp_path / "table.csv", {3: (2, 3)})
    heading, rows = read(tmp_path / "table.csv")
    assert heading == read(FOLDER / "forest_growth.csv")[0]
    assert [row[:2] for row in rows] == [["3", "100"], ["3", "1000"]]
    assert_same_format(tmp_path / "table.csv", "forest_growth.csv")


@pytest.mark.full
def test_trees_by_blocks_are_recorded(load, tmp_path):
    load("bench_forest").blocks(tmp_path / "table.csv", (3,))
    heading, rows = read(tmp_path / "table.csv")
    assert heading == read(FOLDER / "forest_blocks.csv")[0]
    assert [row[:2] for row in rows] == [["1000", "by blocks"], ["1000", "in memory"]]
    assert_same_format(tmp_path / "table.csv", "forest_blocks.csv")


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_growth_of_all_estimators_is_recorded(load, tmp_path, monkeypatch):
    bench = load("bench_large")
    monkeypatch.setattr(bench, "alone", lambda function, *given: function(*given))
    results = bench.Results(tmp_path / "results")
    bench.growth(results, tmp_path / "table.csv", ["ClAM", "AssociativeImputer"], (3,))
    heading, rows = read(tmp_path / "table.csv")
    recorded_heading, recorded = read(FOLDER / "growth.csv")
    assert heading == recorded_heading
    assert [row[:2] for row in rows] == [
        ["ClAM", "1000"],
        ["AssociativeImputer", "1000"],
    ]
    assert list(bench.ESTIMATORS) == list(dict.fromkeys(row[0] for row in recorded))


def test_classes_without_labels_are_recorded(load, tmp_path):
    pytest.importorskip("torch")
    bench = load("bench_learning")
    methods = {name: bench.METHODS[name] for name in ("features", "label spreading")}
    bench.discover(tmp_path / "table.csv", ["digits"], methods, seeds=[0, 1])
    heading, rows = read(tmp_path / "table.csv")
    assert heading == read(FOLDER / "learning.csv")[0][:2]
    assert [row[0] for row in rows] == list(methods)
    assert list(bench.METHODS) == [row[0] for row in read(FOLDER / "learning.csv")[1]]
    assert_same_format(tmp_path / "table.csv", "learning.csv")


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_imputed_values_are_recorded(load, tmp_path):
    pytest.importorskip("torch")
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.RandomState(0).permutation(len(X))[:50]
    data = [("iris", X[order], y[order])]
    load("bench_memories").missing(tmp_path / "table.csv", data, n_seeds=1)
    heading, rows = read(tmp_path / "table.csv")
    recorded_heading, recorded = read(FOLDER / "missing_values.csv")
    assert heading == recorded_heading
    assert [row[0] for row in rows] == [row[0] for row in recorded]
    assert_same_format(tmp_path / "table.csv", "missing_values.csv")


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_methods_are_recorded(load, tmp_path):
    bench = load("bench_all")
    sets = [one for one in bench.data_sets() if one[0] in ("iris", "moons", "blobs")]
    bench.defaults(tmp_path, sets)
    for name in ("all_methods", "all_methods_families", "all_methods_sets"):
        heading, rows = read(tmp_path / f"{name}.csv")
        recorded_heading, recorded = read(FOLDER / f"{name}.csv")
        names = [re.sub(r" \(\d+\)", "", title) for title in heading]
        known = [re.sub(r" \(\d+\)", "", title) for title in recorded_heading]
        assert [title for title in known if title in names] == names
        assert {row[0] for row in rows} <= {row[0] for row in recorded}
        assert_same_format(tmp_path / f"{name}.csv", f"{name}.csv")


def test_charts_show_the_recorded_figures(load):
    plt = pytest.importorskip("matplotlib.pyplot")
    charts = load("charts")
    names = re.findall(r"plot:: charts\.py (\w+)\n", PAGES)
    assert len(names) >= 2
    for name in names:
        getattr(charts, name)()
        figure = plt.gcf()
        assert figure.axes[-1].get_xlabel()
        plt.close(figure)
    charts.forest_growth()
    drawn = np.concatenate(
        [line.get_ydata() for line in plt.gca().lines if line.get_marker() != "None"]
    )
    plt.close()
    recorded = [float(row[2]) for row in read(FOLDER / "forest_growth.csv")[1]]
    assert sorted(drawn) == sorted(recorded)
    assert charts.numbers("0.50 [0.40, 0.70]") == (0.5, 0.4, 0.7)
    assert np.allclose(charts.numbers("-0.1 ± 0.2"), (-0.1, -0.3, 0.1))
