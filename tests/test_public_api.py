"""The public face: names, docstrings, what an import loads, and the README."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from textwrap import dedent
from typing import Literal, get_args, get_origin

import numpy as np
import pytest

import skdiffclust

ROOT = Path(__file__).resolve().parents[1]


def public_modules():
    """Return the names of all modules without a leading underscore anywhere."""
    found = pkgutil.walk_packages(skdiffclust.__path__, "skdiffclust.")
    names = [module.name for module in found]
    names = ["skdiffclust"] + [name for name in names if "._" not in name]
    return [
        pytest.param(name, marks=pytest.mark.torch) if name.endswith(".nn") else name
        for name in names
    ]


def run_python(code, *flags):
    """Run code in a fresh process in the project root; return its output."""
    result = subprocess.run(
        [sys.executable, *flags, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


# Of the rules for a parameter, by their names or those of their types; those of choices
# and of scikit-learn's metrics, of which there are many, are below.
KINDS = {
    "Integral": {int, np.integer},
    "Real": {float},
    "boolean": {bool},
    "random_state": {int, np.random.RandomState, type(None)},
    "dict": {dict},
}


@pytest.mark.parametrize("name", sorted(skdiffclust.__all__))
def test_constructors_are_annotated_as_they_are_validated(name):
    """Type checkers infer int from a default of 2, and would refuse "auto"."""
    estimator = getattr(skdiffclust, name)
    rules = getattr(estimator, "_parameter_constraints", {})
    parameters = inspect.signature(estimator).parameters if rules else {}
    for parameter in rules.keys() & parameters.keys():
        annotation = parameters[parameter].annotation
        if annotation is object:
            continue
        parts = {annotation, *get_args(annotation)}
        types = {get_origin(part) or part for part in parts}
        literals = [part for part in parts if get_origin(part) is Literal]
        allowed = {name for part in literals for name in get_args(part)}
        choices = set()
        for rule in rules[parameter] if rules[parameter] != "no_validation" else ():
            choices |= getattr(rule, "options", set())
            rule = getattr(rule, "type", rule)
            expected = KINDS.get(getattr(rule, "__name__", rule), set())
            assert expected <= types, (parameter, rule)
            assert rule is not None or type(None) in types, parameter
        if literals or str not in parts:
            assert allowed == choices, parameter


@pytest.mark.parametrize("name", public_modules())
def test_every_public_name_resolves_and_is_on_an_api_page(name):
    pages = (ROOT / "doc" / "api").glob("*.rst")
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    listed = set(re.findall(r"^   (\w+)$", text, flags=re.MULTILINE))
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(module.__all__) <= set(dir(module))
    assert {n for n in module.__all__ if callable(getattr(module, n))} <= listed


@pytest.mark.torch
def test_editors_see_every_name():
    stub = ast.parse((ROOT / "skdiffclust" / "__init__.pyi").read_text("utf-8"))
    seen = {"__version__", "show_versions"}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            (alias,) = node.names
            assert alias.name == alias.asname
            found = pkgutil.resolve_name(f"{node.module}:{alias.name}")
            assert found is getattr(skdiffclust, alias.name)
            seen.add(alias.name)
    assert seen == {*skdiffclust.__all__, "nn"}


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'KMeans'"):
        skdiffclust.KMeans  # noqa: B018


def test_show_versions(capsys, monkeypatch):
    def version(name):
        if name == "POT":
            raise metadata.PackageNotFoundError(name)
        return f"1.2+{name}"

    monkeypatch.setattr(metadata, "version", version)
    skdiffclust.show_versions()
    shown = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()
    )
    assert shown["skdiffclust"] == skdiffclust.__version__
    assert shown["torch"] == "1.2+torch"
    assert shown["POT"] == "not installed"
    assert shown["python"] in sys.version


def test_import_is_light():
    heavy = "{'torch', 'numba', 'matplotlib', 'ot'}"
    code = (
        "import sys; from skdiffclust import *; "
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    assert run_python(code).strip() == "[]"


def literal_blocks(path, language):
    """Return the dedented ``.. code-block:: language`` blocks of a page."""
    text = (ROOT / path).read_text(encoding="utf-8")
    pattern = rf"^\.\. code-block:: {language}\n((?:    .*\n|\n)*)"
    found = re.findall(pattern, text + "\n", flags=re.MULTILINE)
    return [dedent(block).strip() for block in found]


def test_the_first_snippet_runs_as_it_stands_and_prints_what_it_says():
    (code,), (expected,) = (
        literal_blocks("README.rst", kind) for kind in ("python", "text")
    )
    assert literal_blocks("doc/index.rst", "python") == [code]
    assert literal_blocks("doc/index.rst", "text") == [expected]
    assert run_python(code, "-W", "error").strip() == expected


# Pages of the user guide whose blocks run, alone, in the order of the page. Two more
# need torch.
GUIDE = [
    "describing",
    "gemini",
    "graph_cuts",
    "learning",
    "missing_values",
    "mixed_data",
    "partial_labels",
    "persistence",
    "security",
    "spanning_forest",
    "tuning",
]


@pytest.mark.full
@pytest.mark.parametrize(
    "page",
    [
        *GUIDE,
        *(pytest.param(page, marks=pytest.mark.torch) for page in ("clam", "gpu")),
    ],
)
def test_user_guide_runs(page, tmp_path):
    blocks = literal_blocks(f"doc/user_guide/{page}.rst", "python")
    assert blocks
    code = "\n".join(["import os", f"os.chdir({str(tmp_path)!r})", *blocks])
    run_python(code, "-W", "error")
