"""How many small faults the tests would notice: a sample of mutants.

A mutant is the package with one comparison, operator, number, or branch changed in a
kernel, an objective, or the validation. It is killed if a test of the files beside its
module fails, or if they do not end in three times what they take without the change.
A kernel that is changed runs as Python, as do all others then (jit off); where another
module is changed, kernels come from numba's cache. Tests that take more than two
seconds are not used, nor is what goes beyond 10 seconds in all for a module; properties
try 25 examples.

    python benchmarks/mutation_testing.py --n-mutants 200 --out mutants.jsonl

writes one line a mutant and continues from there when it is started again (``--part 0
2`` and ``--part 1 2`` are halves for two cores); ``--show FILE...`` prints the
survivors.
"""

import argparse
import ast
import copy
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

# Before numba is imported; the children inherit it.
os.environ["OMP_NUM_THREADS"] = "1"
sys.dont_write_bytecode = False  # of the copied tree alone

# Loaded once, for all children.
import hypothesis.extra.numpy  # noqa: E402, F401
import numba.core.registry  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
import scipy.optimize  # noqa: E402
import scipy.stats  # noqa: E402, F401
import sklearn.datasets  # noqa: E402
import sklearn.manifold  # noqa: E402
import sklearn.model_selection  # noqa: E402, F401
import torch  # noqa: E402, F401
from hypothesis import settings  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "skdiffclust"

