"""The report of results: which lines count, what is compared, which bars are reached, and the page and its figures."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from command_line import answer, command, refused
from lggd.paper.bars import Bar, bars
from lggd.paper.comparison import (
    BASE,
    Findings,
    Measurement,
    contests,
    deviations,
    holm,
    ideas,
    paired_differences,
    read_findings,
    signed_rank_p,
)
from lggd.paper.paper_tables import BASELINES, DATASETS, PUBLISHED, ROWS, Published
from lggd.paper.report_files import read_notes, read_page, write_report
from lggd.paper.result_figures import draw_ablation, draw_backbones, draw_dynamic, draw_table

ROOT = Path(__file__).parents[2]
Line = dict[str, Any]
FULL = {
    "01": (75, 62, 83, 86, 91), "02": (73, 65, 81, 82, 89), "03": (73, 66, 82, 82, 89), "04": (73, 67, 83, 85, 91.5),
    "05": (72, 67.5, 80, 84, 91), "06": (78, 66, 83, 81, 89), "07": (79, 67, 81, 83, 90), "08": (70, 44, 77, 79, 86),
    "09": (80, 67, 84, 85, 92), "10": (81, 68, 84, 85.5, 92.5), "11": (79.5, 67, 84, 83, 91.5),
    "12": (76, 66, 82, 83, 92),
    "13": (74, 64, 82, 85, 90), "14": (82, 70, 85, 88, 93),
}  # fmt: skip


def line(row: str, dataset: str, mean: float, count: int = 10, **more: Any) -> Line:
    """A line as the runner writes it, whose accuracies have this mean and fall into place by row."""
    steps = np.random.default_rng(int(row[:2])).permutation(count) - (count - 1) / 2
    test = [round(mean + 0.1 * step, 6) for step in steps]
    return {
        "row": row, "name": ROWS[row[:2]], "slug": f"row{row[:2]}", "dataset": dataset, "backbone": "gcn", "seed": 0,
        "val": [value - 1 for value in test], "test": test, "splits": [f"{dataset}{n}" for n in range(count)],
        "split_hash": f"{dataset}-{count}", "seconds": 2.0, "device": "cuda", "machine": {"cpu": "C", "gpu": "G"},
        "versions": {"torch": "2.9"}, "when": "2025-01-01T00:00:00+00:00", **more,
    }  # fmt: skip


def all_lines() -> dict[str, list[Line]]:
    """Everything measured, every bar reached but for row 01 on CiteSeer."""
    table = [
        line(row, d, mean, trials=7) for row, means in FULL.items() for d, mean in zip(DATASETS, means, strict=True)
    ]
    raised = {"01": 0, "09": 1, "14": 2}
    backbones = [
        line(row, dataset, 80 + more, backbone=backbone)
        for (row, more), dataset, backbone in product(raised.items(), DATASETS, ("gat", "chebnet", "jknet"))
    ]
    dynamic = [
        line(row, dataset, 70 + n, additions=n)
        for row, dataset, n in product(("09", "14", "09 retrained"), ("cora", "citeseer", "pubmed"), range(4))
    ]
    tried = {BASE: 0.0, "good": 1.5, "failed | badly": -2.0}
    ablation = [
        line("14", dataset, 80 + more, variant=idea, about=f"About {idea}.")
        for (idea, more), dataset in product(tried.items(), DATASETS)
    ]
    changes = [{"p": p, "extra_edges": n, "mean": 0.1, "each": [0.1]} for p in (1.0, "inf") for n in (10, 100)]
    robustness = [{"change": changes, "figure": "figures/robustness.png", "seconds": 1.0}]
    geodesic = [{"distance": 123.5, "seconds": 1.0}]
    return {
        "table1": table, "backbones": backbones, "dynamic": dynamic, "ablation": ablation, "robustness": robustness,
        "geodesic": geodesic,
    }  # fmt: skip


def written(folder: Path, lines: dict[str, list[Line]]) -> Path:
    folder.mkdir(exist_ok=True)
    for experiment, group in lines.items():
        told = [json.dumps({"experiment": experiment, **each}) for each in group]
        (folder / f"{experiment}.jsonl").write_text("".join(f"{text}\n" for text in told))
    return folder


def found(folder: Path, lines: dict[str, list[Line]]) -> Findings:
    return read_findings(written(folder, lines))


def page_of(folder: Path) -> str:
    return read_page(folder, folder / "REPORT.md").text()


def bar(findings: Findings, start: str) -> Bar:
    (one,) = [each for each in bars(findings) if each.what.startswith(start)]
    return one


# -- the paper ----------------------------------------------------------------------------------------------------


def test_the_table_of_the_paper() -> None:
    assert len(PUBLISHED) == 12 * 5 - 1
    assert ("05", "pubmed") not in PUBLISHED
    assert PUBLISHED["01", "cora"] == Published(74.13, 2.08)
    assert PUBLISHED["05", "computers"] == Published(83.03, 0.50)
    assert PUBLISHED["10", "photo"] == Published(92.39, 2.11)
    assert PUBLISHED["12", "citeseer"] == Published(66.57, 1.26)
    assert {row for row, _ in PUBLISHED} == set(BASELINES) | {"08", "09", "10"}


# -- lines --------------------------------------------------------------------------------------------------------


def test_the_last_of_those_with_the_most_splits_counts(tmp_path: Path) -> None:
    lines = [line("01", "cora", 70), line("01", "cora", 71), line("01", "cora", 99, count=3)]
    findings = found(tmp_path, {"table1": lines})
    assert findings.table["01", "cora"].mean == pytest.approx(71)
    assert found(tmp_path, {"table1": lines[::-1]}).table["01", "cora"].mean == pytest.approx(70)


def test_torn_lines_are_skipped_and_told(tmp_path: Path) -> None:
    written(tmp_path, {"table1": [line("01", "cora", 70)]})
    with (tmp_path / "table1.jsonl").open("a") as file:
        file.write('{"row": "02", "dataset": "co')
    findings = read_findings(tmp_path)
    assert list(findings.table) == [("01", "cora")]
    assert "Torn lines skipped: 1." in page_of(tmp_path)


def test_lines_without_test_accuracies_do_not_count(tmp_path: Path) -> None:
    lines = [{**line("01", "cora", 70), "test": each} for each in ([], None)]
    assert found(tmp_path, {"table1": lines}).table == {}


def test_other_datasets_are_left_out(tmp_path: Path) -> None:
    assert found(tmp_path, {"dynamic": [line("09", "digits", 70, additions=0)]}).is_empty


@pytest.mark.parametrize("wrong", [[101.0], ["70"], 70.0, [float("nan")]])
def test_accuracies_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"`test` must be a list of per cents.*table1, row 01, cora"):
        Measurement.read({"experiment": "table1", "row": "01", "dataset": "cora", "test": wrong})


def test_splits_must_be_as_many_as_accuracies() -> None:
    with pytest.raises(ValueError, match=r"`splits` must have one entry for each of the 2"):
        Measurement.read({"test": [1, 2], "splits": ["a"]})


# -- beside the paper ---------------------------------------------------------------------------------------------


def test_deviations_are_beyond_one_published_deviation(tmp_path: Path) -> None:
    paper = PUBLISHED["04", "photo"]
    means = {"cora": PUBLISHED["04", "cora"].mean - 1.38, "photo": paper.mean + paper.sd - 0.01, "pubmed": 90.0}
    findings = found(tmp_path, {"table1": [line("04", dataset, mean) for dataset, mean in means.items()]})
    below, above = deviations(findings, {"04": "general", "04.cora": "special"})
    assert (below.dataset, below.is_below, below.note) == ("cora", True, "special")
    assert below.difference == pytest.approx(-1.38)
    assert (above.dataset, above.is_below, above.note) == ("pubmed", False, "general")


def test_a_deviation_below_without_a_note_is_not_explained(tmp_path: Path) -> None:
    written(tmp_path, {"table1": [line("01", "cora", 60), line("01", "photo", 60), line("02", "photo", 99)]})
    (tmp_path / "notes.toml").write_text('"01.photo" = """Because\nof a | that."""\n')
    text = page_of(tmp_path)
    (cora,) = [row for row in text.splitlines() if row.startswith("| 01 GCN | Cora | 60.00")]
    assert cora.endswith("| 74.13 ± 2.08 | −14.13 | ▼ below | **not explained** |")
    assert "| ▼ below | Because of a \\| that. |" in text
    assert "2 below, 1 above; 1 below without an explanation." in text


def test_notes_may_be_dotted_and_must_be_known(tmp_path: Path) -> None:
    path = tmp_path / "notes.toml"
    assert read_notes(path) == {}
    path.write_text('"09" = "all"\n07.cora = "one"\n')
    assert read_notes(path) == {"09": "all", "07.cora": "one"}
    for wrong in ('"09.corra" = "x"', "09 = 3", '"9" = "x"'):
        path.write_text(wrong)
        with pytest.raises(ValueError, match=r"notes.toml` must hold texts under keys"):
            read_notes(path)


# -- tests --------------------------------------------------------------------------------------------------------


def test_wilcoxon_is_scipys_and_known() -> None:
    # Siegel and Castellan's kind of example: |d| = 1..8 with the ranks 1 and 3 against it: W = 4.
    differences = [-1, 2, -3, 4, 5, 6, 7, 8]
    # Sets of ranks with a sum of at most 4: {}, 1, 2, 3, 4, 12, 13: seven of 256, on both sides.
    assert signed_rank_p(differences) == pytest.approx(2 * 7 / 256)
    assert signed_rank_p(differences) == stats.wilcoxon(differences, method="exact").pvalue


def test_ties_and_zeros_are_split() -> None:
    differences = [0, 0, 1, 1, 2, 3, -1, 4, 5, 6]
    assert signed_rank_p(differences) == pytest.approx(stats.wilcoxon(differences, zero_method="zsplit").pvalue)
    assert signed_rank_p([1, 1, 1, -1]) == pytest.approx(2 * 5 / 16)
    many = [*range(1, 20), 19, 0]
    assert signed_rank_p(many) == stats.wilcoxon(many, zero_method="zsplit", correction=True).pvalue
    assert signed_rank_p([0.0] * 10) == 1.0


def test_one_split_has_no_test(tmp_path: Path) -> None:
    findings = found(tmp_path, {"table1": [line("09", "cora", 80, count=1), line("01", "cora", 70, count=1)]})
    (contest,) = contests(findings, "09")
    assert (contest.pairs, contest.p, contest.corrected) == (1, None, None)
    assert not contest.is_significant
    text = page_of(tmp_path)
    assert "+10.00, 1/0/0, one split: no test" in text
    assert "**80.00 [1 split]** (80.18 ± 1.53)" in text


def test_holm_by_hand() -> None:
    assert holm([]) == []
    # Sorted: 4 × 0.01, 3 × 0.02 and 2 × 0.03 (equal), 1 × 0.9.
    assert holm([0.02, 0.9, 0.01, 0.03]) == pytest.approx([0.06, 0.9, 0.04, 0.06])
    assert holm([0.6, 0.5]) == [1.0, 1.0]


def test_splits_are_paired_by_hash_never_by_place() -> None:
    ours = Measurement.read({"test": [80, 70, 60], "splits": ["a", "b", "c"]})
    theirs = Measurement.read({"test": [50, 68, 79], "splits": ["d", "b", "a"]})
    assert paired_differences(ours, theirs) == [1, 2]
    assert paired_differences(theirs, ours) == [-2, -1]


def test_numbered_splits_are_paired_only_under_one_hash() -> None:
    ours = Measurement.read({"test": [80, 70], "splits": [0, 1], "split_hash": "x"})
    for theirs, expected in (("x", [1, 2]), ("y", [])):
        other = Measurement.read({"test": [79, 68], "splits": [0, 1], "split_hash": theirs})
        assert paired_differences(ours, other) == expected


def test_rows_without_a_split_in_common_are_not_compared(tmp_path: Path) -> None:
    other = {**line("01", "cora", 90), "splits": [f"other{n}" for n in range(10)]}
    findings = found(tmp_path, {"table1": [line("09", "cora", 80), other]})
    (contest,) = contests(findings, "09")
    assert (contest.pairs, contest.difference, contest.p) == (0, None, None)
    assert "no split in common" in page_of(tmp_path)


def test_contests_count_and_correct_within_a_dataset(tmp_path: Path) -> None:
    same = line("09", "cora", 80)
    lines = [same, {**same, "row": "02"}, line("01", "cora", 70), line("03", "cora", 90), line("01", "photo", 70)]
    results = contests(found(tmp_path, {"table1": lines}), "09")
    behind, equal, ahead = (next(each for each in results if each.rival == row) for row in ("03", "02", "01"))
    assert (ahead.wins, ahead.losses, ahead.ties) == (10, 0, 0)
    assert ahead.difference == pytest.approx(10)
    assert behind.difference == pytest.approx(-10)
    assert (equal.ties, equal.p, equal.corrected) == (10, 1.0, 1.0)
    smallest = 2 / 2**10
    assert signed_rank_p(list(range(1, 11))) == pytest.approx(smallest)
    assert ahead.p is not None
    assert ahead.corrected == pytest.approx(3 * ahead.p)
    assert ahead.is_significant
    text = page_of(tmp_path)
    assert "- **LGGD loses on Cora** to 03 DropEdge (−10.00)." in text
    assert "0.00, 0/0/10, no difference" in text


# -- ideas --------------------------------------------------------------------------------------------------------


def test_ideas_are_sorted_by_validation_and_failures_stay(tmp_path: Path) -> None:
    base, good, failed = ideas(found(tmp_path, all_lines()))
    assert [base.name, good.name, failed.name] == [BASE, "good", "failed | badly"]
    assert (base.validation_difference, base.test_difference) == (0, 0)
    assert good.validation_difference == pytest.approx(1.5)
    assert failed.test_difference == pytest.approx(-2)
    text = page_of(tmp_path)
    assert "| failed \\| badly | About failed \\| badly. | 77.00 (−2.00) · 78.00 (−2.00) |" in text


def test_ideas_that_lack_a_dataset_come_last(tmp_path: Path) -> None:
    means = {
        (BASE, "cora"): 80,
        (BASE, "photo"): 80,
        ("worse", "cora"): 60,
        ("worse", "photo"): 60,
        ("half", "cora"): 90,
    }
    lines = [line("14", dataset, mean, variant=idea) for (idea, dataset), mean in means.items()]
    assert [idea.name for idea in ideas(found(tmp_path, {"ablation": lines}))] == [BASE, "worse", "half"]


def test_the_base_may_be_the_row_of_the_table(tmp_path: Path) -> None:
    lines = {"table1": [line("14", "cora", 80)], "ablation": [line("14", "cora", 83, variant="more")]}
    base, more = ideas(found(tmp_path, lines))
    assert base.name == BASE
    assert more.trials["cora"].test_difference == pytest.approx(3)


def test_an_idea_without_a_base_has_no_difference(tmp_path: Path) -> None:
    (alone,) = ideas(found(tmp_path, {"ablation": [line("14", "cora", 83, idea="more")]}))
    assert alone.validation_difference is None
    assert "82.00 (–) · 83.00 (–)" in page_of(tmp_path)


# -- bars ---------------------------------------------------------------------------------------------------------


def test_bars_of_good_results(tmp_path: Path) -> None:
    missed = [each for each in bars(found(tmp_path, all_lines())) if not each.reached]
    assert [each.what[:10] for each in missed] == ["Row 01 GCN"]
    assert missed[0].because == "CiteSeer 62.00 < 63.92"


def test_without_data_no_bar_is_reached(tmp_path: Path) -> None:
    assert not any(each.reached for each in bars(found(tmp_path, {"geodesic": [{"distance": 1.0}]})))


def _changed(row: str, dataset: str, mean: float, **more: Any) -> Callable[[Line], Line]:
    def change(each: Line) -> Line:
        wanted = {"row": row, "dataset": dataset, **more}
        return line(row, dataset, mean, **more) if all(each.get(k) == v for k, v in wanted.items()) else each

    return change


@pytest.mark.parametrize(
    ("experiment", "change", "start", "because"),
    [
        ("table1", _changed("07", "photo", 86.87), "Row 07", "Photo 86.87 < 86.88"),
        ("table1", _changed("08", "cora", 72.0), "Row 08", "Cora 72.00, the paper 69.95"),
        ("table1", _changed("09", "photo", 91.01), "Row 09 LGGD at", "Photo 91.01 < 91.02"),
        ("table1", _changed("10", "cora", 79.0), "Row 10", "Cora 79.00 < 79.18"),
        ("table1", _changed("14", "photo", 90.9), "LGGD+ never behind", "Photo 90.90 < 91.00"),
        ("table1", _changed("14", "photo", 87.0), "LGGD+ at least 82.5", "82.40"),
        ("dynamic", _changed("09", "pubmed", 72.0, additions=3), "Row 09 on PubMed", "70.00 → 71.00 → 72.00 → 72.00"),
    ],
)
def test_a_bar_falls_with_the_number_behind_it(
    tmp_path: Path, experiment: str, change: Callable[[Line], Line], start: str, because: str
) -> None:
    lines = all_lines()
    assert bar(found(tmp_path, lines), start).reached
    lines[experiment] = [change(each) for each in lines[experiment]]
    fallen = bar(found(tmp_path, lines), start)
    assert not fallen.reached
    assert fallen.because == because
    assert f"| **missed** | {fallen.what} | {because} |" in page_of(tmp_path)


def test_four_of_five_datasets_are_enough_and_three_are_not(tmp_path: Path) -> None:
    lines = all_lines()
    for dataset, reached in (("cora", True), ("photo", False)):
        lines["table1"] = [_changed("13", dataset, 99.0)(each) for each in lines["table1"]]
        lines["backbones"] = [_changed("01", dataset, 99.0, backbone="gat")(each) for each in lines["backbones"]]
        findings = found(tmp_path, lines)
        assert bar(findings, "LGGD+ ahead").reached == reached
        assert bar(findings, "GAT").reached == reached
        assert bar(findings, "JKNet").reached


def test_a_row_that_is_missing_is_not_beaten(tmp_path: Path) -> None:
    lines = all_lines()
    lines["table1"] = [each for each in lines["table1"] if each["row"] != "05" or each["dataset"] == "photo"]
    findings = found(tmp_path, lines)
    assert not bar(findings, "LGGD+ ahead").reached
    assert not bar(findings, "Row 05").reached
    assert not bar(findings, "All 14 rows").reached
    text = page_of(tmp_path)
    assert "Missing: 05 GAug-O on Cora, CiteSeer, PubMed and Computers." in text
    assert "| 05 GAug-O | missing (71.30 ± 1.54) | missing (67.22 ± 1.06) | missing (out of memory) |" in text


# -- the page -----------------------------------------------------------------------------------------------------


def test_table_cells_and_means(tmp_path: Path) -> None:
    written(tmp_path, all_lines())
    (row,) = [text for text in page_of(tmp_path).splitlines() if text.startswith("| 14 LGGD+ | **82.00 ± 0.30** (–)")]
    assert row.endswith("| 83.60 (–) |")
    assert row.count("**") == 10
    assert "| 01 GCN | 75.00 ± 0.30 (74.13 ± 2.08) |" in page_of(tmp_path)


def test_a_row_of_ones_own_is_in_the_report(tmp_path: Path) -> None:
    lines = all_lines()
    own = {"name": "My | method", "slug": "mine"}
    lines["table1"] += [line("14", d, 90.0, **own) | {"row": "15"} for d in ("cora", "photo")]
    lines["backbones"] += [line("14", "cora", 60.0, backbone="gat", **own) | {"row": "15"}]
    (written(tmp_path, lines) / "notes.toml").write_text('"15" = "Ours."\n')
    text = page_of(tmp_path)
    table = text.partition("## Table 1")[2].partition("##")[0]
    assert re.search(r"\| 15 My \\\| method \| \*\*90\.00 ± 0\.30\*\* \(–\) \| missing \(–\)", table)
    assert "Missing: 15 My" in table
    assert re.search(r"- .*LGGD\+? .*15 My", text)  # it is lost to, in words
    assert re.search(r"\| GAT \| 15 My \\\| method \| 60\.00", text)
    assert draw_table(read_findings(tmp_path)).axes[0].get_yticklabels()[-1].get_text().startswith("15")


def test_trials_come_from_lines_or_from_what_was_chosen(tmp_path: Path) -> None:
    written(tmp_path / "results", {"table1": [line("01", "cora", 75, trials=7), line("01", "photo", 75)]})
    (tmp_path / "rows").mkdir()
    (tmp_path / "chosen").mkdir()
    counts = {"cora": 3, "photo": 40}
    sections = [f"# {count} trials of 2 tuning splits\n[{name}]\nlr = 1\n" for name, count in counts.items()]
    told = "\n".join(["# By lggd.\n", *sections])
    (tmp_path / "chosen" / "row01.toml").write_text(told)
    page = read_page(tmp_path / "results", tmp_path / "REPORT.md", tmp_path)
    assert page.trials == {("01", "cora"): 7, ("01", "photo"): 40}
    assert "| 01 GCN | 7 | – | – | – | 40 |" in page.text()


def test_writing_is_repeatable_and_links_what_is_there(tmp_path: Path) -> None:
    written(tmp_path, all_lines())
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "robustness.png").write_bytes(b"")
    out = tmp_path / "REPORT.md"
    write_report(tmp_path, out)
    first = out.read_bytes()
    assert page_of(tmp_path).encode() == first
    links = [text.partition("](")[2][:-1] for text in first.decode().splitlines() if text.startswith("![")]
    assert links == [f"figures/{name}.png" for name in ("table1", "backbones", "dynamic", "robustness", "ablation")]
    assert all((tmp_path / link).is_file() for link in links)
    assert not list(tmp_path.rglob(".*"))
    assert "| ∞ | 10.00 % | 10.00 % |" in first.decode()
    assert "The way through a shape, 123.5 long." in first.decode()


def test_every_part_may_be_missing(tmp_path: Path) -> None:
    for experiment, lines in all_lines().items():
        folder = written(tmp_path / experiment, {experiment: lines})
        assert page_of(folder).count("\n## ") == 10


def test_figures_show_what_was_measured(tmp_path: Path) -> None:
    findings = found(tmp_path, all_lines())
    table, backbones, dynamic, ablation = (
        draw(findings) for draw in (draw_table, draw_backbones, draw_dynamic, draw_ablation)
    )
    assert [panel.get_title() for panel in table.axes] == list(DATASETS.values())
    assert [len(panel.containers) for panel in table.axes] == [2] * 5
    assert [len(panel.patches) for panel in backbones.axes] == [12] * 5
    assert [len(panel.lines) for panel in dynamic.axes] == [3] * 3
    assert [bar.get_width() for bar in ablation.axes[0].patches] == pytest.approx([1.5, -2, 1.5, -2])


# -- the command --------------------------------------------------------------------------------------------------


def test_command_writes_and_tells(tmp_path: Path) -> None:
    results = written(tmp_path / "results", {"table1": [line("09", "cora", 80), line("01", "cora", 70)]})
    (tmp_path / "elsewhere").mkdir()
    facts = answer("report", "--results", results, "--out", tmp_path / "elsewhere" / "page.md")
    assert facts["out"] == str(tmp_path / "elsewhere" / "page.md")
    assert facts["figures"] == [str(tmp_path / "elsewhere" / "figures" / "table1.png")]
    assert facts["table1"][0]["test"] == pytest.approx(70)
    assert facts["table1"][0]["paper"] == {"mean": 74.13, "sd": 2.08}
    assert facts["contests"][0]["wins"] == 10
    assert "14.photo" in facts["missing"]
    shown = command("report", "--results", results)
    assert shown.exit_code == 0
    assert "missed" in shown.stdout
    assert (results / "REPORT.md").is_file()


def test_command_refuses(tmp_path: Path) -> None:
    assert "`--results` must be a folder" in refused("report", "--results", tmp_path / "nowhere")
    assert "`--results` must hold lines in table1.jsonl" in refused("report", "--results", tmp_path)
    results = written(tmp_path, {"table1": [{**line("01", "cora", 70), "test": [700.0]}]})
    assert "`test` must be a list of per cents" in refused("report", "--results", results)
    assert not (tmp_path / "REPORT.md").exists()


def test_help_teaches_by_example() -> None:
    shown = command("report", "--help").stdout
    assert "lggd report --results results" in shown


def test_the_published_report_is_that_of_the_published_lines() -> None:
    path = ROOT / "results" / "REPORT.md"
    assert read_page(path.parent, path).text() == path.read_text(encoding="utf-8")


def test_the_table_of_the_readme_is_that_of_the_published_lines() -> None:
    table = read_findings(ROOT / "results").table
    best = [max(found.mean for (_, of), found in table.items() if of == dataset) for dataset in DATASETS]
    shown = re.findall(r"^\| (\d\d) [^|]+\| (.+) \|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [row for row, _ in shown] == ["01", "06", "07", "11", "09", "14"]
    for row, cells in shown:
        means = [table[row, dataset].mean for dataset in DATASETS]
        told = [f"**{mean:.1f}**" if mean == top else f"{mean:.1f}" for mean, top in zip(means, best, strict=True)]
        mean = f"{sum(means) / len(means):.1f}"
        assert cells.split(" | ") == [*told, f"**{mean}**" if row == "14" else mean]
