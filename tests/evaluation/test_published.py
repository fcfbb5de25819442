"""The documentation's pages are cut from results: what they say is what the files hold, and nothing that is
asked for is passed over.
"""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from known_records import Given, record
from typer.testing import CliRunner

from larimar_editor.cli import app
from larimar_editor.easyedit.baselines import conditions
from larimar_editor.evaluation.harness.baselines import NoBaselines
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import start_again
from larimar_editor.evaluation.harness.report import made_on, note
from larimar_editor.evaluation.published.making import Making
from larimar_editor.evaluation.published.pages import Published, _mark, command
from larimar_editor.evaluation.published.plan import Plan
from larimar_editor.evaluation.tables import NAMES, find, rephrase
from larimar_editor.hparams import find_hparams

ROOT = Path(__file__).parents[2]
PLAN = """
tables:
  compare: {baselines: 8, reading: Read it slowly.}
  zsre: {limit: 2}
brief:
  - {table: compare, column: rewrite_acc, measure: right}
  - {table: compare, column: seconds, measure: seconds, better: lower}
"""


# ROME is wrong every time, MEMIT now and then.
RECORDS = {
    "LARIMAR": [record(0.5)] * 8,
    "ROME": [record(30.0, "another CPU", rewrite_acc=0.0)] * 8,
    "MEMIT": [record(10.0, rewrite_acc=value) for value in 2 * (1.0, 1.0, 1.0, 0.5)],
}


