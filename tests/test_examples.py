"""The README's snippet and every example print what they say they print."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forked
import pytest
from conftest import EVERYTHING
from readme import snippet

ROOT = Path(__file__).parents[1]
EVERY_EXAMPLE = sorted((ROOT / "examples").glob("*.py"))
# `make soak` has those, too, that do what the others do with more facts.
EXAMPLES = [path for path in EVERY_EXAMPLE if EVERYTHING or path.stem not in ("easyedit_batch", "many_facts")]
ARGUMENTS = {"small_gpt2": ["decoder", "2"]}  # two steps in place of 1,500


def said_to_print(source: str) -> list[str]:
    """The comment lines after "# prints:"."""
    lines = source.split("# prints:\n")[1].splitlines()
    return [line.removeprefix("#").removeprefix(" ") for line in lines]


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """What each script prints, line by line, by name; they run in turn on as many cores as there are."""

    def run(name: str, source: str) -> list[str]:
        folder = tmp_path_factory.mktemp(name)
        (folder / "script.py").write_text(source)
        return forked.run(["script.py", *ARGUMENTS.get(name, [])], folder).splitlines()

    scripts = {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES}
    scripts["README"] = snippet(ROOT / "README.md")[0]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(scripts, pool.map(run, scripts, scripts.values())))


def test_the_readme_prints_what_it_says(output):
    assert output["README"] == snippet(ROOT / "README.md")[1].splitlines()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(path, output):
    expected = said_to_print(path.read_text(encoding="utf-8"))
    # EasyEdit and transformers say other things besides.
    assert expected and [line for line in output[path.stem] if line in expected] == expected


def test_there_is_an_example_for_each_way_in():
    ways = {"without_easyedit", "easyedit_sequential", "easyedit_batch", "many_facts", "own_decoder"}
    assert ways <= {path.stem for path in EVERY_EXAMPLE}
