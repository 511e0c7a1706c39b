"""Charts of the recorded tables in doc/benchmarks, which the build draws."""

import csv
import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MultipleLocator

# The build runs a function as of a script, whose path is the first argument.
FOLDER = Path(sys.argv[0]).resolve().parent / "benchmarks"
INTERVAL = re.compile(r"(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]")
DEVIATION = re.compile(r"(-?[\d.]+) ± ([\d.]+)")


def read(name, folder=FOLDER):
    """Return the heading and the rows of a table."""
    with (folder / name).open(encoding="utf-8", newline="") as file:
        heading, *rows = csv.reader(file)
    return heading, rows


def forest_growth(folder=FOLDER):
    """Draw the time of a spanning tree by the number of samples."""
    _, rows = read("forest_growth.csv", folder)
    d, n, seconds = np.array([row[:3] for row in rows], dtype=float).T
    _, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for n_features, marker in zip(np.unique(d), "os^", strict=False):
        own = d == n_features
        label = f"{n_features:.0f} features"
        ax.loglog(n[own], seconds[own], marker=marker, label=label)
    sizes = np.array([1e4, n.max()])
    for power, style in ((1, ":"), (2, "--")):
        guide = seconds.min() * (sizes / sizes[0]) ** power
        label = "growth as $n$" if power == 1 else "growth as $n^2$"
        ax.loglog(sizes, guide, style, color="0.5", label=label, zorder=0)
    ax.set(
        xlabel="number of samples",
        ylabel="processor time (seconds)",
        ylim=(0.5 * seconds.min(), 4 * seconds.max()),
    )
    ax.legend()
    ax.grid(color="0.9")


def forest_blocks(folder=FOLDER):
    """Draw time and memory of trees by blocks and in memory."""
    _, rows = read("forest_blocks.csv", folder)
    _, axes = plt.subplots(1, 2, figsize=(6.4, 3.4), layout="constrained")
    for name, marker in (("by blocks", "o"), ("in memory", "s")):
        own = [[float(row[c]) for c in (0, 2, 3)] for row in rows if row[1] == name]
        n, seconds, memory = np.array(own).T
        for ax, values in zip(axes, (seconds, memory), strict=True):
            ax.loglog(n, values, marker=marker, label=name)
    axes[0].set_ylabel("processor time (seconds)")
    axes[1].set_ylabel("memory (bytes per sample)")
    for ax in axes:
        ax.set_xlabel("number of samples")
        ax.grid(color="0.9")
    axes[0].legend()


def growth(folder=FOLDER):
    """Draw the time and the memory of fits by the number of samples."""
    heading, rows = read("growth.csv", folder)
    names = list(dict.fromkeys(row[0] for row in rows))
    _, axes = plt.subplots(1, 2, figsize=(8, 4.6), layout="constrained")
    units = ("processor time (seconds)", "memory beyond the samples (MiB)")
    for ax, unit, title in zip(axes, units, ("seconds", "MiB"), strict=True):
        for i, name in enumerate(names):
            own = [row for row in rows if row[0] == name]
            values = [float(row[heading.index(title)]) for row in own]
            n = [int(row[1]) for row in own]
            ax.loglog(n, values, f"C{i}", marker="osD^v"[i % 5], label=name)
        ax.set(xlabel="number of samples", ylabel=unit)
        ax.grid(color="0.9")
    axes[0].figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3
    )


def missing_values(folder=FOLDER):
    """Draw the error of imputed values by the share that is hidden."""
    heading, rows = read("missing_values.csv", folder)
    names = [title for title in heading if title.startswith("error: ")]
    cases = [(*row[0].rstrip(" %").split(", "), *row[1:]) for row in rows[:-2]]
    kinds = list(dict.fromkeys(kind for kind, *_ in cases))
    _, axes = plt.subplots(
        1, len(kinds), figsize=(6.4, 3.6), layout="constrained", sharey=True
    )
    for ax, kind in zip(axes, kinds, strict=True):
        own = [case[1:] for case in cases if case[0] == kind]
        share, *errors = np.array(own, dtype=float).T[: len(names) + 1]
        for name, values, marker in zip(names, errors, "os^D", strict=True):
            label = name.removeprefix("error: ")
            ax.plot(share, values, marker=marker, markersize=5, label=label)
        ax.set(title=kind, xlabel="values hidden (%)", xticks=share)
        ax.grid(color="0.9")
    axes[0].set_ylabel("root mean squared error\n(standard deviations)")
    axes[0].figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4
    )


def draw_values(name, xlabel, ours, folder=FOLDER):
    """Draw a table of values with their intervals, a panel for each of its columns."""
    heading, rows = read(name, folder)
    methods = [row[0] for row in rows]
    n_rows = len(heading) // 2
    _, axes = plt.subplots(
        n_rows,
        2,
        figsize=(6.4, n_rows * (0.8 + 0.19 * len(methods))),
        layout="constrained",
        sharex=True,
        sharey=True,
    )
    for column, (ax, title) in enumerate(zip(axes.flat, heading[1:], strict=True), 1):
        for i, row in enumerate(rows):
            value, low, high = numbers(row[column])
            colour, marker = ("C0", "o") if ours(row[0]) else ("0.35", "s")
            ax.plot([low, high], [i, i], color=colour, linewidth=2)
            ax.plot(value, i, marker, color=colour, markersize=5)
        ax.set_title(title)
        ax.xaxis.set_major_locator(MultipleLocator(0.2))
        ax.set_yticks(range(len(methods)), methods)
        ax.grid(axis="x", color="0.9")
    axes[0, 0].invert_yaxis()
    for ax in axes[-1]:
        ax.set_xlabel(xlabel)


def numbers(cell):
    """Return a value and the ends of its interval, from the text of a cell."""
    found = INTERVAL.fullmatch(cell)
    if found:
        return tuple(map(float, found.groups()))
    value, deviation = map(float, DEVIATION.fullmatch(cell).groups())
    return value, value - deviation, value + deviation


def families(folder=FOLDER):
    """Draw the adjusted Rand index of each method by family of sets."""
    names = "SpanningForestClustering", "ClAM", "GraphCutClustering", "GEMINI"
    name = "all_methods_families.csv"
    draw_values(name, "adjusted Rand index", lambda method: method in names, folder)


def withheld_classes(folder=FOLDER):
    """Draw the adjusted Rand index of withheld classes by method and data set."""

    def is_ours(method):
        return method.startswith("ours")

    draw_values("learning.csv", "adjusted Rand index", is_ours, folder)