@pytest.fixture
def published(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    context = Context(
        find_hparams("LARIMAR/smollm2-135m"), baseline_cases=8, limit=8, baselines=Given(RECORDS)
    )
    find("compare").run(context, tmp_path / "out" / "compare", progress=False)
    return Published(tmp_path / "out", Plan.read(path))


def cells(text, start):
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {start} ")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_records_of_a_method_with_other_settings_are_made_again(published, monkeypatch, tmp_path):
    context = Context(
        find_hparams("LARIMAR/smollm2-135m"), baseline_cases=8, limit=8, baselines=Given(RECORDS)
    )
    out, asked = tmp_path / "out" / "compare", []
    known = Given.single_edits
    monkeypatch.setattr(
        Given,
        "single_edits",
        lambda self, of, method, edits: asked.append(method) or known(self, of, method, edits),
    )
    find("compare").run(context, out, progress=False)
    assert not asked
    monkeypatch.setattr(Given, "made_with", lambda self, of, method: method * (1 + (method == "ROME")))
    find("compare").run(context, out, progress=False)
    assert asked == ["ROME"]


def test_the_table_in_brief_says_who_is_ahead_where_the_cases_say_so(published):
    right, seconds = cells(published.brief(), "right"), cells(published.brief(), "seconds")
    assert right[:3] == ["1.000", "0.000 +", "0.875"], "a case of eight tells nothing apart"
    assert seconds[:3] == ["0.500", "30.0", "10.0"], "a median is not of any one case"
    assert len(right) == len(seconds) == 3, "methods that were not run have no column"


def test_a_mark_never_contradicts_the_test_beside_it(published):
    """Of four cases, all one way, the interval excludes zero, and chance does so in one of eight."""
    apart = {"value": 1.0, "low": 0.51, "high": 1.0, "p": 0.125}
    assert (_mark(apart, "higher"), _mark(apart | {"p": 0.04}, "higher")) == ("", " +")
    assert _mark(apart | {"p": 0.04}, "lower") == " **-**"


def test_the_page_has_what_was_run_how_to_read_it_and_what_is_missing(published):
    page = published.page("# Results\n", "## And more\n")
    summary = published.summaries["compare"]
    assert page.startswith("# Results\n\n## In brief\n") and "Read it slowly." in page
    assert "Planned and not measured: zsre." in page and note(summary) in page
    assert "larimar-editor eval compare --dtype float32 --limit 8 --baselines 8\n" in page
    assert (published.folder / "compare" / "table.md").read_text().strip() in page
    assert (published.folder / "compare" / "paired.md").read_text().strip() in page
    assert page.endswith("\n\n## And more\n")
    assert "](out/compare/figure.png)" in page and summary["settings"]["checkpoint"] in page


def test_a_table_that_is_being_made_is_not_shown_as_it_was(published, monkeypatch):
    folder, known = published.folder / "compare", Given.single_edits

    def stopped(self, of, method, edits):
        if method == "ROME":
            raise KeyboardInterrupt
        return known(self, of, method, edits)

    monkeypatch.setattr(Given, "single_edits", stopped)
    monkeypatch.setattr(Given, "made_with", lambda self, of, method: method * (1 + (method == "ROME")))
    context = Context(
        find_hparams("LARIMAR/smollm2-135m"), baseline_cases=8, limit=8, baselines=Given(RECORDS)
    )
    with pytest.raises(KeyboardInterrupt):
        find("compare").run(context, folder, progress=False)
    left = {path.name for path in folder.iterdir()}
    assert left == {"records.jsonl", "settings.json", "methods.json", "environments.json"}
    page = replace(published).page("")
    assert "Being made: compare.\n" in page and "Planned and not measured: zsre.\n" in page


def test_rows_of_methods_that_are_not_made_again_are_removed_only_when_it_is_told_to(published):
    """With another EasyEdit, which lacks MEMIT, or with none, they were gone."""
    folder = published.folder / "compare"
    before = {path: path.read_bytes() for path in folder.iterdir()}
    context = Context(find_hparams("LARIMAR/smollm2-135m"), baseline_cases=8, limit=8)
    fewer = Given({name: RECORDS[name] for name in ("LARIMAR", "ROME")})
    for beside, lost in ((NoBaselines(), "LARIMAR, ROME, MEMIT"), (fewer, "MEMIT")):
        making = Making(published.folder, {"compare": replace(context, baselines=beside)})
        with pytest.raises(ValueError, match=rf"\(compare: {lost}\).*--methods.*--replace"):
            making.run(print)
        assert {path: path.read_bytes() for path in folder.iterdir()} == before
    making.run(print, again=True)
    assert [row["name"] for row in replace(published).summaries["compare"]["rows"]] == ["LARIMAR", "ROME"]


def test_the_page_says_what_was_measured_with_an_earlier_checkpoint_than_ships(published):
    made = published.summaries["compare"]["settings"]["checkpoint"]
    assert "earlier checkpoint" not in published.page("") + replace(published, checkpoint=made).page("")
    page = replace(published, checkpoint="sha256:other").page("")
    assert "Measured with an earlier checkpoint than the one that ships: compare." in page
    assert f"Made with an earlier checkpoint, {made}" in page


def test_rows_that_were_timed_on_another_machine_are_named(published):
    summary = published.summaries["compare"]
    assert note(summary).endswith("Rows are of different machines, whose seconds do not compare.")
    assert ", LARIMAR, MEMIT on one CPU; ROME on another CPU.\n" in published.page("")
    alike = summary | {"environments": summary["environments"][:1]}
    assert "machines" not in note(alike), "nothing is known of ROME's"
    assert made_on(alike) == "LARIMAR, MEMIT on one CPU", "and so it is not said of ROME's row"
    every = [{"hardware": "one CPU", "rows": [row["name"] for row in summary["rows"]]}]
    assert made_on(summary | {"environments": every}) == "one CPU", "which rows, where it is not all"
    assert made_on({"rows": summary["rows"], "settings": {}, "environments": []}) == "–"
    half = summary | {"settings": summary["settings"] | {"dtype": "bfloat16"}}
    assert "Larimar's own rows are in bfloat16" in note(half) and "float32" not in note(summary)


def test_other_pages_have_their_tables_cut_from_the_same_files(published):
    asked = "{table: compare, columns: [rewrite_acc], rows: [ROME]}"
    text = f"Before.\n\n<!-- results: {asked} -->\nold\n<!-- end of results -->\n\nAfter.\n"
    filled = published.fill(text)
    assert filled.startswith("Before.\n\n<!-- results:") and filled.endswith("-->\n\nAfter.\n")
    assert "old" not in filled and cells(filled, "ROME") == ["0.000"] and "Rewrite acc." in filled
    assert published.fill(filled) == filled and published.fill("no block") == "no block"
    earlier = replace(published, checkpoint="sha256:other").fill(text)
    assert "earlier checkpoint" in earlier and "earlier checkpoint" not in filled
    brief = text.replace(asked, "{table: brief}")
    assert "in part with an earlier" in replace(published, checkpoint="sha256:other").fill(brief)
    assert "earlier" not in published.fill(brief)
    for wrong in ("{table: zsre}", "{table: compare, rows: [KN]}", "{table: compare, columns: [x]}"):
        with pytest.raises(ValueError, match="results have not all of"):
            published.fill(text.replace(asked, wrong))


def test_a_command_names_the_files_that_were_given():
    planned = Plan.read(ROOT / "configs" / "results.yaml").tables[1]
    settings = {"dtype": "float32", "limit": 5, "baseline_cases": 0, "zsre": "the project's own"}
    settings |= {
        "counterfact": "c.json, sha256:ab",
        "text": "the project's own",
        "facts": "the project's own",
    }
    said = command(planned, settings | {"asked": ["a.json, sha256:cd"]})
    assert said.endswith("--limit 5 --baselines 0 --counterfact c.json"), "what the table reads, and no more"
    said = command(replace(planned, name="scope"), settings | {"asked": ["a.json, sha256:cd"]})
    assert said.endswith("--counterfact c.json --data a.json")
    # The pages look for rows that are named after the folder, too.
    rows = [{"settings": {"data": "made-up facts"}}, {"settings": {"data": "knowedit/a"}}]
    said = command(replace(planned, name="scope"), settings | {"asked": ["a.json, sha256:cd"]}, rows)
    assert said.endswith("--counterfact c.json --data knowedit/a.json")


def test_a_command_has_the_folders_and_the_device_that_its_run_was_given(tmp_path):
    """Rows are named after file and folder; and where the files lie makes no other records."""
    for folder in ("here/wiki", "there/wiki"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "c.json").write_text("[]")
    here, there = (tmp_path / folder / "wiki" / "c.json" for folder in ("here", "there"))
    context = Context(
        find_hparams("LARIMAR/smollm2-135m"), counterfact=here, asked=(here,), methods_device="cuda,cpu"
    )
    planned = replace(Plan.read(ROOT / "configs" / "results.yaml").tables[1], name="scope")
    said = command(planned, context.describe())
    assert said.endswith("--methods-device cuda,cpu --counterfact wiki/c.json --data wiki/c.json")
    elsewhere = replace(context, counterfact=there, asked=(there,), methods_device=None)
    assert elsewhere.lasting() == context.lasting() and "methods-device" not in command(
        replace(planned, methods_device="cuda"), elsewhere.describe()
    )


def test_other_models_have_a_column_each_where_they_are_measured(published, tmp_path):
    others = {
        "heading": "Other decoders",
        "shipped": "SmolLM2",
        "folders": {"Gemma": "gemma", "Qwen": "qwen"},
        "measures": [
            {"table": "compare", "column": "rewrite_acc", "measure": "right"},
            {"table": "compare", "column": "rewrite_acc", "measure": "right, of MEMIT", "ours": "MEMIT"},
            {"table": "zsre", "column": "edit", "measure": "not measured"},
        ],
        "reading": "Made elsewhere.",
    }
    path = tmp_path / "with-others.yaml"
    path.write_text(PLAN + yaml.safe_dump({"comparisons": [others]}))
    with_others = replace(published, plan=Plan.read(path))
    assert with_others.page("") == published.page(""), "none of them is there"
    shutil.copytree(published.folder / "compare", published.folder / "gemma" / "compare")
    page = with_others.page("", "Closing.")
    assert page.index("## compare") < page.index("## Other decoders") < page.index("Closing.")
    section = page.split("## Other decoders")[1]
    assert "Made elsewhere." in section and "Qwen" not in section
    assert cells(section, "right")[0] == cells(section, "right")[1] == "1.000 (0.676 to 1.000; n = 8)"
    assert cells(section, "right, of MEMIT")[1].startswith("0.875 (")
    assert cells(section, "not measured") == ["–", "–"]


def test_the_plan_that_ships_has_every_table_and_measures_that_there_are():
    plan = Plan.read(ROOT / "configs" / "results.yaml")
    assert sorted(each.name for each in plan.tables) == sorted(NAMES)
    compared = [measure for each in plan.comparisons for measure in each.measures]
    (wordings,) = (each for each in plan.tables if each.name == "rephrase")
    assert max(facts for facts, _ in rephrase.SIZES) <= wordings.limit, "else sizes are left out"
    for measure in (*plan.brief, *compared):
        assert measure.column in {column.key for column in find(measure.table).columns}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- compare", "must hold keys and values"),
        ("tables: {compares: {}}", "no table 'compares'"),
        ("", "must hold keys and values"),
        ("dtype: float32", "the key 'tables' must hold"),
        ("tables:\n", "the key 'tables' must hold"),
        ("tables: [compare]", "the key 'tables' must hold"),
        ("tables: {compare: 3}", r"plan\.yaml, tables, compare must hold keys and values"),
        ("tables: {compare: {cases: 3}}", r"plan\.yaml, tables, compare: unknown key 'cases'"),
        ("tables: {compare: {limit: few}}", "tables, compare: limit must be a whole number, got 'few'"),
        ("tables: {}\ndtype: flaot32", "dtype must be one of auto, float32"),
        ("tables: {}\ncomparisons: {a: b}", "comparisons must hold a list"),
        ("tables: {}\ncomparisons: [{folder: x}]", "comparisons, number 1: unknown key 'folder'"),
        ("tables: {}\nother_decoders: {}", "unknown key 'other_decoders'"),
        ("tables: {}\nbrief: [{table: kn, column: x, measure: y}]", "no table 'kn'"),
        ("tables: {}\nbrief: [{table: compare, measure: y}]", "brief, number 1: the key 'column' is missing"),
        ("tables: {}\nbrief: [compare]", "brief, number 1 must hold keys and values"),
    ],
)
def test_a_plan_with_what_nothing_reads_is_refused(text, message, tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        Plan.read(path)


def test_records_of_another_checkpoint_are_made_again_and_no_others(tmp_path):
    context = Context(
        find_hparams("LARIMAR/smollm2-135m"), baseline_cases=8, limit=8, baselines=Given(RECORDS)
    )
    find("compare").run(context, tmp_path, progress=False)
    assert not start_again(tmp_path, context) and (tmp_path / "records.jsonl").exists()
    settings = json.loads((tmp_path / "settings.json").read_text())
    (tmp_path / "settings.json").write_text(json.dumps(settings | {"checkpoint": "sha256:other"}))
    assert start_again(tmp_path, context) and not (tmp_path / "records.jsonl").exists()


def test_the_command_replaces_what_another_checkpoint_made_only_when_it_is_told_to(
    published, tmp_path, monkeypatch
):
    folder = published.folder / "compare"
    settings = json.loads((folder / "settings.json").read_text())
    (folder / "settings.json").write_text(json.dumps(settings | {"checkpoint": "sha256:other"}))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    given = [
        "results",
        "--plan",
        str(tmp_path / "plan.yaml"),
        "--out",
        str(published.folder),
        "--only",
        "compare",
    ]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 2 and "--replace" in done.output
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    ran = []
    noted = SimpleNamespace(reads=(), run=lambda context, out: ran.append((out, out.exists())))
    monkeypatch.setattr("larimar_editor.evaluation.tables.find", lambda name: noted)
    done = CliRunner().invoke(app, [*given, "--replace"])
    assert done.exit_code == 0, done.output
    assert ran == [(folder, False)], "removed, and made again"


def test_a_table_is_made_in_the_dtype_that_it_is_planned_in(tmp_path, monkeypatch):
    """An hour of bfloat16 is half a day of float32 where 100,000 facts are written."""
    plan = tmp_path / "plan.yaml"
    plan.write_text("dtype: float32\ntables:\n  compare: {}\n  scope: {dtype: bfloat16}\n")
    ran = {}
    noted = SimpleNamespace(reads=(), run=lambda context, out: ran.update({out.name: context.dtype}))
    monkeypatch.setattr("larimar_editor.evaluation.tables.find", lambda name: noted)
    done = CliRunner().invoke(app, ["results", "--plan", str(plan), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert ran == {"compare": "float32", "scope": "bfloat16"}


@pytest.mark.parametrize(("given", "where"), [(None, "cuda,cpu"), ("cpu", "cpu")])
def test_methods_run_on_the_device_that_the_record_names(given, where, tmp_path):
    """The command's, or else the plan's; of a table without methods none is named."""
    path = tmp_path / "plan.yaml"
    path.write_text(
        "tables:\n"
        "  compare: {baselines: 2, methods_device: 'cuda,cpu'}\n"
        "  zsre: {methods_device: cuda, baselines: 0}\n"
    )
    ran = {}
    beside = lambda table, methods_device: ran.update({table.name: methods_device}) or NoBaselines()
    context = Context(find_hparams("LARIMAR/smollm2-135m"), methods_device=given)
    making = Making.of(Plan.read(path), context, beside)
    assert ran == {"compare": where}
    assert {name: run.methods_device for name, run in making.runs.items()} == {"compare": where, "zsre": None}


def test_the_command_writes_pages_without_measuring(published, tmp_path):
    (published.folder / "introduction.md").write_text("# Results of mine\n")
    page = tmp_path / "page.md"
    page.write_text("<!-- results: {table: brief} -->\n<!-- end of results -->\n")
    given = ["results", "--plan", str(tmp_path / "plan.yaml"), "--out", str(published.folder)]
    done = CliRunner().invoke(app, [*given, "--page", str(page), "--write-only"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out.md").read_text() == published.page("# Results of mine\n")
    assert published.brief() in page.read_text()
    done = CliRunner().invoke(app, [*given, "--only", "scope"])
    assert done.exit_code == 2 and "not planned: scope" in done.output


def test_pages_are_written_whether_or_not_anyone_looks_at_which(published, tmp_path):
    other = tmp_path / "other.md"
    other.write_text("<!-- results: {table: brief} -->\n<!-- end of results -->\n")
    published.write([other])
    assert published.brief() in other.read_text()
    assert (tmp_path / "out.md").read_text() == published.page("# Results")
    assert published.write([other]) == [tmp_path / "out.md", other]


def test_the_page_is_beside_a_folder_with_a_dot_in_its_name(published, tmp_path):
    folder = published.folder.rename(tmp_path / "v0.1")
    given = ["results", "--plan", str(tmp_path / "plan.yaml"), "--write-only", "--out"]
    assert CliRunner().invoke(app, [*given, str(folder)]).exit_code == 0
    assert (tmp_path / "v0.1.md").exists() and not (tmp_path / "v0.md").exists()
    for nameless in (".", "..", "/"):
        done = CliRunner().invoke(app, [*given, nameless])
        assert done.exit_code == 2 and "has no name" in done.output, "before anything is measured"


def test_the_comparison_is_made_by_one_command(monkeypatch, tmp_path):
    monkeypatch.setattr(conditions, "EasyEditBaselines", lambda *given: Given(RECORDS))
    done = CliRunner().invoke(app, ["compare", "--edits", "4", "--out", str(tmp_path)])
    assert done.exit_code == 0, (done.output, done.exception)
    assert cells(done.output, "MEMIT")[0].startswith("0.875 (")
    made = {path.name for path in tmp_path.iterdir()}
    assert {"table.md", "table.tex", "table.csv", "figure.png", "summary.json", "records.jsonl"} <= made
    given = ["compare", "--edits", "4", "--device", "0", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, "the methods' device is no setting of the table"
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["settings"]["methods_device"] == "0" and summary["settings"]["device"] == "cpu"
    assert {each["hardware"] for each in summary["environments"]} == {"one CPU", "another CPU"}, (
        "as each says"
    )
    done = CliRunner().invoke(app, ["compare", "--hparams", str(tmp_path / "table.md")])
    assert done.exit_code == 2 and "a file; wanted is" in re.sub(r"[│\s]+", " ", done.output)


def test_the_pages_that_ship_are_cut_from_the_results_that_ship():
    context = Context(find_hparams("LARIMAR/smollm2-135m"))
    plan = Plan.read(ROOT / "configs" / "results.yaml")
    published = Published(ROOT / "docs" / "results", plan, context.which_larimar()["checkpoint"])
    written = (
        "README.md",
        "docs/scope.md",
        "docs/speed.md",
        "larimar_editor/checkpoints/smollm2-135m/README.md",
    )
    for path in (ROOT / name for name in written):
        text = path.read_text(encoding="utf-8")
        assert "<!-- results: " in text and published.fill(text) == text, path
    around = ((ROOT / "docs" / "results" / f"{name}.md").read_text() for name in ("introduction", "closing"))
    assert published.page(*around) == (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
