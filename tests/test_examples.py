"""Each example runs as it stands, draws one picture, writes nothing, and stays short."""

import re
import runpy
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
MAX_LINES, MIN_EXAMPLES = 40, 12
# A picture has at least this fraction of pixels that are not background, and this many colours.
INK, COLOURS = 0.01, 20


def pixels(figure):
    """The picture as RGB `[H, W, 3]`."""
    figure.set_dpi(60)
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3]


def is_blank(figure):
    image = pixels(figure).reshape(-1, 3)
    inked = (image != image[0]).any(1).mean()
    return inked < INK or len(np.unique(image, axis=0)) < COLOURS


@pytest.fixture
def pyplot():
    """Pyplot without figures, and with the settings of before afterwards."""
    with mpl.rc_context():
        plt.close("all")
        yield plt
        plt.close("all")


def test_there_are_examples():
    assert len(EXAMPLES) >= MIN_EXAMPLES
    assert (EXAMPLES[0].parent / "GALLERY_HEADER.rst").exists()


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive:UserWarning")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.usefixtures("fewer_digits")
def test_example_runs(path, tmp_path, monkeypatch, capsys, pyplot):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LGGD_DATA", raising=False)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []
    (number,) = pyplot.get_fignums()
    assert not is_blank(pyplot.figure(number))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short_and_says_what_it_shows(path):
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_LINES
    assert path.name.startswith("plot_"), "sphinx-gallery executes these"
    title = re.match(r'"""\n(.+)\n(=+)\n\n', text)
    assert title, "a title in reStructuredText"
    assert len(title[2]) >= len(title[1])


def test_a_blank_picture_is_found(pyplot):
    figure, axes = pyplot.subplots()
    axes.axis("off")
    assert is_blank(figure)
    axes.imshow(np.arange(100).reshape(10, 10))
    assert not is_blank(figure)
