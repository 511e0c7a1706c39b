"""Do the tests notice small faults? A sample of mutants of the package.

A mutant is the package with one place of one line changed: another operator, a sign
lost, a number off by one, a term dropped. It is killed if a test fails, or takes three
times as long as without the change: first the files that mirror the module are run
(``forests/_trees/_prim.py``: ``tests/forests/trees/test_prim*.py``), then, if they all
pass, the folder of the method with its ``tests/properties``, or the tests of the top
level. Tests that fail without a change are left out.

    python benchmarks/mutation_testing.py --n-mutants 200 --out mutants.jsonl

One line is written for each mutant; those that are in the file are not tried again.
"""

import argparse
import ast
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from shared import Results

ROOT = Path(__file__).resolve().parents[1]
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
TERMS = ast.Add | ast.Sub | ast.Mult
LIMIT = 900  # processor seconds of a set of tests
COMPILATION = 150  # seconds that a mutant of a kernel may take in addition


class Mutant(NamedTuple):
    """A change of one place of a line: its bytes from `start` to `stop` become text."""

    module: str
    line: int
    start: int
    stop: int
    kind: str
    text: str


def changes(node):
    """Yield (kind, node in its place) of an expression."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        ops = [SWAPS[type(node.ops[0])](), *node.ops[1:]]
        yield "operator", ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BinOp):
        if type(node.op) in SWAPS:
            swapped = SWAPS[type(node.op)]()
            yield "operator", ast.BinOp(node.left, swapped, node.right)
        if isinstance(node.op, TERMS):
            yield "dropped term", node.left
    elif isinstance(node, ast.BoolOp):
        yield "operator", ast.BoolOp(SWAPS[type(node.op)](), node.values)
        yield "dropped term", node.values[0]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield "sign", node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "off by one", ast.Constant(node.value + 1)


def mutants_of(path):
    """Yield the mutants of a file of the package."""
    tree = ast.parse(path.read_text("utf-8"))
    module = path.relative_to(ROOT / "skdiffclust").as_posix()
    silent = set()  # annotations, decorators and texts of errors change no result
    for node in ast.walk(tree):
        parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        parts += getattr(node, "decorator_list", [])
        if isinstance(node, ast.Raise | ast.JoinedStr):
            parts.append(node)
        for part in filter(None, parts):
            silent |= {id(inner) for inner in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) in silent or not isinstance(node, ast.expr):
            continue
        if node.lineno == node.end_lineno:
            for kind, changed in changes(node):
                place = node.lineno - 1, node.col_offset, node.end_col_offset
                yield Mutant(module, *place, kind, f"({ast.unparse(changed)})")


def mutate(source, mutant):
    """Return the source with the change, and the lines before and after it."""
    lines = source.splitlines(keepends=True)
    before = lines[mutant.line].encode()
    after = before[: mutant.start] + mutant.text.encode() + before[mutant.stop :]
    lines[mutant.line] = after.decode()
    return "".join(lines), f"{before.decode().strip()} -> {after.decode().strip()}"


def stages(root, module):
    """Return ("near" or "far", test files) that are to notice a change, in order."""
    parts = [part.lstrip("_") for part in module.removesuffix(".py").split("/")]
    tests = root / "tests"
    mirrored = tests.joinpath(*parts[:-1]).glob(f"test_{parts[-1] or 'init'}*.py")
    folder = tests / parts[0] if len(parts) > 1 else None
    around = folder.rglob("test_*.py") if folder else tests.glob("test_*.py")
    properties = [
        file
        for file in (tests / "properties").glob("test_*.py")
        if folder is None or f"skdiffclust.{parts[0]}" in file.read_text("utf-8")
    ]
    near = sorted(map(str, mirrored))
    far = sorted(map(str, [*around, *properties]))
    found = ("near", near), ("far", [file for file in far if file not in near])
    return [(where, files) for where, files in found if files]


class Checkout:
    """A copy of this checkout in which mutants are tried."""

    def __init__(self, folder):
        self.root, self.cache = folder / "copy", folder / "cache"
        skipped = shutil.ignore_patterns(".git", "__pycache__", ".venv*", "_build")
        shutil.copytree(ROOT, self.root, ignore=skipped)
        self.unchanged = {}

    def run(self, files, limit, options, cache=None):
        """Return pytest's status, below 0 if stopped, the seconds, and failed tests.

        `cache` is the folder of numba's, the one of unchanged kernels by default.
        """
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE"]
        command += ["-p", "no:cacheprovider", *options, *files]
        environment = {
            "NUMBA_CACHE_DIR": str(cache or self.cache),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(self.root),
        }
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command,
            cwd=self.root,
            env=os.environ | environment,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
            capture_output=True,
            text=True,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        lines = done.stdout.splitlines()
        marks = "FAILED ", "ERROR "
        failed = [line.split(" - ")[0] for line in lines if line.startswith(marks)]
        return done.returncode, taken, [line.partition(" ")[2] for line in failed]

    def baseline(self, files):
        """Return the seconds that files take, and the options that leave out failures.

        In the first run kernels may be compiled. There are no options, but None, where
        the files do not end within the limit.
        """
        key = tuple(files)
        if key not in self.unchanged:
            status, taken, failed = self.run(files, LIMIT, ())
            left_out = [option for name in failed for option in ("--deselect", name)]
            self.unchanged[key] = taken, left_out if status in (0, 1) else None
            print(f"{files[0]}: {taken:.0f} s, left out {failed}", flush=True)
        return self.unchanged[key]

    def kills(self, mutant):
        """Return where tests notice ("near", "far", "time" or ""), and the change."""
        path = self.root / "skdiffclust" / mutant.module
        source = path.read_text("utf-8")
        is_kernel = "compiled" in source or "@inner" in source
        changed, change = mutate(source, mutant)
        for where, files in stages(self.root, mutant.module):
            taken, left_out = self.baseline(files)
            if left_out is None:
                continue
            limit = int(10 + 3 * taken + is_kernel * COMPILATION)
            path.write_text(changed, encoding="utf-8")
            with tempfile.TemporaryDirectory() as fresh:
                # A caller in another file has the kernel as it was in numba's cache.
                cache = fresh if is_kernel else None
                status, _, _ = self.run(files, limit, ["-x", *left_out], cache)
            path.write_text(source, encoding="utf-8")
            if status not in (0, 5):  # passed, or no test was left
                return "time" if status < 0 else where, change
        return "", change


def main():
    """Try the mutants that are not in the file yet, and print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    options = parser.parse_args()
    files = sorted((ROOT / "skdiffclust").rglob("*.py"))
    every = [mutant for path in files for mutant in mutants_of(path)]
    order = np.random.default_rng(options.seed).permutation(len(every))
    print(f"{len(every)} places, drawn by seed {options.seed}", flush=True)
    results = Results(options.out)
    trials = []
    with tempfile.TemporaryDirectory() as folder:
        checkout = Checkout(Path(folder))
        for i in order[: options.n_mutants]:
            mutant = every[i]
            trials.append((mutant, *results.once(mutant, checkout.kills, mutant)))
            print(trials[-1], flush=True)
    killed = [where for _, where, _ in trials]
    print(f"{sum(map(bool, killed))} of {len(trials)} mutants killed, ", end="")
    print(f"{killed.count('near')} by the files beside the module, ", end="")
    print(f"{killed.count('far')} by others, {killed.count('time')} by their time")
    for mutant, where, change in trials:
        if not where:
            print(f"  {mutant.module}:{mutant.line + 1} {mutant.kind}: {change}")


if __name__ == "__main__":
    main()
