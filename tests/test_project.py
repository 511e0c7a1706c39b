"""Project files: citation, classifiers and workflows."""

import ast
import re
import tomllib
from datetime import date
from pathlib import Path

from sklearn.base import BaseEstimator

import skdiffclust

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    (version,) = re.findall(r"^version: (.*)$", text, flags=re.MULTILINE)
    (released,) = re.findall(r"^date-released: (.*)$", text, flags=re.MULTILINE)
    assert version == re.sub(r"\.dev\d+$", "", skdiffclust.__version__)
    assert date.fromisoformat(released) >= date(2026, 11, 22)


def test_classifiers_claim_what_is_tested():
    claimed = [line for line in PROJECT["classifiers"] if "Operating System" in line]
    assert claimed == ["Operating System :: POSIX :: Linux"]
    python = [line.split(" :: ")[-1] for line in PROJECT["classifiers"]]
    assert PROJECT["requires-python"].removeprefix(">=") in python


def test_workflows_only_call_our_scripts():
    workflows = sorted((ROOT / ".github" / "workflows").iterdir())
    assert workflows
    for path in workflows:
        text = path.read_text("utf-8")
        commands = re.findall(r"^\s*(?:- )?run: (.*)$", text, flags=re.MULTILINE)
        assert commands, path.name
        for command in commands:
            script = re.fullmatch(r"bash (\.ci/\w+)", command)[1]
            assert (ROOT / script).is_file()
        assert "never been run" in text or "have never been" in text


def test_the_recipe_is_of_this_version_and_its_dependencies():
    recipe = (ROOT / ".ci" / "conda" / "recipe.yaml").read_text("utf-8")
    assert f'version: "{skdiffclust.__version__}"' in recipe
    assert f'python_min: "{PROJECT["requires-python"].removeprefix(">=")}"' in recipe
    needed = re.findall(
        r"^    - (\S+ >=\S+)$", recipe.partition("run:")[2], re.MULTILINE
    )
    stated = [name.replace(">=", " >=") for name in PROJECT["dependencies"]]
    assert needed == stated


def test_what_needs_a_published_address_hangs_on_one_variable():
    tree = ast.parse((ROOT / "doc" / "conf.py").read_text("utf-8"))
    (published,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "PUBLISHED"
    ]
    public = [getattr(skdiffclust, name) for name in skdiffclust.__all__]
    classes = [
        c for c in public if isinstance(c, type) and issubclass(c, BaseEstimator)
    ]
    assert classes
    if not published:
        assert "urls" not in PROJECT
        for estimator in classes:
            assert estimator._doc_link_module != "skdiffclust"
        return
    assert set(published) == {"site", "repository"}
    assert not any(address.endswith("/") for address in published.values())
    assert PROJECT["urls"]["Documentation"].startswith(published["site"])
    assert PROJECT["urls"]["Source"] == published["repository"]
    for estimator in classes:
        assert estimator._doc_link_module == "skdiffclust"
        assert estimator._doc_link_template.startswith(published["site"])
