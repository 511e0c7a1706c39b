"""The rules of imports, read from the source: who may import what."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "skdiffclust"
ROOMS = {"forests", "memories", "cuts", "gemini"}
FACE = {
    "skdiffclust",
    "skdiffclust.model_selection",
    "skdiffclust.nn",
    "skdiffclust.plotting",
}
# Public modules that import without torch and without numba.
LIGHT = [
    "skdiffclust",
    *(f"skdiffclust.{name}" for name in ("forests", "memories", "cuts", "gemini")),
    *(
        f"skdiffclust.{name}"
        for name in ("metrics", "inspection", "model_selection", "datasets", "plotting")
    ),
]
# The packages of the forests: each imports only those before it.
FOREST_PACKAGES = ["_trees", "_hierarchy", "_constrained", "_perturbed", "_embedding"]


def module_name(path):
    """Return the dotted name of a file of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {module_name(path): path for path in FILES}


@cache
def trees():
    """Return the syntax trees of all files, by path."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def imports(tree, *, lazy):
    """Yield (node, dotted names); without `lazy`, skip what is inside functions."""
    pending = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield node, [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield node, [f"{module}.{alias.name}" for alias in node.names]
        elif is_for_types_only(node):
            continue
        elif lazy or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending.extend(ast.iter_child_nodes(node))


def is_for_types_only(node):
    """Return whether a node is ``if TYPE_CHECKING:``, which is never run."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imported_roots(tree, *, lazy):
    """Return the top-level packages that a file imports."""
    return {
        name.partition(".")[0]
        for _, names in imports(tree, lazy=lazy)
        for name in names
    }


def our_module(name):
    """Return the module of the package that an imported dotted name lives in."""
    while name not in MODULES:
        name = name.rpartition(".")[0]
    return name


def our_imports(tree):
    """Return the modules of the package that a file imports, lazily or not."""
    return {
        our_module(name)
        for _, names in imports(tree, lazy=True)
        for name in names
        if name.partition(".")[0] == "skdiffclust"
    }


def room(module):
    """Return the room of a module, "face", or "corridor"."""
    if module in FACE:
        return "face"
    first = module.split(".")[1]
    return first if first in ROOMS else "corridor"


def illegal_target(source, target):
    """Say why `source` may not import `target`, or return None."""
    if room(target) == "face":
        return "nothing imports the face"
    if room(source) == "corridor" and room(target) != "corridor":
        return "the corridor imports only the corridor"
    if room(source) not in ("face", "corridor", room(target)):
        return None if room(target) == "corridor" else "rooms never import each other"
    return None


def test_levels():
    assert not {
        (source, target): reason
        for source, path in MODULES.items()
        for target in our_imports(trees()[path])
        if (reason := illegal_target(source, target)) is not None
    }


@pytest.mark.parametrize(
    "source, target",
    [
        ("skdiffclust._history", "skdiffclust.forests._trees._tree"),
        ("skdiffclust.metrics", "skdiffclust"),
        ("skdiffclust.metrics._scorers", "skdiffclust.cuts._ratio_cut"),
        ("skdiffclust.forests._trees._tree", "skdiffclust.nn"),
        ("skdiffclust.forests._trees._tree", "skdiffclust.memories._clam"),
    ],
)
def test_levels_are_judged(source, target):
    assert illegal_target(source, target) is not None


def test_no_cycle_even_lazily():
    graph = {name: our_imports(trees()[path]) for name, path in MODULES.items()}
    done = set()

    def visit(name, trail):
        assert name not in trail, " -> ".join([*trail, name])
        if name not in done:
            for target in sorted(graph[name] - {name}):
                visit(target, [*trail, name])
            done.add(name)

    for name in graph:
        visit(name, [])


def test_heavy_imports_stay_lazy():
    eager = {
        path.relative_to(PACKAGE).as_posix(): imported_roots(tree, lazy=False)
        for path, tree in trees().items()
    }
    assert [name for name, roots in eager.items() if "numba" in roots] == [
        "_compiled.py"
    ]
    heavy = {"matplotlib", "ot", "rich", "pandas"}
    assert not {name: roots & heavy for name, roots in eager.items() if roots & heavy}


def test_public_modules_import_without_torch_and_numba():
    program = f"""
import importlib, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "numba"):
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Blocked())
for name in {LIGHT}:
    importlib.import_module(name)
package = sys.modules["skdiffclust"]
for name in set(package.__all__) - {{"nn", "warmup"}}:
    getattr(package, name)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_packages_of_the_forests_import_downwards():
    for path, tree in trees().items():
        source = module_name(path).split(".")
        if (
            source[1:2] != ["forests"]
            or source[2:3] == []
            or (source[2] not in FOREST_PACKAGES)
        ):
            continue
        level = FOREST_PACKAGES.index(source[2])
        for target in our_imports(tree):
            parts = target.split(".")
            if len(parts) > 2 and parts[1] == "forests":
                assert parts[2] in FOREST_PACKAGES[: level + 1], (path, target)


def test_private_scikit_learn_only_in_compat():
    found = []
    for module, path in MODULES.items():
        tree = trees()[path]
        names = [name for _, names in imports(tree, lazy=True) for name in names]
        names += [ast.unparse(n) for n in ast.walk(tree) if is_attribute_chain(n)]
        if module != "skdiffclust._compat":
            found += [(module, name) for name in names if is_private_scikit_learn(name)]
    assert not found


def is_attribute_chain(node):
    """Return whether a node reads ``a.b.c``."""
    while isinstance(node, ast.Attribute):
        node = node.value
        if isinstance(node, ast.Name):
            return True
    return False


def is_private_scikit_learn(name):
    """Return whether a dotted name passes through a private part of scikit-learn."""
    root, *rest = name.split(".")
    return root == "sklearn" and any(
        part.startswith("_") and not part.startswith("__") for part in rest
    )


def test_imports_are_absolute_and_named():
    assert not [
        (module, node.lineno)
        for module, path in MODULES.items()
        for node, names in imports(trees()[path], lazy=True)
        if getattr(node, "level", 0) or any(name.endswith(".*") for name in names)
    ]


def package_of(module):
    """Return the folder of a module of the package, as a dotted name."""
    return module if MODULES[module].stem == "__init__" else module.rpartition(".")[0]


def test_packages_have_at_most_seven_levels():
    levels = {}

    def level(module):
        if module not in levels:
            within = [
                target
                for target in our_imports(trees()[MODULES[module]]) - {module}
                if package_of(target) == package_of(module)
                and MODULES[target].stem != "__init__"
            ]
            levels[module] = 1 + max(map(level, within), default=0)
        return levels[module]

    # The __init__ of a package only passes names on.
    modules = [name for name in MODULES if MODULES[name].stem != "__init__"]
    assert {name: level(name) for name in modules if level(name) > 7} == {}


def test_one_assignment_a_line():
    assignments = [
        node
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
    ]
    packed = [
        node
        for node in assignments
        if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)
    ]
    assert len(packed) < 0.02 * len(assignments), [
        (node.lineno, ast.unparse(node)) for node in packed
    ]


def test_the_map_lists_every_module():
    script = PACKAGE.parent / ".ci" / "module_map.py"
    run = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True
    )
    lines = {line.strip().split(":")[0] for line in run.stdout.splitlines()}
    names = {name.removeprefix("skdiffclust.") for name in MODULES}
    assert names <= lines
