"""How many small faults the tests would notice: a sample of mutants.

A mutant is the package with one comparison, operator, number, or branch changed in a
kernel, an objective, or the validation. It is killed if one of the test files named
beside its module fails, or does not end in time. Kernels run as Python (jit off).

    python benchmarks/mutation_testing.py --n-mutants 200 --out mutants.jsonl

writes one line a mutant and goes on from there when it is started again; ``--show``
prints the survivors with their lines.
"""

import argparse
import ast
import copy
import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
from pathlib import Path

# Before numba is imported; the children inherit it.
os.environ |= {"NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1"}
sys.dont_write_bytecode = True

import numpy as np  # noqa: E402 loaded once, for all children
import pytest  # noqa: E402
import sklearn.cluster  # noqa: E402, F401
import torch  # noqa: E402, F401

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "skdiffclust"

# Module -> the tests that are to notice, the most likely first.
TARGETS = {
    "_affinity.py": ["tests/test_affinity.py"],
    "_assignments.py": ["tests/test_assignments.py"],
    "_batches.py": ["tests/test_batches.py"],
    "_checkpoint.py": ["tests/test_checkpoint.py", "tests/test_checkpoint_resume.py"],
    "_constraints.py": ["tests/test_constraints.py"],
    "_encoder.py": ["tests/test_encoder.py"],
    "_history.py": ["tests/test_history.py"],
    "_validation.py": ["tests/gemini/test_gemini.py"],
    "metrics.py": ["tests/test_metrics.py"],
    "cuts/_ratio_cut.py": ["tests/cuts/test_ratio_cut.py"],
    "cuts/_polish.py": ["tests/cuts/test_polish.py"],
    "cuts/_training.py": ["tests/cuts/test_training.py", "tests/cuts/test_prcut.py"],
    "cuts/_graph.py": ["tests/cuts/test_graph.py", "tests/cuts/test_prcut.py"],
    "forests/_constrained.py": ["tests/forests/test_constrained.py"],
    "forests/_fenchel_young.py": ["tests/forests/test_fenchel_young.py"],
    "forests/_kruskal.py": ["tests/forests/test_kruskal.py"],
    "forests/_noise.py": ["tests/forests/test_noise.py"],
    "forests/_partition.py": ["tests/forests/test_constrained.py"],
    "forests/_perturbation.py": ["tests/forests/test_perturbation.py"],
    "forests/_pruning.py": [
        "tests/forests/test_sampling.py",
        "tests/forests/test_perturbation.py",
    ],
    "forests/_sampling.py": [
        "tests/forests/test_sampling.py",
        "tests/forests/test_perturbation.py",
    ],
    "forests/_spanning.py": ["tests/forests/test_spanning.py"],
    "forests/_targets.py": ["tests/forests/test_embedding.py"],
    "forests/_tree.py": [
        "tests/forests/test_tree.py",
        "tests/forests/test_spanning_forest.py",
    ],
    "forests/_union_find.py": ["tests/forests/test_union_find.py"],
    "gemini/_objectives.py": ["tests/gemini/test_objectives.py"],
    "gemini/_penalties.py": ["tests/gemini/test_penalties.py"],
    "gemini/_relations.py": [
        "tests/gemini/test_objectives.py",
        "tests/gemini/test_gemini.py",
    ],
    "gemini/_score.py": ["tests/gemini/test_objectives.py"],
    "gemini/_supervision.py": ["tests/gemini/test_training.py"],
    "gemini/_training.py": ["tests/gemini/test_training.py"],
    "memories/_checks.py": ["tests/memories/test_clam.py"],
    "memories/_dynamics.py": ["tests/memories/test_dynamics.py"],
    "memories/_kernels.py": ["tests/memories/test_training.py"],
    "memories/_masking.py": [
        "tests/memories/test_training.py",
        "tests/memories/test_clam.py",
    ],
    "memories/_training.py": ["tests/memories/test_training.py"],
}
PROPERTIES = {
    "cuts": "tests/properties/test_cut_properties.py",
    "forests": "tests/properties/test_forest_properties.py",
    "gemini": "tests/properties/test_gemini_properties.py",
    "memories": "tests/properties/test_memory_properties.py",
}
SWAPS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def places(tree):
    """Yield (number of the node, kind) of what can be changed in a module."""
    silent = set()  # annotations, docstrings and texts of errors change no result
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.JoinedStr):
            silent |= {id(inner) for inner in ast.walk(node)}
        for annotation in (
            getattr(node, "annotation", None),
            getattr(node, "returns", None),
        ):
            if annotation is not None:
                silent |= {id(inner) for inner in ast.walk(annotation)}
    for i, node in enumerate(ast.walk(tree)):
        if id(node) in silent:
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            yield i, "comparison"
        elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
            if type(node.op) in SWAPS:
                yield i, "operator"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            yield i, "sign"
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            yield i, "constant"
        elif isinstance(node, ast.If):
            yield i, "branch"


