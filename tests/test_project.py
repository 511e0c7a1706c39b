"""Project files that state the version and the dependencies agree."""

import re
import tomllib
from pathlib import Path

import skdiffclust

ROOT = Path(__file__).resolve().parents[1]


def test_citation_and_recipe_are_of_this_version_and_its_dependencies():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    version = re.sub(r"\.dev\d+$", "", skdiffclust.__version__)
    assert f"\nversion: {version}\n" in citation
    recipe = (ROOT / ".ci" / "conda" / "recipe.yaml").read_text("utf-8")
    assert f'version: "{skdiffclust.__version__}"' in recipe
    _, _, needed = recipe.partition("run:")
    for requirement in project["dependencies"]:
        assert f"- {requirement.replace('>=', ' >=')}\n" in needed


def test_workflows_only_call_our_scripts():
    for path in (ROOT / ".github" / "workflows").iterdir():
        commands = re.findall(r"\n *(?:- )?run: (.*)", path.read_text("utf-8"))
        assert commands
        for command in commands:
            assert (ROOT / command.removeprefix("bash ")).is_file()
