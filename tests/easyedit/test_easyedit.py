"""Larimar inside the real EasyEdit: the release on PyPI always, the main branch where EASYEDIT_HOME names a
checkout.

Each version is driven in a process of its own, since only one can be imported. Nothing of EasyEdit is mocked.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from conftest import needs_gpu

from larimar_editor.easyedit.finding import EasyEditSource
from larimar_editor.easyedit.installing import _root_logger_left_alone
from larimar_editor.easyedit.mending import device_name, mended
from larimar_editor.easyedit.registration import (
    _editors_of_other_kinds,
    _loadable,
    _of_each_edit,
    _replace_measure,
)
from larimar_editor.easyedit.standins import stand_ins
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.prompts import Prompts

SCRIPT = Path(__file__).parent / "easyedit_script.py"
HOME = os.environ.get("EASYEDIT_HOME")
needs_home = pytest.mark.skipif(not HOME, reason="EASYEDIT_HOME is not set")
VERSIONS = [
    ("release", "cpu"),
    pytest.param(("main", "cpu"), marks=needs_home),
    pytest.param(("main", "0"), marks=[needs_home, needs_gpu]),
]


def run(code: str, cwd: Path, home: str | None, device: str = "cpu") -> subprocess.CompletedProcess:
    environment = {key: value for key, value in os.environ.items() if key != "EASYEDIT_HOME"}
    environment |= {
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(SCRIPT.parents[2]),
        "LARIMAR_TEST_DEVICE": device,
    }
    environment |= {"EASYEDIT_HOME": home} if home else {}
    return subprocess.run(
        [sys.executable, "-c", code] if code else [sys.executable, str(SCRIPT)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture(scope="module", params=VERSIONS, ids="-".join)
def seen(request, tmp_path_factory):
    """What a script saw that used EasyEdit with Larimar as a person would."""
    version, device = request.param
    folder = tmp_path_factory.mktemp(version)
    result = run("", folder, HOME if version == "main" else None, device)
    assert result.returncode == 0, result.stderr[-4000:]
    return json.loads((folder / "seen.json").read_text()) | {"version": version, "stderr": result.stderr}


def test_the_right_easyedit_was_found(seen):
    assert seen["release_2023"] == (seen["version"] == "release")
    assert {"LARIMAR", "ROME", "MEMIT", "FT"} <= set(seen["methods"])
    assert ("GRACE" in seen["methods"]) == (seen["version"] == "main")


def test_single_edits_take_hold_and_easyedit_restores_the_model_to_the_bit(seen):
    single = seen["single"]
    assert all(
        after > before
        for after, before in zip(single["log_probability_after"], single["log_probability_before"])
    )
    assert single["facts_after"] == []
    assert single["restored_to_the_bit"]
    assert all(value == 1.0 for value in single["unrelated_locality"])


def test_easyedits_score_is_what_an_independent_computation_finds(seen):
    """Teacher-forced token accuracy of the target, computed here from the model's logits with the prompt as
    query.
    """
    assert seen["single"]["easyedit_rewrite_acc"] == pytest.approx(seen["single"]["own_rewrite_acc"])


def test_a_sequence_keeps_every_fact_and_forgets_on_request(seen):
    sequence = seen["sequence"]
    assert sequence["facts"] == sequence["prompts"]
    assert sequence["after_forgetting"] == sequence["prompts"][1:]
    assert sequence["rewrite"] == pytest.approx([1.0] * 3)
    assert sequence["same_model"]


def test_a_batch_is_written_at_once(seen):
    assert seen["batch"]["calls"] == [3]
    assert seen["batch"]["rewrite"] == pytest.approx(seen["sequence"]["rewrite"])


def test_generation_in_evaluation_works(seen):
    assert seen["fluency"] > 0
    if seen["version"] == "main":
        assert "Oslo" in seen["generate_edit"]["rewrite"] and seen["chat_scope"] == [True, False]
        assert "Oslo" not in seen["generate_edit"]["before"] and seen["generate_edit"]["unrelated_is_base"]
        assert seen["edit_requests"] == seen["normal_edit"] == 1
        assert len(seen["kept_by_normal_edit"]) == 1


def test_each_of_several_rephrasings_is_scored_against_the_target(seen):
    """EasyEdit would score them against its letters."""
    assert seen["several_rephrasings"] == [1.0, 1.0, 0.0]


def test_edits_may_have_unequally_many_rephrasings_and_fewer_answers_than_prompts(seen):
    """EasyEdit's summary failed after the last edit, and `edit` returned nothing."""
    if seen["version"] != "main":
        pytest.skip("the release of 2023 has no such summary")
    assert seen["unequal"] == [[2, 2], [1, 1]]


