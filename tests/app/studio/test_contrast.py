"""Colours of pages with a map, in light and dark: text and dots differ enough from what lies behind them (WCAG 2.2)."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

# WCAG asks for 4.5 : 1 for text (1.4.3) and for 3 : 1 for graphics (1.4.11).
TEXT, DOTS = 4.5, 3.0
BEHIND = ("page", "card", "soft")
NUM_CLASSES = 12
SHEET = files("lggd.app.report").joinpath("page", "colours.css").read_text("utf-8")


def colours(scheme: str) -> dict[str, str]:
    """The variables of the sheet by name; dark ones replace light ones."""
    light, dark = SHEET.split("@media (prefers-color-scheme: dark)")
    variables = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light))
    return variables | dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", dark)) if scheme == "dark" else variables


def luminance(colour: str) -> float:
    encoded = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in encoded)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_formula() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("behind", BEHIND)
def test_text_can_be_read(scheme: str, behind: str) -> None:
    variables = colours(scheme)
    for name in ("ink", "quiet", "accent"):
        assert contrast(variables[name], variables[behind]) >= TEXT, f"--{name} on --{behind}, {scheme}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_errors_can_be_read(scheme: str) -> None:
    variables = colours(scheme)
    assert contrast(variables["wrong"], variables["card"]) >= TEXT


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dots_and_lines_can_be_seen(scheme: str) -> None:
    """The map and the curves lie on cards."""
    variables = colours(scheme)
    names = [f"class-{k}" for k in range(NUM_CLASSES)]
    for name in [*names, "correct", "wrong", "hit", "miss", *(f"series-{k}" for k in (1, 2, 3, 4))]:
        assert contrast(variables[name], variables["card"]) >= DOTS, f"--{name} on --card, {scheme}"


def test_dark_has_its_own_classes() -> None:
    light, dark = colours("light"), colours("dark")
    assert all(light[f"class-{k}"] != dark[f"class-{k}"] for k in range(NUM_CLASSES))
