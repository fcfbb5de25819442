"""Names: the spellings of one name are told from another name, and what ships of known names is sound."""

import json
import random

import pytest

from larimar_editor.data.question_sources import questions
from larimar_editor.data.questions.aliases import WrittenAlike, made_alias, written_alike
from larimar_editor.data.questions.facts import QuestionNames
from larimar_editor.data.questions.known_names import KnownName, read_known_names
from larimar_editor.data.questions.spellings import sound, spelled_otherwise, spelled_out
from larimar_editor.data.scope_cases import TYPED, TYPED_TO_CALIBRATE, scope_cases


@pytest.mark.parametrize(
    "one, other, same",
    [
        ("Giamarellou", "Giamarelou", True),
        ("Władysław", "Wladyslaw", True),
        ("Jürg", "Juerg", True),
        ("Ivanov", "Iwanow", True),
        ("Anatoly", "Anatolij", True),
        ("Suschko", "Sushko", True),
        ("Shinpei", "Shimpei", True),
        ("Dell", "Tell", False),
        ("Karl", "Paul", False),
        ("Halvor", "Halvard", False),
        ("Ostrelund", "Osterlund", False),
    ],
)
def test_spellings_of_one_name_sound_alike_and_other_names_do_not(one, other, same):
    assert (sound(one) == sound(other)) is same
    assert written_alike(f"Ada {one}", f"Ada {other}") is same


def test_a_name_is_spelled_as_another_ear_has_it_and_is_still_that_name():
    rng = random.Random(0)
    for name in ("Anatoly Porokhovsky", "Władysław Sikorski", "Popi Giamarellou", "Kjær"):
        made = {spelled_otherwise(name, rng) for _ in range(100)}
        assert made and name not in made and all(written_alike(name, other) for other in made), made
    assert "Popi Giamarelou" in {spelled_otherwise("Popi Giamarellou", rng) for _ in range(200)}
    assert spelled_otherwise("LX 318", rng) is None
    assert spelled_out("Jürg Søby-Weiß") == "Juerg Soeby-Weiss"


def test_an_alias_may_be_a_pet_name_a_surname_first_or_a_number_written_apart():
    rng = random.Random(0)
    made = {made_alias("Tobias Brandt", rng) for _ in range(600)}
    assert {"Tobi", "Tobi Brandt", "Brandt T", "Brandt, T."} <= made
    assert {"LX318", "LX-318"} <= {made_alias("LX 318", rng) for _ in range(100)}
    assert {"atlas03", "atlas 03"} <= {made_alias("atlas-03", rng) for _ in range(100)}


def test_known_names_that_ship_are_of_no_subject_that_is_measured_with():
    measured = {case.subject for path in (TYPED, TYPED_TO_CALIBRATE) for case in scope_cases(path)}
    names = questions().names
    assert len(names.aliases) > 1800 and len(names.mistaken) > 1800
    every = [each for name, aliases in names.aliases.items() for each in (name, *aliases)]
    assert not [*filter(WrittenAlike(measured).has, every)]


def test_a_like_name_is_often_one_that_is_known_to_be_mistaken_for_it_and_never_an_alias():
    known = KnownName("Chogori", ("K2", "Mount Godwin-Austen"), ("K1", "Kangchenjunga"))
    names = QuestionNames({"mountain": ["Makalu", "Nuptse"]}, {}).with_known([known])
    rng = random.Random(0)
    like = [names.like("Chogori", "mountain", rng) for _ in range(200)]
    assert sum(name in known.mistaken for name in like) > 100 and not {*like} & {"Chogori", *known.aliases}
    aliases = [names.alias("Chogori", "mountain", rng) for _ in range(200)]
    assert sum(name in known.aliases for name in aliases) > 100 and not {*aliases} & {*known.mistaken}
    assert "Chogori" in {names.subject("mountain", rng) for _ in range(100)}


def test_names_in_letters_that_the_encoders_do_not_read_are_left_out(tmp_path):
    row = {"kind": "tsar", "name": "Ivan IV", "aliases": ["Иван Грозный", "Ivan Grozný"], "not": ["Ivan V"]}
    path = tmp_path / "names.json"
    path.write_text(json.dumps([row]), encoding="utf-8")
    assert read_known_names(path) == [KnownName("Ivan IV", ("Ivan Grozný",), ("Ivan V",))]
    assert not read_known_names(path, without=lambda name: name == "Ivan Grozný")


def test_a_known_name_that_is_and_is_not_another_is_refused(tmp_path):
    path = tmp_path / "names.json"
    path.write_text(json.dumps([{"kind": "peak", "name": "K2", "aliases": ["Chogori"], "not": ["Chogori"]}]))
    with pytest.raises(ValueError, match="'Chogori' is and is not another name of 'K2'"):
        read_known_names(path)