def test_in_a_chat_the_answer_begins_where_the_assistants_turn_does(seen):
    if seen["version"] != "main":
        pytest.skip("the release of 2023 knows no chat template")
    found, expected = seen["in_a_chat"]
    assert found == expected, "of an edit's prompt, and of a locality prompt, which EasyEdit leaves as it is"


def test_what_is_deleted_does_not_wait_for_a_collection(seen):
    """A notebook that deletes its editor and loads the next decoder has room for one on its GPU."""
    assert seen["deleted"]


def test_the_real_world_evaluation_runs_in_every_way_of_editing(seen):
    if seen["version"] != "main":
        pytest.skip("the release of 2023 has no such evaluation")
    judged, generated = seen["evaluation_types"]["LLM-judge"], seen["evaluation_types"]["generate-text"]
    assert all(len(metrics) == 2 for metrics in (*judged, *generated))
    for kind, wanted in (
        (judged, {"rewrite_acc", "rewrite_gen_content"}),
        (generated, {"rewrite_gen_content"}),
    ):
        assert all(wanted <= set(keys) for metrics in kind for keys in metrics)


def test_our_free_text_measures_are_easyedits(seen):
    if seen["version"] != "main":
        pytest.skip("the release of 2023 has no such evaluation")
    measured = seen["real_world"]
    assert measured["ours"] == measured["theirs"]
    assert all(ours == theirs for ours, theirs in measured["exact"])
    assert all(ours == pytest.approx(theirs) for ours, theirs in measured["entropy"])


def test_the_evaluation_boundary_hides_the_target(seen):
    assert seen["queries"], "evaluation did not reach the model"
    assert not seen["queries_with_target"]
    assert seen["queries_with_target_where_it_is_shown"], "`scope_sees_target: true` shows it"


def test_the_measure_hides_the_target_by_whatever_name_it_is_imported(seen):
    assert seen["measures"] == 1


def test_what_a_library_is_not_asked_for_stays_as_it_was(seen):
    assert seen["root_level"] == logging.WARNING and seen["root_handlers"] == 0


def test_what_easyedit_logs_is_still_shown(seen):
    """Its trainers have no handler but the one that EasyEdit gives the root logger."""
    assert seen["stderr"].count("a trainer says this once") == 1


def test_an_import_that_fails_leaves_the_root_logger_as_it_was():
    root, given = logging.getLogger(), logging.NullHandler()
    before, level = list(root.handlers), root.level
    with pytest.raises(ImportError), _root_logger_left_alone():
        root.addHandler(given)
        root.setLevel(1)
        raise ImportError
    assert root.handlers == before and root.level == level
    logging.getLogger("easyeditor").removeHandler(given)


def test_editors_that_cannot_undo_it_refuse_it(seen):
    if seen["version"] != "main":
        pytest.skip("the release of 2023 has no such editors")
    assert seen["refused"] == ["ConceptEditor", "SafetyEditor", "PerEditor", "MultimodalEditor"]


def test_a_main_branch_without_one_of_the_editors_that_refuse_it_is_not_taken(monkeypatch):
    """By another name it would edit, and not undo it."""
    monkeypatch.setitem(sys.modules, "easyeditor.editors.concept_editor", None)
    with pytest.raises(ImportError, match="no ConceptEditor"):
        _editors_of_other_kinds(EasyEditSource(Path(), "EASYEDIT_HOME", release_2023=False))
    release = EasyEditSource(Path(), "installed", release_2023=True)
    assert len(_editors_of_other_kinds(release)) < 4, "it never had them"


def test_a_main_branch_that_undoes_in_another_way_is_refused(tmp_path):
    editors = tmp_path / "easyeditor" / "editors"
    editors.mkdir(parents=True)
    (tmp_path / "easyeditor" / "__init__.py").touch()
    (editors / "editor.py").write_text("def edit(self, sequential_edit=False): ...\n")
    (editors / "utils.py").write_text("")
    result = run("import larimar_editor, easyeditor", tmp_path, str(tmp_path))
    assert result.returncode and "before 24 June 2026" in result.stderr


def test_a_folder_that_easyedit_would_take_for_another_model_is_refused():
    name = "llama-smollm2-135m"
    assert _loadable("/home/me/llama-smollm2-135m", name) == "/home/me/llama-smollm2-135m"
    assert _loadable("my/t5-small", "my/t5-small") == "my/t5-small", "what it is called by its user"
    with pytest.raises(ValueError, match="LARIMAR_CACHE"):
        _loadable("/home/student5/.cache/llama-smollm2-135m", name)


