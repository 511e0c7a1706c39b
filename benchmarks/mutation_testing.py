"""Do the tests notice small faults? A sample of mutants, in one or two checkouts.

A mutant is the package with one place of one line changed: another operator, a sign
lost, a number off by one, a term dropped. It is killed if a test fails, or takes three
times as long as without the change: first the files that mirror the module are run
(``forests/_trees/_prim.py``: ``tests/forests/trees/test_prim*.py``), then, if they all
pass, the folder of the method with its ``tests/properties``, or the tests of the top
level. Tests that fail without a change are left out.

    python benchmarks/mutation_testing.py --n-mutants 200 --out mutants.jsonl
    python benchmarks/mutation_testing.py --n-mutants 120 --seed 35 \
        --common BEFORE --out mutants.jsonl

The second form draws from the lines that this checkout and the one in the folder BEFORE
have in common, in files of the same name, and tries each mutant in both, with the tests
of each. One line is written for each trial, and those that are in the file are not
repeated; ``--part 0 2`` and ``--part 1 2`` are halves, for two cores; ``--show
FILE...`` prints the result.
"""

import argparse
import ast
import difflib
import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

# Before NumPy is imported; the children inherit it.
os.environ["OMP_NUM_THREADS"] = "1"

# Loaded once, for all children: but not numba, which reads the folder of its cache.
import hypothesis.extra.numpy  # noqa: F401
import numpy as np
import pytest
import scipy.stats  # noqa: F401
import sklearn.manifold
import sklearn.model_selection  # noqa: F401
import torch  # noqa: F401

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
COMPILATION = 150  # seconds that a mutant of a kernel may take in addition


class Mutant(NamedTuple):
    """A change of one place.

    Attributes
    ----------
    module : str
        Path of the file in the package.
    lines : dict of str to int
        Number of the line in each checkout, from 0.
    span : tuple of int
        Start and end of the place in the line, in bytes.
    kind : {"operator", "sign", "off by one", "dropped term"}
    text : str
        What stands there instead.
    """

    module: str
    lines: dict
    span: tuple
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


def places(source):
    """Yield (line, span, kind, text) of what can be changed within a line of a file."""
    tree = ast.parse(source)
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
                span = node.col_offset, node.end_col_offset
                yield node.lineno - 1, span, kind, f"({ast.unparse(changed)})"


def draw(checkouts, n_mutants, seed):
    """Return distinct mutants of the lines that all checkouts have."""
    first, *others = checkouts
    every = []
    package = checkouts[first] / "skdiffclust"
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package).as_posix()
        files = {
            name: root / "skdiffclust" / module for name, root in checkouts.items()
        }
        if not all(file.is_file() for file in files.values()):
            continue
        texts = {name: file.read_text("utf-8") for name, file in files.items()}
        numbers = {name: same_lines(texts[first], texts[name]) for name in others}
        for line, span, kind, text in places(texts[first]):
            if all(line in same for same in numbers.values()):
                lines = {first: line} | {n: same[line] for n, same in numbers.items()}
                every.append(Mutant(module, lines, span, kind, text))
    chosen = np.random.default_rng(seed).permutation(len(every))[:n_mutants]
    print(f"{len(every)} places, {len(chosen)} drawn by seed {seed}", flush=True)
    return [every[i] for i in chosen]


def same_lines(one, other):
    """Return {number of a line of a text: its number in another}, where they agree."""
    matcher = difflib.SequenceMatcher(
        None, one.splitlines(), other.splitlines(), autojunk=False
    )
    return {
        block.a + i: block.b + i
        for block in matcher.get_matching_blocks()
        for i in range(block.size)
    }


def mutate(source, mutant, name):
    """Return the source with the change, and the lines before and after it."""
    lines = source.splitlines(keepends=True)
    number = mutant.lines[name]
    before = lines[number].encode()
    start, stop = mutant.span
    after = before[:start] + mutant.text.encode() + before[stop:]
    lines[number] = after.decode()
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


class Failures:
    """A plugin of pytest that writes down which tests fail."""

    def __init__(self, path):
        self.path = path

    def pytest_runtest_logreport(self, report):
        if report.failed:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(report.nodeid + "\n")


