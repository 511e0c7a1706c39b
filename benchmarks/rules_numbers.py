"""The numbers in the modules of rules, and why each has its value.

    python benchmarks/bench_rules.py numbers list

A number is *derived* from something, a *row* of a table that ``bench_rules.py`` prints,
or a *recipe*: a budget, width or tolerance that decides no labels, number or warning.
0, 1 and 2 are not listed. A test compares the list with the modules.
"""

import ast
from pathlib import Path

import skdiffclust

PACKAGE = Path(skdiffclust.__file__).parent
TRIVIAL = 0, 1, 2
# module: {name or function: (kind, reason)}; all numbers of an assignment or function
# have one entry.
NUMBERS = {
    "_candidates": {
        "N_SUBSAMPLES": ("row", "centres candidates"),
        "_RETURNS": ("row", "centres candidates; graphs candidates"),
    },
    "_n_clusters": {
        "_ENTRIES": ("recipe", "the cache of a processor"),
        "_MOST_CLUSTERS": ("row", "centres ablation"),
        "_N_RESTARTS": ("row", "centres ablation"),
        "_N_STEPS": ("row", "centres ablation"),
        "_MOST_SAMPLES": ("row", "centres ablation"),
        "_MOST_COMPONENTS": ("row", "centres ablation"),
        "_LEAST_COMPONENTS": ("row", "centres ablation"),
        "_SAMPLES_PER_COMPONENT": ("row", "centres ablation"),
        "_N_PAIRS": ("row", "centres ablation"),
        "_LEAST_SIZE": ("row", "centres ablation"),
        "_SEPARATED": ("row", "centres ablation"),
        "_SHARE": ("row", "centres candidates"),
        "_N_DIVISIONS": ("row", "centres candidates"),
        "_MOST_STEPS": ("row", "centres ablation"),
        "_LEAST_VARIANCE": ("row", "centres ablation"),
        "_DIVIDED_AT": ("row", "centres ablation"),
        "_fit_of_one": ("derived", "quartiles, and their distance of a normal one"),
        "_LEAST_WIDTH": ("row", "centres ablation"),
        "_SHIFT": ("row", "centres ablation"),
        "_SCALES": ("row", "centres ablation"),
        "_MARGINS": ("row", "centres ablation"),
    },
    "cuts._choice": {
        "FIRST": ("row", "graphs ablation"),
        "_STEP": ("row", "graphs ablation"),
        "_NODES_PER_CLUSTER": ("row", "graphs ablation"),
        "_MOST": ("recipe", "a budget of memory and time"),
        "_MOST_STARTS": ("row", "graphs ablation"),
        "_SEARCHED_EDGES": ("recipe", "a budget of time"),
        "_OFFSET": ("row", "graphs ablation"),
        "_FLAT": ("row", "graphs ablation"),
        "_STEEP": ("row", "graphs ablation"),
        "_LEAST_NODES": ("row", "graphs ablation"),
        "_LEAST_MODULARITY": ("row", "graphs ablation"),
        "choose_n_clusters": ("derived", "an elbow needs three numbers"),
    },
    "cuts._graph": {
        "_TREE_MAX_FEATURES": ("recipe", "a budget of time"),
        "_SCIKIT_TREE_FEATURES": ("recipe", "a budget of time"),
        "_N_ALIKE": ("derived", "the default of scikit-learn's spectral clustering"),
        "_LEAST_RANKED": ("row", "graphs ablation"),
        "_MOST_RANKED": ("row", "graphs ablation"),
        "_FEW_FEATURES": ("recipe", "few samples have fewer neighbours"),
        "_TIED": ("derived", "rounding of float32"),
        "_WIDE": ("recipe", "a budget of ties"),
        "_LEAST_COSINE": ("derived", "rounding"),
        "_LEAST_PART": ("row", "graphs ablation"),
        "_N_SCALED": ("recipe", "a budget of time"),
        "_links": ("derived", "the cosine of a distance on the unit sphere"),
        "_nearest_of_rows": ("recipe", "a budget of time"),
        "_searcher": ("recipe", "a budget of time"),
    },
    "cuts._partition": {
        "_LEAST_DIVISOR": ("recipe", "of samples of weight 0"),
        "_MOST_STARTS": ("recipe", "a budget of time"),
        "_SMALL_EDGES": ("recipe", "a budget of time"),
        "_STARTS": ("recipe", "a budget of time"),
        "_SEARCHED_EDGES": ("recipe", "a budget of time"),
        "_ATTEMPTS": ("recipe", "a budget of time"),
        "_N_SUBSAMPLES": ("row", "graphs candidates"),
        "_SHARE": ("row", "graphs candidates"),
        "_N_NAMED": ("recipe", "the length of a message"),
        "_warn_of_crumbs": ("derived", "rounding"),
        "warn_if_unbounded": ("derived", "rounding"),
    },
    "cuts._starts": {
        "_N_LANCZOS": ("derived", "the default of ARPACK"),
        "_LEAST_DIVISOR": ("recipe", "of nodes without edges"),
        "_AUTO_SHARE": ("row", "graphs ablation"),
        "MEAN_CUT": ("row", "graphs ablation"),
        "_gains_by_merging": ("derived", "rounding"),
        "is_better": ("derived", "rounding"),
    },
    "memories._completion": {
        "_MOST_TOGETHER": ("recipe", "a budget of memory and time"),
        "_EM_STEPS": ("recipe", "a budget of time"),
        "_EM_WORK": ("recipe", "a budget of time"),
        "_EM_TOLERANCE": ("recipe", "a tolerance of the training"),
        "RIDGES": ("row", "imputer far"),
        "_FLOOR": ("recipe", "keeps a matrix invertible"),
        "CONCENTRATIONS": ("row", "imputer far"),
        "_HELD_OUT": ("recipe", "a budget of entries that choose"),
        "_HELD_OUT_ENTRIES": ("recipe", "a budget of entries that choose"),
        "_LARGEST_ERROR": ("row", "imputer far"),
        "_JUDGED": ("recipe", "a budget of time"),
        "_FEW": ("row", "imputer far"),
        "_LEFT_OUT": ("row", "imputer far"),
        "_EXTREME": ("row", "imputer far"),
        "_APART": ("row", "imputer far"),
        "_LONGEST_TAIL": ("row", "imputer far"),
        "_BEYOND": ("row", "imputer far"),
        "_LARGEST_TIE": ("row", "imputer far"),
        "_CHANCE": ("row", "imputer far"),
        "_EXPLAINED": ("row", "imputer far"),
        "_with_tails": ("derived", "the first multiple of _BEYOND"),
        "fit_completer": ("derived", "the largest seed"),
        "_standardised": ("derived", "rounding"),
        "_carry_on_block": ("recipe", "cost of a solution, which threads depend on"),
        "_fit_block": ("recipe", "cost of a solution"),
        "_shrunk": ("recipe", "a ridge that keeps the matrix invertible"),
    },
    "gemini._stability": {
        "_MOST_SAMPLES": ("recipe", "a budget of time"),
        "_LEAST_SAMPLES": ("recipe", "too few for two modes"),
        "_N_REFERENCES": ("derived", "one in 20 is above 19 others by chance"),
        "_N_COMPONENTS": ("row", "structure_gemini.py"),
        "_COUNTS": ("row", "structure_gemini.py"),
        "_FEW_VALUES": ("row", "structure_gemini.py"),
        "LEAST_RATIO": ("row", "structure_gemini.py"),
        "with_normal_scores": ("derived", "the middle of a rank"),
        "by_densest_quarter": ("derived", "a quarter of a normal distribution"),
        "gaussian_like": ("derived", "a root"),
    },
}
KINDS = "derived", "row", "recipe"


