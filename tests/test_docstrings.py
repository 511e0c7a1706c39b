"""Every public docstring passes numpydoc's validation, and every doctest runs."""

import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from numpydoc.docscrape import ClassDoc
from numpydoc.validate import validate

import skdiffclust

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# "all" comes first in the list; the codes after it are those that are not requested.
WAIVED = set(SETTINGS["tool"]["numpydoc_validation"]["checks"]) - {"all"}
NAMES = ["skdiffclust"] + [
    module.name
    for module in pkgutil.walk_packages(skdiffclust.__path__, "skdiffclust.")
]
NEEDS_TORCH = re.compile(
    r"^(import|from) (torch|triton|skdiffclust\S*[._]torch)|"
    r">>> .*(torch|nn\.|DeepClAM\(|SpanningForestEmbedding\()",
    flags=re.MULTILINE,
)


def with_marker(name):
    """Return the name of a module, marked if it or its examples import torch."""
    source = Path(find_spec(name).origin).read_text(encoding="utf-8")
    needs_torch = NEEDS_TORCH.search(source)
    return pytest.param(name, marks=[pytest.mark.torch] if needs_torch else [])


def public_objects(name):
    """Yield the dotted names of public functions, classes, and their own methods."""
    module = importlib.import_module(name)
    for public in [] if "._" in name else module.__all__:
        value = getattr(module, public)
        if callable(value):
            yield f"{name}.{public}"
        for method, member in vars(value).items() if inspect.isclass(value) else ():
            function = inspect.unwrap(member) if callable(member) else member
            owner = getattr(function, "__module__", None) or ""
            if not method.startswith("_") and owner.startswith("skdiffclust"):
                yield f"{name}.{public}.{method}"


@pytest.mark.parametrize("module", [with_marker(name) for name in NAMES])
def test_docstrings_are_valid_and_their_examples_run(module):
    if "triton" in module:
        pytest.importorskip("triton")
    for name in public_objects(module):
        errors = [error for error in validate(name)["errors"] if error[0] not in WAIVED]
        value = pkgutil.resolve_name(name)
        if dataclasses.is_dataclass(value):
            # The fields of a result are attributes to its reader, who never makes one.
            fields = {field.name for field in dataclasses.fields(value)}
            documented = {entry.name for entry in ClassDoc(value)["Attributes"]}
            errors = [error for error in errors if error[0] != "PR01"]
            assert fields <= documented, name
        assert not errors, name
    result = doctest.testmod(
        importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert result.failed == 0
