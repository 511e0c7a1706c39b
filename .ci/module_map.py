"""Print the modules of the package: what each is, and which modules import it.

    python .ci/module_map.py [shared | forests | memories | cuts | gemini]

The build of the documentation writes these lists, and what path_of_x.py finds, for the
pages in doc/map.
"""

import ast
import sys
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "skdiffclust"
ROOMS = ["shared", "forests", "memories", "cuts", "gemini"]
# The fits of path_of_x.py that a page shows.
FITS = {
    "forests": ["SpanningForestClustering"],
    "memories": ["ClAM"],
    "cuts": ["GraphCutClustering", "PRCut"],
    "gemini": ["GEMINI", "SparseGEMINI.path"],
}
TABLE = """.. list-table::
   :header-rows: 1
   :widths: {}

"""


def name_of(path):
    """Return the dotted name of a file, without that of the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[: -1 if parts[-1] == "__init__" else None])


def room_of(name):
    """Return the room of a module."""
    first = name.split(".")[0]
    return first if first in ROOMS else "shared"


def read_modules():
    """Return {module: first line} and {module: set of modules that import it}."""
    trees = {
        name_of(path): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    lines = {
        name: ast.get_docstring(tree).split("\n")[0] for name, tree in trees.items()
    }
    importers = defaultdict(set)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.split(".")[0] != "skdiffclust":
                continue
            module = node.module.removeprefix("skdiffclust").lstrip(".")
            for alias in node.names:
                inner = f"{module}.{alias.name}".lstrip(".")
                importers[inner if inner in lines else module].add(name)
    return lines, importers


def imported_by(name, importers):
    """Return the importers of a module in words: those of its room, other rooms."""
    room = room_of(name)
    inside = sorted(i.removeprefix(f"{room}.") for i in importers if room_of(i) == room)
    others = sorted({room_of(i) for i in importers} - {room}, key=ROOMS.index)
    others = ["the top level" if other == "shared" else other for other in others]
    return others, [i or "skdiffclust" for i in inside]


def rows(room):
    """Yield (module, first line, importers in words) of a room."""
    lines, importers = read_modules()
    for name, line in lines.items():
        if room_of(name) == room:
            others, inside = imported_by(name, importers[name])
            yield name or "skdiffclust", line, others, inside


def list_of_modules(room):
    """Return the table of the modules of a room."""
    text = TABLE.format("30 45 25") + "   * - module\n     - what it is\n"
    text += "     - imported by\n"
    for name, line, others, inside in rows(room):
        by = ", ".join([*others, *(f"``{i}``" for i in inside)])
        text += f"   * - ``{name}``\n     - {line}\n     - {by or 'users'}\n"
    return text


def list_of_path(fit, ran):
    """Return the table of the files that see X in a fit, of {file: 2, 1 or 0}."""
    lines, _ = read_modules()
    marks = {name_of(Path(file)): mark for file, mark in ran.items()}
    text = (
        f"``{fit}``: {len(marks)} files run, of which these see X, in the order in "
        "which they are entered.\n\n"
    )
    text += TABLE.format("30 45 25") + "   * - module\n     - what it is\n     - sees\n"
    for name, mark in marks.items():
        if mark:
            what = "X" if mark == 2 else "an object that holds X"
            text += f"   * - ``{name}``\n     - {lines[name]}\n     - {what}\n"
    return text + "\n"


def write_pages(folder):
    """Write what the pages in doc/map include."""
    from path_of_x import FITS as FIT_OF
    from path_of_x import X, path_of

    folder.mkdir(parents=True, exist_ok=True)
    for room in ROOMS:
        text = list_of_modules(room)
        (folder / f"modules_{room}.inc").write_text(text, encoding="utf-8")
        paths = ""
        for fit in FITS.get(room, []):
            FIT_OF[fit](X)
            paths += list_of_path(fit, path_of(FIT_OF[fit]))
        (folder / f"path_{room}.inc").write_text(paths, encoding="utf-8")


if __name__ == "__main__":
    for room in sys.argv[1:] or ROOMS:
        print(f"{room}\n")
        for name, line, others, inside in rows(room):
            print(f"  {name}: {line}")
            print(f"      imported by {', '.join([*others, *inside]) or 'users'}")