def mutate(source, number, kind):
    """Return the source with a change at a node, and its line."""
    tree = copy.deepcopy(ast.parse(source))
    node = list(ast.walk(tree))[number]
    if kind == "comparison":
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif kind == "operator":
        node.op = SWAPS[type(node.op)]()
    elif kind == "sign":
        inner = copy.copy(node.operand)
        node.__class__, node.__dict__ = inner.__class__, inner.__dict__
    elif kind == "constant":
        value = node.value
        node.value = not value if isinstance(value, bool) else value + 1
    else:
        node.test = ast.UnaryOp(ast.Not(), node.test)
    line = getattr(node, "lineno", 0)
    return ast.unparse(ast.fix_missing_locations(tree)), line


def tests_of(module):
    """Return the test files that are to notice a change of a module."""
    room = module.split("/")[0]
    found = [*TARGETS[module], PROPERTIES.get(room)]
    return [test for test in found if test and (ROOT / test).exists()]


def run_tests(copied, tests, seconds):
    """In a child: run tests on the copied tree, and end with pytest's status."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    os.chdir(copied)
    sys.path.insert(0, str(copied))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os._exit(int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests])))


def status(copied, tests, seconds):
    """Return the status of tests: 0 passed, 1 failed, below 0 stopped for their time.

    A fork has torch, scikit-learn and pytest loaded, but nothing of the package.
    """
    context = multiprocessing.get_context("fork")
    child = context.Process(target=run_tests, args=(copied, tests, seconds))
    child.start()
    child.join()
    return child.exitcode


def try_mutant(copied, module, source, tests, seconds):
    """Return the status of the tests with another source of a module."""
    target = copied / "skdiffclust" / module
    original = target.read_text(encoding="utf-8")
    target.write_text(source, encoding="utf-8")
    found = status(copied, tests, seconds)
    target.write_text(original, encoding="utf-8")
    return found


def sample(n_mutants, seed):
    """Return (module, node, kind) of distinct mutants, modules by their size."""
    every = []
    for module in TARGETS:
        path = PACKAGE / module
        if path.exists():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            every += [(module, *place) for place in places(tree)]
    chosen = np.random.default_rng(seed).permutation(len(every))[:n_mutants]
    return [every[i] for i in chosen]


def read(out):
    """Return {test: passes without any change} and the rows of mutants."""
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    rows = [json.loads(line) for line in lines]
    passes = {row["test"]: row["passes"] for row in rows if "test" in row}
    return passes, [row for row in rows if "test" not in row]


def show(out):
    """Print the share of killed mutants, and the survivors with their lines."""
    passes, rows = read(out)
    rows = [row for row in rows if row["status"] is not None]
    killed = [row["status"] != 0 for row in rows]
    by_time = sum(row["status"] < 0 for row in rows)
    print(
        f"{sum(killed)} of {len(killed)} mutants killed ({np.mean(killed):.1%}), "
        f"{by_time} of them by their time"
    )
    left_out = sorted(test for test, passing in passes.items() if not passing)
    print(f"not used, since they need the compiler or more time: {left_out}")
    for kind in sorted({row["kind"] for row in rows}):
        found = [row["status"] != 0 for row in rows if row["kind"] == kind]
        print(f"  {kind}: {sum(found)} of {len(found)}")
    for row in rows:
        if row["status"] == 0:
            lines = (PACKAGE / row["module"]).read_text(encoding="utf-8").splitlines()
            text = lines[row["line"] - 1].strip()
            print(f"  {row['module']}:{row['line']} {row['kind']}: {text}")


def copy_tree(copied):
    """Copy what the tests need."""
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("skdiffclust", "tests"):
        shutil.copytree(ROOT / name, copied / name, ignore=ignore)
    for name in ("setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, copied / name)


def main():
    """Try the mutants that are not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=60, help="of CPU, for a mutant")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    passes, rows = read(options.out)

    def write(row):
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder)
        copy_tree(copied)
        left = [] if options.show else sample(options.n_mutants, options.seed)
        for module, number, kind in left[len(rows) :]:
            for test in tests_of(module):
                if test not in passes:
                    passes[test] = status(copied, [test], options.seconds // 2) == 0
                    write({"test": test, "passes": passes[test]})
            tests = [test for test in tests_of(module) if passes[test]]
            source = (PACKAGE / module).read_text(encoding="utf-8")
            mutant, line = mutate(source, number, kind)
            found = None  # no test of it runs without the compiler
            if tests:
                found = try_mutant(copied, module, mutant, tests, options.seconds)
            row = {"module": module, "line": line, "kind": kind, "status": found}
            write(row | {"tests": tests})
    show(options.out)


if __name__ == "__main__":
    main()
