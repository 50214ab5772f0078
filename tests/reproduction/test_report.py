"""The report of results: its sections, links, notes, and the command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import fmean, stdev

import pytest

from lggd.errors import InputError
from reproduction.figures import draw_table
from reproduction.measurements import DATASETS, ROWS, read_measurements
from reproduction.report import read_notes, read_report, write_report
from support.reproducing import answer, command, refused
from support.result_lines import all_lines, line, written

ROOT = Path(__file__).parents[2]


def markdown(folder: Path) -> str:
    return read_report(folder, folder / "REPORT.md").markdown()


def test_table_cells_and_means(tmp_path: Path) -> None:
    text = markdown(written(tmp_path, all_lines()))
    (row,) = [text for text in text.splitlines() if text.startswith("| 14 Trained LGGD+ | **82.00 ± 0.30** (–)")]
    assert row.endswith("| 83.60 (–) |")
    assert row.count("**") == 10
    assert "| 01 GCN | 75.00 ± 0.30 (74.13 ± 2.08) |" in text


def test_missing_rows_are_listed(tmp_path: Path) -> None:
    lines = all_lines()
    lines["table1"] = [each for each in lines["table1"] if each["row"] != "05" or each["dataset"] == "photo"]
    text = markdown(written(tmp_path, lines))
    assert "Missing: 05 GAug-O on Cora, CiteSeer, PubMed and Computers." in text
    assert "| 05 GAug-O | missing (71.30 ± 1.54) | missing (67.22 ± 1.06) | missing (out of memory) |" in text


def test_deviation_below_without_a_note_is_not_explained(tmp_path: Path) -> None:
    written(tmp_path, {"table1": [line("01", "cora", 60), line("01", "photo", 60), line("02", "photo", 99)]})
    (tmp_path / "notes.toml").write_text('"01.photo" = """Because\nof a | that."""\n')
    text = markdown(tmp_path)
    (cora,) = [row for row in text.splitlines() if row.startswith("| 01 GCN | Cora | 60.00")]
    assert cora.endswith("| 74.13 ± 2.08 | −14.13 | ▼ below | **not explained** |")
    assert "| ▼ below | Because of a \\| that. |" in text
    assert "2 below, 1 above; 1 below without an explanation." in text


def test_paired_tests_in_words(tmp_path: Path) -> None:
    same = line("09", "cora", 80)
    lines = [same, {**same, "row": "02"}, line("03", "cora", 90)]
    text = markdown(written(tmp_path, {"table1": lines}))
    assert "- **LGGD is significantly worse on Cora** than 03 DropEdge (−10.00)." in text
    assert "0.00, 0/0/10, no difference" in text


def test_pairs_that_cannot_be_tested(tmp_path: Path) -> None:
    single = [line("09", "cora", 80, count=1), line("01", "cora", 70, count=1)]
    text = markdown(written(tmp_path, {"table1": single}))
    assert "+10.00, 1/0/0, one split: no test" in text
    assert "**80.00 [1 split]** (80.18 ± 1.53)" in text
    other = {**line("01", "cora", 90), "splits": [f"other{n}" for n in range(10)]}
    assert "no common split" in markdown(written(tmp_path, {"table1": [line("09", "cora", 80), other]}))


def test_ablation_cells(tmp_path: Path) -> None:
    text = markdown(written(tmp_path, all_lines()))
    assert "| failed \\| badly | 77.00 (−2.00) · 78.00 (−2.00) |" in text
    alone = markdown(written(tmp_path / "alone", {"ablation": [line("14", "cora", 83, variant="more")]}))
    assert "82.00 (–) · 83.00 (–)" in alone


def test_incomplete_lines_are_reported(tmp_path: Path) -> None:
    with (written(tmp_path, all_lines()) / "table1.jsonl").open("a") as file:
        file.write('{"row": "02", "dataset": "co')
    assert "Incomplete lines skipped: 1." in markdown(tmp_path)


def test_a_row_of_ones_own_is_in_the_report(tmp_path: Path) -> None:
    lines = all_lines()
    own = {"name": "My | method", "slug": "mine"}
    lines["table1"] += [line("14", d, 90.0, **own) | {"row": "15"} for d in ("cora", "photo")]
    lines["backbones"] += [line("14", "cora", 60.0, backbone="gat", **own) | {"row": "15"}]
    (written(tmp_path, lines) / "notes.toml").write_text('"15" = "Ours."\n')
    text = markdown(tmp_path)
    table = text.partition("## Table 1")[2].partition("##")[0]
    assert re.search(r"\| 15 My \\\| method \| \*\*90\.00 ± 0\.30\*\* \(–\) \| missing \(–\)", table)
    assert "Missing: 15 My" in table
    assert re.search(r"- .*LGGD\+? .*15 My", text)  # named where it is better
    assert re.search(r"\| GAT \| 15 My \\\| method \| 60\.00", text)
    assert draw_table(read_measurements(tmp_path)).axes[0].get_yticklabels()[-1].get_text().startswith("15")


def test_trials_come_from_the_chosen_settings(tmp_path: Path) -> None:
    written(tmp_path / "results", {"table1": [line("01", "cora", 75), line("01", "photo", 75), line("02", "cora", 70)]})
    (tmp_path / "rows").mkdir()
    (tmp_path / "chosen").mkdir()
    tables = [
        f"[{name}]\ntrials = {count}\n[{name}.settings]\nlr = 1\n" for name, count in (("cora", 3), ("photo", 40))
    ]
    (tmp_path / "chosen" / "row01.toml").write_text("\n".join(tables))
    report = read_report(tmp_path / "results", tmp_path / "REPORT.md", tmp_path)
    assert report.trials == {("01", "cora"): 3, ("01", "photo"): 40}
    assert "| 01 GCN | 3 | – | – | – | 40 |" in report.markdown()


def test_notes_may_be_dotted_and_must_be_known(tmp_path: Path) -> None:
    path = tmp_path / "notes.toml"
    assert read_notes(path) == {}
    path.write_text('"09" = "all"\n07.cora = "one"\n')
    assert read_notes(path) == {"09": "all", "07.cora": "one"}
    for wrong in ('"09.corra" = "x"', "09 = 3", '"9" = "x"'):
        path.write_text(wrong)
        with pytest.raises(InputError, match=r"notes.toml` must contain text under keys"):
            read_notes(path)


def test_writing_is_repeatable_and_links_existing_figures(tmp_path: Path) -> None:
    written(tmp_path, all_lines())
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "robustness.png").write_bytes(b"")
    out = tmp_path / "REPORT.md"
    write_report(tmp_path, out)
    first = out.read_bytes()
    assert markdown(tmp_path).encode() == first
    links = [text.partition("](")[2][:-1] for text in first.decode().splitlines() if text.startswith("![")]
    assert links == [f"figures/{name}.png" for name in ("table1", "backbones", "dynamic", "robustness", "ablation")]
    assert all((tmp_path / link).is_file() for link in links)
    assert not list(tmp_path.rglob(".*"))
    assert "| ∞ | 10.00 % | 10.00 % |" in first.decode()
    assert "A geodesic through a shape, 123.5 pixels long." in first.decode()


def test_every_experiment_may_be_missing(tmp_path: Path) -> None:
    for experiment, lines in all_lines().items():
        assert markdown(written(tmp_path / experiment, {experiment: lines})).count("\n## ") == 9


def test_command_writes_the_report(tmp_path: Path) -> None:
    results = written(tmp_path / "results", {"table1": [line("09", "cora", 80), line("01", "cora", 70)]})
    (tmp_path / "elsewhere").mkdir()
    facts = answer("report", "--results", results, "--out", tmp_path / "elsewhere" / "page.md")
    assert facts["out"] == str(tmp_path / "elsewhere" / "page.md")
    assert facts["figures"] == [str(tmp_path / "elsewhere" / "figures" / "table1.png")]
    assert facts["table1"][0]["test"] == pytest.approx(70)
    assert facts["paper"]["01.cora"] == {"mean": 74.13, "sd": 2.08}
    assert facts["paired_tests"][0]["wins"] == 10
    assert "14.photo" in facts["missing"]
    shown = command("report", "--results", results)
    assert shown.exit_code == 0
    assert "Table 1: 2 cells measured, 68 missing" in shown.stdout
    assert (results / "REPORT.md").is_file()


def test_command_refuses(tmp_path: Path) -> None:
    assert "`--results` must be a folder" in refused("report", "--results", tmp_path / "nowhere")
    assert "`--results` must contain measurements of cora" in refused("report", "--results", tmp_path)
    results = written(tmp_path, {"table1": [{**line("01", "cora", 70), "test": [700.0]}]})
    assert "`test` must be a list of percentages" in refused("report", "--results", results)
    assert not (tmp_path / "REPORT.md").exists()


def test_help_has_an_example() -> None:
    assert "python -m reproduction report --results results" in command("report", "--help").stdout


def test_committed_report_is_up_to_date() -> None:
    path = ROOT / "results" / "REPORT.md"
    assert read_report(path.parent, path).markdown() == path.read_text(encoding="utf-8")


def test_note_cites_the_run_of_the_authors_code() -> None:
    run = json.loads((ROOT / "results" / "authors-code-cora.json").read_text(encoding="utf-8"))
    cited = f"{fmean(run['test']):.1f} ± {stdev(run['test']):.1f} % over {len(run['test'])} seeds"
    assert cited in read_notes(ROOT / "results" / "notes.toml")["09.cora"]


def test_table_of_the_readme_is_that_of_the_committed_lines() -> None:
    table = read_measurements(ROOT / "results").table1
    best = [max(found.mean for (_, of), found in table.items() if of == dataset) for dataset in DATASETS]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| ([^|]+?)(?:, [^|]+| \(`[^|]+)? \| ((?:[\d.*]+ \| ){5}[\d.*]+) \|$", readme, re.MULTILINE)
    ours = {"LGGD": "09", "Kernel ridge": "22", "**LGGD+**": "24"}
    numbers = {name: row for row, name in ROWS.items()} | {"GCN+": "21"} | ours
    assert [numbers[name] for name, _ in shown] == ["01", "06", "07", "11", "21", "09", "22", "24"]
    for name, cells in shown:
        row = numbers[name]
        means = [table[row, dataset].mean for dataset in DATASETS]
        texts = [f"**{mean:.1f}**" if mean == top else f"{mean:.1f}" for mean, top in zip(means, best, strict=True)]
        mean = f"{sum(means) / len(means):.1f}"
        assert cells.split(" | ") == [*texts, f"**{mean}**" if row == "24" else mean]
