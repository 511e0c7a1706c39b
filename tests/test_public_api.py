"""The public face: names, docstrings, what an import loads, and the README."""

import ast
import contextlib
import importlib
import inspect
import io
import pkgutil
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from urllib.parse import unquote

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


def run_here(code):
    """Run code in this process, with warnings as errors; return its output."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "page", "exec"), {"__name__": "__main__"})
    return printed.getvalue()


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


@pytest.mark.torch
@pytest.mark.parametrize("name", public_modules())
def test_every_return_is_annotated(name):
    """Editors complete the methods of a fitted estimator from the return of `fit`."""
    module = importlib.import_module(name)
    for public in map(module.__dict__.get, module.__all__):
        if inspect.isclass(public):
            for owner in inspect.getmro(public):
                if owner.__module__.startswith("skdiffclust."):
                    for member, value in vars(owner).items():
                        if not member.startswith("_"):
                            assert_return_is_annotated(value, f"{name}.{member}")
        elif inspect.isfunction(public):
            assert_return_is_annotated(public, name)


def assert_return_is_annotated(value, name):
    """A function, method or property says what it returns, and not Any."""
    function = getattr(value, "fget", None) or getattr(value, "__func__", value)
    function = getattr(function, "fn", function)  # of `available_if`
    if inspect.isfunction(function):
        returned = inspect.signature(function).return_annotation
        assert returned not in (inspect.Signature.empty, Any, object), (name, function)


@pytest.mark.parametrize("name", public_modules())
def test_every_public_name_resolves_and_is_documented(name):
    module = importlib.import_module(name)
    assert inspect.getdoc(module)
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    for public in module.__all__:
        value = getattr(module, public)
        if callable(value) or inspect.ismodule(value):
            assert inspect.getdoc(value), f"{name}.{public} has no docstring"
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("name", public_modules())
def test_every_public_name_is_on_an_api_page(name):
    pages = (ROOT / "doc" / "api").glob("*.rst")
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    listed = set(re.findall(r"^   (\w+)$", text, flags=re.MULTILINE))
    module = importlib.import_module(name)
    public = {n for n in module.__all__ if callable(getattr(module, n))}
    assert public <= listed


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


def literal_blocks(text, language):
    """Return the dedented ``.. code-block:: language`` blocks of a text."""
    blocks, current = [], None
    for line in text.splitlines():
        if line.strip() == f".. code-block:: {language}":
            current = []
            blocks.append(current)
        elif current is not None and line and not line.startswith("    "):
            current = None
        elif current is not None:
            current.append(line[4:])
    return ["\n".join(block).strip() for block in blocks]


def test_the_first_snippet_runs_as_it_stands_and_prints_what_it_says():
    readme = (ROOT / "README.rst").read_text(encoding="utf-8")
    page = (ROOT / "doc" / "index.rst").read_text(encoding="utf-8")
    (code,), (expected,) = (literal_blocks(readme, kind) for kind in ("python", "text"))
    assert literal_blocks(page, "python") == [code]
    assert literal_blocks(page, "text") == [expected]
    assert run_python(code, "-W", "error").strip() == expected
    # Little is read before it, besides badges and commands.
    before = readme[readme.index("Find the groups") : readme.index(code.split("\n")[0])]
    assert len(re.findall(r"[\w'-]+", before)) <= 80


def test_the_first_page_links_to_pages_with_code():
    """The guide's pages are run below, the tutorial in test_documentation.py."""
    readme = (ROOT / "README.rst").read_text(encoding="utf-8")
    page = (ROOT / "doc" / "index.rst").read_text(encoding="utf-8")
    rows = readme[readme.index("   * - I have") :].partition("\n\n")[0]
    links = re.findall(r"<(\S+)>`__", rows)
    assert len(links) == rows.count("* - ") - 1
    for link in links:
        assert (ROOT / link).is_file()
        name = Path(link).stem
        tested = (
            GUIDE if "user_guide" in link else ["getting_started", "plot_text_topics"]
        )
        assert name in tested
        assert name in page


def test_the_figures_of_the_first_page_are_those_of_the_readme():
    def table(path):
        text = (ROOT / path).read_text(encoding="utf-8")
        return text[text.index(".. csv-table::") :].split("\n\n")[:2]

    assert table("README.rst") == table("doc/index.rst")


def run_pages(pages, tmp_path):
    """Run the blocks of pages of the user guide, in one process, a namespace a page."""
    programs = {}
    for page in pages:
        path = ROOT / "doc" / "user_guide" / f"{page}.rst"
        blocks = literal_blocks(path.read_text(encoding="utf-8"), "python")
        assert blocks
        programs[page] = "\n".join(blocks)
    code = f"""
import os, skdiffclust

os.chdir({str(tmp_path)!r})
for page, program in {programs!r}.items():
    exec(compile(program, page, "exec"), {{"__name__": "__main__"}})
"""
    run_python(code, "-W", "error")


# Pages of the user guide whose blocks run, alone, in the order of the page.
GUIDE = [
    "describing",
    "gemini",
    "graph_cuts",
    "learning",
    "missing_values",
    "partial_labels",
    "persistence",
    "security",
    "spanning_forest",
    "tuning",
]


@pytest.mark.full
def test_user_guide_runs(tmp_path):
    run_pages(GUIDE, tmp_path)


@pytest.mark.full
@pytest.mark.torch
def test_user_guide_runs_in_torch(tmp_path):
    run_pages(["gpu"], tmp_path)


def test_badges_are_true():
    readme = (ROOT / "README.rst").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (scikit_learn,) = [d for d in project["dependencies"] if d.startswith("scikit")]
    badges = re.findall(r"badge/(\S+)-blue\n +:alt: (.*)\n", readme)
    said = [unquote(badge).replace("--", "-") for badge, _ in badges]
    assert said == [
        f"python-≥ {project['requires-python'].removeprefix('>=')}",
        f"scikit-learn-≥ {scikit_learn.partition('>=')[2]}",
        f"licence-{project['license']}",
    ]
    for text, (_, alternative) in zip(said, badges, strict=True):
        assert re.search(r"[\d.]+", text)[0] in alternative


def test_readme_commands_are_one_line_each():
    readme = (ROOT / "README.rst").read_text(encoding="utf-8")
    _, main_job, tests = literal_blocks(readme, "bash")
    for command in (main_job, tests):
        assert "\n" not in command
        assert command.startswith("python3 -m venv .venv && ")
    assert (ROOT / main_job.split()[-1]).is_file()
    assert tests.endswith("-m pytest -n 2 --dist loadfile")