# Module (kernels, objectives, validation) -> the test files that are to notice.
TARGETS = {
    "_affinity": ["test_affinity"],
    "_assignments": ["test_assignments"],
    "_checkpoint": ["test_checkpoint", "test_checkpoint_forgery"],
    "_constraints": ["test_constraints"],
    "_encoder": ["test_encoder"],
    "_validation": ["test_affinity", "faults/test_values", "faults/test_containers"],
    "cuts/_graph": ["cuts/test_graph", "cuts/test_prcut"],
    "cuts/_multilevel": ["cuts/test_local_search"],
    "cuts/_local_search": ["cuts/test_local_search"],
    "cuts/_ratio_cut": ["cuts/test_ratio_cut"],
    "cuts/_training": ["cuts/test_training", "cuts/test_prcut"],
    "forests/_constrained/_checked": ["forests/constrained/test_checked"],
    "forests/_constrained/_problem": ["forests/constrained/test_constrained_tree"],
    "forests/_perturbed/_constrained_sampling": [
        "forests/perturbed/test_perturbation",
        "forests/perturbed/test_fenchel_young",
    ],
    "forests/_trees/_duplicates": ["forests/trees/test_duplicates"],
    "forests/_constrained/_dense_trees": [
        "forests/constrained/test_constrained_tree",
        "forests/perturbed/test_sampling",
    ],
    "forests/_perturbed/_monte_carlo": [
        "forests/perturbed/test_perturbation",
        "forests/perturbed/test_fenchel_young",
    ],
    "forests/_trees/_euclidean": ["forests/trees/test_euclidean"],
    "forests/_constrained/_compiled_tree": [
        "forests/constrained/test_constrained_tree"
    ],
    "forests/_constrained/_constrained_tree": [
        "forests/constrained/test_constrained_tree"
    ],
    "forests/_constrained/_search": ["forests/constrained/test_spanning"],
    "forests/_perturbed/_fenchel_young": ["forests/perturbed/test_fenchel_young"],
    "forests/_trees/_components": ["forests/hierarchy/test_linkage"],
    "forests/_trees/_kd_tree": ["forests/trees/test_euclidean"],
    "forests/_trees/_kruskal": ["forests/trees/test_kruskal"],
    "forests/_trees/_neighbors": ["forests/trees/test_euclidean"],
    "forests/_perturbed/_noise": ["forests/perturbed/test_noise"],
    "forests/_constrained/_partition": ["forests/constrained/test_constrained_tree"],
    "forests/_perturbed/_perturbation": ["forests/perturbed/test_perturbation"],
    "forests/_trees/_prim": ["forests/trees/test_prim", "forests/trees/test_solve"],
    "forests/_perturbed/_pruning": [
        "forests/perturbed/test_sampling",
        "forests/perturbed/test_perturbation",
    ],
    "forests/_perturbed/_heaviest_forest": [
        "forests/perturbed/test_sampling",
        "forests/perturbed/test_perturbation",
    ],
    "forests/_perturbed/_sampling": [
        "forests/perturbed/test_sampling",
        "forests/perturbed/test_perturbation",
    ],
    "forests/_trees/_small_prim": ["forests/trees/test_small_prim"],
    "forests/_constrained/_spanning": ["forests/constrained/test_spanning"],
    "forests/_embedding/_targets": ["forests/test_spanning_forest_embedding"],
    "forests/_trees/_tiles": ["forests/trees/test_euclidean"],
    "forests/_hierarchy/_tree_cuts": [
        "forests/hierarchy/test_linkage",
        "forests/test_spanning_forest",
    ],
    "forests/_trees/_union_find": ["forests/trees/test_union_find"],
    "gemini/_fused": ["gemini/test_fused"],
    "gemini/_objectives": ["gemini/test_objectives"],
    "gemini/_penalties": ["gemini/test_penalties"],
    "gemini/_relations": ["gemini/test_objectives", "gemini/test_gemini"],
    "gemini/_score": ["gemini/test_objectives"],
    "gemini/_supervision": ["gemini/test_training", "gemini/test_gemini"],
    "gemini/_training": ["gemini/test_training"],
    "gemini/_transport": ["gemini/test_objectives", "gemini/test_training"],
    "memories/_block_kernels": ["memories/test_training"],
    "memories/_checks": ["memories/test_clam"],
    "memories/_dynamics": ["memories/test_dynamics"],
    "memories/_kernels": ["memories/test_training"],
    "memories/_masking": ["memories/test_training", "memories/test_clam"],
    "memories/_merging": ["memories/test_merging"],
    "memories/_training": ["memories/test_training"],
}
PROPERTIES = {
    "cuts": "properties/test_cut_properties",
    "forests": "properties/test_forest_properties",
    "gemini": "properties/test_gemini_properties",
    "memories": "properties/test_memory_properties",
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
    silent = set()  # annotations, decorators and texts of errors change no result
    for node in ast.walk(tree):
        parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        parts += getattr(node, "decorator_list", [])
        if isinstance(node, ast.Raise | ast.JoinedStr):
            parts.append(node)
        for part in parts:
            if part is not None:
                silent |= {id(inner) for inner in ast.walk(part)}
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
    """Return the source with a change at a node, its line, and the change in words."""
    tree = ast.parse(source)
    node = list(ast.walk(tree))[number]
    before = ast.unparse(node.test if kind == "branch" else node)
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
    line = source.splitlines()[node.lineno - 1].strip()
    after = ast.unparse(node.test if kind == "branch" else node)
    change = f"{before} -> {after} in {line}"
    return ast.unparse(ast.fix_missing_locations(tree)), node.lineno, change


class TooSlowError(BaseException):
    """Raised in a test that takes too long; hypothesis does not try it again."""


class Chosen:
    """A plugin of pytest: runs the named tests, or times every test."""

    def __init__(self, as_python, names=None, out=None, seconds=None):
        self.as_python, self.names = as_python, names
        self.out, self.seconds = out, seconds
        if seconds:
            signal.signal(signal.SIGVTALRM, self.stop)

    @staticmethod
    def stop(*_):
        raise TooSlowError

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self):
        settings.register_profile(
            "mutants", max_examples=25, derandomize=True, deadline=None
        )
        settings.load_profile("mutants")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        if self.names is not None:
            items[:] = [item for item in items if item.nodeid in self.names]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self):
        self.start = time.process_time()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self):
        if not self.seconds:
            return (yield)
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def pytest_runtest_logreport(self, report):
        if self.out and report.when == "call" and report.passed:
            row = [report.nodeid, time.process_time() - self.start]
            with self.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def run_tests(copied, files, seconds, chosen, options):
    """In a child: run tests on the copied tree, and end with pytest's status."""
    numba.core.config.DISABLE_JIT = int(chosen.as_python)
    os.environ["NUMBA_DISABLE_JIT"] = str(int(chosen.as_python))  # for its children
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (4 * 2**30, 4 * 2**30))
    os.chdir(copied)
    sys.path.insert(0, str(copied))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    # Hashes wrap around, of which NumPy's scalars warn and the compiler's do not; that
    # hypothesis is loaded already is meant.
    for warning in (
        "ignore:overflow encountered:RuntimeWarning",
        "ignore::pytest.PytestAssertRewriteWarning",
    ):
        options = [*options, "-W", warning]
    arguments = ["-q", *options, "-p", "no:cacheprovider", *files]
    os._exit(int(pytest.main(arguments, plugins=[chosen])))


def status(copied, files, seconds, chosen, *options):
    """Return the status of tests: 0 passed, 1 failed, below 0 stopped for their time.

    A fork has torch, scikit-learn and pytest loaded, but nothing of the package.
    """
    context = multiprocessing.get_context("fork")
    arguments = (copied, files, seconds, chosen, options)
    child = context.Process(target=run_tests, args=arguments)
    child.start()
    child.join(20 * seconds)
    if child.is_alive():
        child.kill()
        child.join()
    return child.exitcode


def time_tests(copied, file, as_python, limits):
    """Return {name: seconds} of the tests of a file that pass and are quick."""
    out = copied / "passed.jsonl"
    out.unlink(missing_ok=True)
    chosen = Chosen(as_python, out=out, seconds=limits.test_seconds)
    status(copied, [file], limits.file_seconds, chosen)
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    return dict(json.loads(line) for line in lines)