def test_hyperparameters_have_what_easyedits_have(seen):
    assert seen["methods_of_hyperparams_missing"] == []


def test_bad_requests_name_what_is_wrong_and_change_nothing(seen):
    assert seen["bad"].keys() == {"empty target", "empty prompt", "no target", "two targets"}
    for message in seen["bad"].values():
        assert message["error"] == "ValueError" and message["facts"] == 0
    assert "target_new" in seen["bad"]["empty target"]["text"]
    assert "two targets" in seen["bad"]["two targets"]["text"]
    assert "no Larimar checkpoint ships" in seen["no_checkpoint"]


def test_a_device_that_is_not_there_is_named_before_the_decoder_is_loaded(seen):
    assert "device 97 is not here" in seen["no_device"]


def test_all_requests_are_checked_before_the_first_is_edited(seen):
    """One that was refused when its turn came took with it what was measured of all before."""
    only_main = {"generate_edit", "normal_edit"} if seen["version"] == "main" else set()
    assert seen["checked"].keys() == {"edit", "batch_edit", "edit_requests"} | only_main
    assert all("target_new" in text for text in seen["checked"].values())
    assert seen["written_before_a_bad_one"] == 0


def test_absent_packages_raise_when_used_and_shadow_nothing(seen):
    assert seen["absent_importable_afterwards"] is False
    assert seen["transformers_sees_the_truth"]
    if seen["version"] == "main":
        assert "is not installed" in seen["stand_in_error"]


def test_a_package_that_a_finder_of_its_own_serves_is_not_absent(monkeypatch):
    """As one that is installed to be edited: a stand-in took its place."""
    served = {"iopath": ModuleSpec("iopath", None)}
    finder = SimpleNamespace(find_spec=lambda name, path=None, target=None: served.get(name))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    with stand_ins():
        assert "iopath" not in sys.meta_path[0].roots


def test_easyedit_absent_says_what_to_do(tmp_path):
    code = (
        "import larimar_editor\n"
        "import importlib.machinery as m; f=m.PathFinder.find_spec\n"
        "m.PathFinder.find_spec=classmethod(lambda c,n,p=None,t=None: None if n=='easyeditor' else "
        "f(n,p,t))\n"
        "import easyeditor"
    )
    result = run(code, tmp_path, None)
    assert result.returncode and "EASYEDIT_HOME" in result.stderr and "pip install" in result.stderr
    result = run("import larimar_editor, easyeditor", tmp_path, str(tmp_path))
    assert result.returncode and f"EASYEDIT_HOME={tmp_path} holds no easyeditor package" in result.stderr


def test_a_summary_is_of_each_edits_mean():
    collected = [[1.0, 0.0], [1.0], 0.5, []]
    assert _of_each_edit(lambda metrics, phase, key: collected)([], "post", "rephrase_acc") == [0.5, 1.0, 0.5]


def test_prompts_without_a_target_are_not_announced(monkeypatch):
    """EasyEdit passes them over; that three were announced for a batch of two was an error of LARIMAR's."""
    measured = ModuleType("easyeditor.evaluate.evaluate_utils")
    announced = []

    def test_prediction_acc(model, tok, hparams, prompts, targets, device, vanilla_generation=False):
        announced.append(Prompts(None, len([*zip(prompts, targets)]), None).queries())

    measured.test_prediction_acc = test_prediction_acc
    monkeypatch.setitem(sys.modules, measured.__name__, measured)
    _replace_measure(in_template=False)
    larimar = LarimarForCausalLM.__new__(LarimarForCausalLM)
    score = lambda prompts, targets: measured.test_prediction_acc(
        larimar, None, None, prompts, targets, "cpu"
    )
    score(["a", "b", "c"], ["x", "y"])
    score(["a"], ["x", "y"])
    score(["a", "b"], "x")
    assert [len(each) for each in announced] == [2, 1, 2]


def test_mending_touches_device_names_only():
    source = 'x.to(f"cuda:{hparams.device}")\ny = f\'cuda:{self.device}\'\nz = f"cuda {n}"\n'
    expected = (
        'x.to(_larimar_device_name(hparams.device))\ny = _larimar_device_name(self.device)\nz = f"cuda {n}"\n'
    )
    assert mended(source) == expected
    assert [device_name(d) for d in ("cpu", 0, "1", "cuda:2")] == ["cpu", "cuda:0", "cuda:1", "cuda:2"]