def numbers_in(path):
    """Yield (name, value) of the numbers of a module but 0, 1 and 2.

    The name is that of an assignment of the module, or of the innermost function.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for statement in tree.body:
        name = None
        if isinstance(statement, ast.Assign):
            (target,) = statement.targets
            name = ast.unparse(target)
        yield from _numbers_of(statement, name)


def _numbers_of(node, name):
    """Yield (name, value) of the numbers below a node."""
    if isinstance(node, ast.FunctionDef):
        name = node.name
    elif isinstance(node, ast.ClassDef) and name is None:
        name = node.name
    if isinstance(node, ast.Constant):
        value = node.value
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and value not in TRIVIAL:
            yield name, value
    for child in ast.iter_child_nodes(node):
        yield from _numbers_of(child, name)


def path_of(module):
    """Return the file of a module of the package, by its name below the package."""
    return PACKAGE.joinpath(*module.split(".")).with_suffix(".py")


def listed(options):
    """Print the list, with the values, and how many there are of each kind."""
    counts = dict.fromkeys(KINDS, 0)
    for module, reasons in NUMBERS.items():
        for name, value in numbers_in(path_of(module)):
            kind, reason = reasons[name]
            counts[kind] += 1
            print(f'   {module}, {name}, {value:g}, {kind}, "{reason}"')
    print(counts)


PARTS = {"list": listed}