def files_of(module):
    """Return the test files that are to notice a change of a module."""
    found = [*TARGETS[module], PROPERTIES.get(module.split("/")[0])]
    return [f"tests/{name}.py" for name in found if name]


def quickest(timed, seconds):
    """Return the quickest tests of {name: seconds} that fit into a time, and theirs."""
    names = sorted(timed, key=timed.get)
    total = np.cumsum([timed[name] for name in names])
    n_chosen = int(np.searchsorted(total, seconds))
    return set(names[:n_chosen]), float(total[n_chosen - 1]) if n_chosen else 0.0


def is_kernel(source):
    """Whether a module has functions that are compiled where they are defined."""
    return "@compiled(" in source


def run_quickest(copied, module, as_python, timed, seconds):
    """Return the status of the quickest tests of a module, None if there are none."""
    names, total = quickest(timed, seconds)
    if not names:
        return None
    limit = int(10 + 3 * total)
    return status(copied, files_of(module), limit, Chosen(as_python, names), "-x")


def sample(n_mutants, seed):
    """Return (module, node, kind) of distinct mutants, modules by their size."""
    every = []
    for module in TARGETS:
        tree = ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
        every += [(module, *place) for place in places(tree)]
    chosen = np.random.default_rng(seed).permutation(len(every))[:n_mutants]
    return [every[i] for i in chosen]


def read(*outs):
    """Return {(file, jit is off): {test: seconds}}, and {index: row of a mutant}."""
    texts = [out.read_text(encoding="utf-8") for out in outs if out.exists()]
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    timed = {
        (row["file"], row["as_python"]): row["timed"] for row in rows if "file" in row
    }
    return timed, {row["index"]: row for row in rows if "index" in row}


def show(outs):
    """Print the share of killed mutants, and the survivors with their lines."""
    timed, rows = read(*outs)
    rows = list(rows.values())
    untested = sum(row["status"] is None for row in rows)
    killed = [row["status"] not in (0, None) for row in rows]
    by_time = sum((row["status"] or 0) < 0 for row in rows)
    print(
        f"{sum(killed)} of {len(killed)} mutants killed ({np.mean(killed):.1%}), "
        f"{by_time} of them by their time; {untested} had no quick test"
    )
    print(f"{sum(map(len, timed.values()))} tests of {len(timed)} files")
    for kind in sorted({row["kind"] for row in rows}):
        found = [row["status"] not in (0, None) for row in rows if row["kind"] == kind]
        print(f"  {kind}: {sum(found)} of {len(found)}")
    for row in rows:
        if row["status"] in (0, None):
            print(f"  {row['module']}.py:{row['line']} {row['kind']}: {row['change']}")


def copy_tree(copied):
    """Copy what the tests need."""
    for name in ("skdiffclust", "tests"):
        shutil.copytree(ROOT / name, copied / name)
    for name in ("setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, copied / name)


def main():
    """Try the mutants that are not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test-seconds", type=float, default=2.0, help="for a test")
    parser.add_argument("--file-seconds", type=int, default=60, help="for a test file")
    parser.add_argument("--seconds", type=float, default=10.0, help="for a mutant")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), help="i of n")
    parser.add_argument("--out", type=Path, help="lines are added to it")
    parser.add_argument("--show", type=Path, nargs="+", help="show files of --out")
    options = parser.parse_args()
    if options.show:
        show(options.show)
        return
    timed, rows = read(options.out)

    def write(row):
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder)
        copy_tree(copied)
        mutants = sample(options.n_mutants, options.seed)
        part, n_parts = options.part
        for index in range(part, len(mutants), n_parts):
            if index in rows:
                continue
            module, number, kind = mutants[index]
            path = copied / "skdiffclust" / f"{module}.py"
            source, written = path.read_text(encoding="utf-8"), path.stat().st_mtime_ns
            as_python = is_kernel(source)
            of_module = {}
            for file in files_of(module):
                if (file, as_python) not in timed:
                    found = time_tests(copied, file, as_python, options)
                    timed[file, as_python] = found
                    write({"file": file, "as_python": as_python, "timed": found})
                of_module |= timed[file, as_python]
            mutant, line, change = mutate(source, number, kind)
            path.write_text(mutant, encoding="utf-8")
            os.utime(path, (index, index))  # no bytecode of another one fits
            found = run_quickest(copied, module, as_python, of_module, options.seconds)
            path.write_text(source, encoding="utf-8")
            os.utime(path, ns=(written, written))  # numba's cache is still right
            row = {"index": index, "module": module, "line": line, "kind": kind}
            write(row | {"change": change, "status": found})
    show([options.out])


if __name__ == "__main__":
    main()
