"""A paper's tables in a folder: a CSV each, a picture of those that are figures, and one page with all of them."""

import io
import re
from collections.abc import Sequence
from pathlib import Path

from ostrakon.data.files import csv_text, write_atomically, writing
from ostrakon.papers.table import Cell, Chart, Table
from ostrakon.report.markdown import escaped

_COLOURS = ("#c8553d", "#1b3a5c", "#2a7f62", "#7a5195")
_MARKERS = ("s", "o", "d", "^")


def write(paper: str, tables: Sequence[Table], folder: Path) -> list[Path]:
    """Write PAPER.md, and of every table NAME.csv and, with a chart, NAME.png, into `folder`. Returns the files.

    Errors: `CannotWrite` where the folder cannot be written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{paper}.md"]
    page = [f"# {paper}, recomputed\n"]
    for table in tables:
        name = file_name(table.title)
        page.append(f"## {escaped(table.title)}\n")
        rows = (["" if cell is None else cell for cell in row] for row in table.rows)
        content: dict[str, bytes] = {f"{name}.csv": csv_text([table.columns, *rows]).encode()}
        if table.chart is not None:
            content[f"{name}.png"] = picture(table, table.chart)
            page.append(f"![{escaped(table.title)}]({name}.png)\n")
        page += [_markdown(table), f"\n{escaped(table.note)}\n" if table.note else ""]
        for file, text in content.items():
            write_atomically(folder / file, text, mode=0o644)
            files.append(folder / file)
    write_atomically(files[0], "\n".join(page), mode=0o644)
    return files


def file_name(title: str) -> str:
    """Return a title as the name of a file.

    >>> file_name("Figure 6 (MNIST): epsilon, 80 teachers")
    'figure-6-mnist-epsilon-80-teachers'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:80].rstrip("-")


def text(cell: Cell) -> str:
    """Return a cell for people: numbers to four digits, a dash for nothing."""
    if cell is None:
        return "–"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _markdown(table: Table) -> str:
    rows = [[escaped(name) for name in table.columns], ["---"] * len(table.columns)]
    rows += [[escaped(text(cell)) for cell in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def picture(table: Table, chart: Chart) -> bytes:
    """Return a PNG of a table: panels beside each other, a line for each of the values of `chart.by`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(chart.panels) + 0.6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(1, len(chart.panels), squeeze=False, sharey=chart.log)[0]
    kinds = list(dict.fromkeys(table.column(chart.by))) if chart.by else [None]
    at, which = table.column(chart.x), table.column(chart.by) if chart.by else [None] * len(table.rows)
    for axes, panel in zip(all_axes, chart.panels, strict=True):
        for number, kind in enumerate(kinds):
            cells = zip(at, which, table.column(panel), strict=True)
            points = [(x, y) for x, of, y in cells if of == kind and isinstance(y, float | int)]
            if points:
                xs, ys = zip(*points, strict=True)
                axes.plot(xs, ys, color=_COLOURS[number % 4], marker=_MARKERS[number % 4], markersize=5, label=kind)
        if chart.log:
            axes.set_yscale("log")
        axes.set_title(panel, loc="left", fontsize=10)
        axes.set_xlabel(chart.x)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    if chart.by:
        all_axes[0].legend(frameon=False, fontsize=9)
    figure.suptitle(table.title, x=0.01, ha="left", fontsize=11, fontweight="bold", parse_math=False)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=130)
    return image.getvalue()