def run_tests(root, files, seconds, cache, options, failures):
    """In a child: run tests of a checkout, and end with pytest's status."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    os.environ["NUMBA_CACHE_DIR"] = str(cache)
    os.chdir(root)
    sys.path.insert(0, str(root))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", *options, *files]
    # That hypothesis is loaded already is meant.
    arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    os._exit(int(pytest.main(arguments, plugins=[Failures(failures)])))


def status(root, files, seconds, cache, *options):
    """Return pytest's status, below 0 if stopped, the seconds, and failed tests."""
    failures = root / "failures.txt"
    failures.unlink(missing_ok=True)
    arguments = root, files, int(seconds), cache, options, failures
    child = multiprocessing.get_context("fork").Process(
        target=run_tests, args=arguments
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child.start()
    child.join(20 * seconds)
    if child.is_alive():
        child.kill()
        child.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    failed = failures.read_text("utf-8").splitlines() if failures.exists() else []
    return child.exitcode, taken, failed


class Checkout:
    """A copy of a checkout in which mutants are tried."""

    def __init__(self, source, folder, seconds):
        self.root, self.cache, self.seconds = folder / "copy", folder / "cache", seconds
        skipped = shutil.ignore_patterns(".git", "__pycache__", ".venv*", "_build")
        shutil.copytree(source, self.root, ignore=skipped)
        self.unchanged = {}

    def baseline(self, files):
        """Return the seconds that files take, and the options that leave out failures.

        The seconds are those of the first run, in which kernels may be compiled. There
        are no options, but None, where files do not end in the time that they have.
        """
        key = tuple(files)
        if key not in self.unchanged:
            found, taken, failed = status(self.root, files, self.seconds, self.cache)
            left_out = [option for name in failed for option in ("--deselect", name)]
            is_complete = found in (0, 1)  # passed, or some tests failed
            self.unchanged[key] = taken, left_out if is_complete else None
            print(
                f"{self.root.parent.name}, {Path(files[0]).name} and {len(files) - 1} "
                f"more: {taken:.0f} s, status {found}, left out {failed}",
                flush=True,
            )
        return self.unchanged[key]

    def kills(self, mutant, name):
        """Return "near", "far", "time" or "", by where tests notice, and the change."""
        path = self.root / "skdiffclust" / mutant.module
        source = path.read_text("utf-8")
        is_kernel = "@compiled(" in source
        changed, change = mutate(source, mutant, name)
        outcome = ""
        for where, files in stages(self.root, mutant.module):
            taken, left_out = self.baseline(files)
            if left_out is None:
                continue
            limit = 10 + 3 * taken + is_kernel * COMPILATION
            path.write_text(changed, encoding="utf-8")
            with tempfile.TemporaryDirectory() as fresh:
                # A caller in another file has the kernel as it was in numba's cache.
                cache = Path(fresh) if is_kernel else self.cache
                found, _, _ = status(self.root, files, limit, cache, "-x", *left_out)
            path.write_text(source, encoding="utf-8")
            if found not in (0, 5):  # passed, or none was left
                outcome = "time" if found < 0 else where
                break
        return outcome, change


def read(outs):
    """Return {(index, checkout): row} of files of trials."""
    texts = [out.read_text("utf-8") for out in outs if out.exists()]
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    return {(row["index"], row["checkout"]): row for row in rows}


def show(outs):
    """Print how many mutants are killed, and those that are not, or in one only."""
    rows = read(outs)
    names = sorted({name for _, name in rows}, reverse=True)
    indices = [
        i for i in sorted({i for i, _ in rows}) if all((i, n) in rows for n in names)
    ]
    for name in names:
        killed = [rows[i, name]["killed"] for i in indices]
        kinds = sorted({rows[i, name]["kind"] for i in indices})
        print(
            f"{name}: {sum(map(bool, killed))} of {len(indices)} mutants killed, ",
            end="",
        )
        print(f"{killed.count('near')} by the files beside the module, ", end="")
        print(f"{killed.count('far')} by others, {killed.count('time')} by their time")
        for kind in kinds:
            some = [
                bool(rows[i, name]["killed"])
                for i in indices
                if rows[i, name]["kind"] == kind
            ]
            print(f"  {kind}: {sum(some)} of {len(some)}")
    for i in indices:
        found = [rows[i, name] for name in names]
        if not all(row["killed"] for row in found):
            where = [
                name for name, row in zip(names, found, strict=True) if row["killed"]
            ]
            print(f"  {i}: killed in {where or 'none'}: {found[0]['module']}:", end="")
            print(f"{found[0]['line']} {found[0]['kind']}: {found[0]['change']}")


def main():
    """Try the mutants that are not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--common", type=Path, help="folder of another checkout")
    parser.add_argument("--seconds", type=int, default=900, help="for a set of tests")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), help="i of n")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--show", type=Path, nargs="+", help="show files of --out")
    options = parser.parse_args()
    if options.show:
        show(options.show)
        return
    os.environ.setdefault("SKDIFFCLUST_DATA", str(ROOT.parent / "shared" / "data"))
    sources = {"after": ROOT}
    if options.common:
        sources["before"] = options.common.resolve()
    done = read([options.out])
    mutants = draw(sources, options.n_mutants, options.seed)
    part, n_parts = options.part
    with tempfile.TemporaryDirectory() as folder:
        copies = {
            name: Checkout(source, Path(folder) / name, options.seconds)
            for name, source in sources.items()
        }
        for index in range(part, len(mutants), n_parts):
            mutant = mutants[index]
            for name in [name for name in copies if (index, name) not in done]:
                killed, change = copies[name].kills(mutant, name)
                row = {"index": index, "checkout": name, "module": mutant.module}
                row |= {"line": mutant.lines[name] + 1, "kind": mutant.kind}
                row |= {"killed": killed, "change": change}
                print(row, flush=True)
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    show([options.out])


if __name__ == "__main__":
    main()
