"""Pictures of a run as PNG files."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from training.checkpoint import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float, *, is_tight: bool = True) -> "Figure":
    """Without pyplot, which would look for a display and keep every figure.

    Args:
        width, height: In inches of 100 pixels.
        is_tight: Let matplotlib find the room that texts need, which takes half of all the time.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100, layout="constrained" if is_tight else None)
    FigureCanvasAgg(figure)
    return figure


def write_figure(figure: "Figure", path: Path) -> None:
    """Draw it as PNG, in place of an older file."""
    content = io.BytesIO()
    figure.savefig(content, format="png")
    write_atomically(path, content.getvalue())
