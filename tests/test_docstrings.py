"""Every public docstring passes numpydoc's validation, and every doctest runs."""

import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest
from numpydoc.docscrape import ClassDoc
from numpydoc.validate import validate

import skdiffclust

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# "all" comes first in the list; the codes after it are those that are not requested.
WAIVED = set(SETTINGS["tool"]["numpydoc_validation"]["checks"]) - {"all"}
ALL_MODULES = ["skdiffclust"] + [
    module.name
    for module in pkgutil.walk_packages(skdiffclust.__path__, "skdiffclust.")
]


def can_be_imported(name):
    """Whether the extras that a module imports, torch or Triton, are installed."""
    try:
        importlib.import_module(name)
    except ImportError as error:
        if not re.search("torch|triton", str(error)):
            raise
        return False
    return True


MODULES = [name for name in ALL_MODULES if can_be_imported(name)]


def public_objects():
    """Return the dotted names of public functions, classes, and their own methods."""
    names = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        public = [] if "._" in module_name else module.__all__
        for name in public:
            value = getattr(module, name)
            if callable(value):
                # What two modules show is one object, listed under the longer name.
                names[value] = f"{module_name}.{name}"
    methods = [
        f"{name}.{method}"
        for value, name in names.items()
        if inspect.isclass(value)
        for method, function in vars(value).items()
        if is_own_method(method, function)
    ]
    return sorted([*names.values(), *methods])


def is_own_method(name, function):
    """Return whether a class member is public and written in the package."""
    function = inspect.unwrap(function) if callable(function) else function
    module = getattr(function, "__module__", None) or ""
    return not name.startswith("_") and module.startswith("skdiffclust")


def numpydoc_errors(name):
    """Return what numpydoc finds wrong with the docstring of an object."""
    errors = [error for error in validate(name)["errors"] if error[0] not in WAIVED]
    value = pkgutil.resolve_name(name)
    if dataclasses.is_dataclass(value):
        # The fields of a result are attributes to its reader, who never makes one.
        fields = {field.name for field in dataclasses.fields(value)}
        documented = {entry.name for entry in ClassDoc(value)["Attributes"]}
        errors = [error for error in errors if error[0] != "PR01"]
        errors += [("fields", field) for field in sorted(fields - documented)]
    return errors


def test_numpydoc():
    names = [name for name in public_objects() if ".nn." not in name]
    assert len(names) > 100
    assert not {name: found for name in names if (found := numpydoc_errors(name))}


@pytest.mark.torch
def test_numpydoc_of_what_is_in_torch():
    names = [name for name in public_objects() if ".nn." in name]
    assert len(names) > 10
    assert not {name: found for name in names if (found := numpydoc_errors(name))}


def with_marker(name):
    """Return the name of a module, marked where its examples need torch."""
    module = importlib.import_module(name)
    examples = [
        example.source
        for test in doctest.DocTestFinder().find(module)
        for example in test.examples
    ]
    needs_torch = any(
        word in line
        for line in examples
        for word in ("torch", "nn.", "DeepClAM(", "SpanningForestEmbedding(")
    )
    return pytest.param(name, marks=[pytest.mark.torch] if needs_torch else [])


@pytest.mark.parametrize("name", [with_marker(name) for name in MODULES])
def test_doctests(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
