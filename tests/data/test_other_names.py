"""The list of other names that is cut out of WordNet."""

import pytest

from larimar_editor.data.other_names import (
    NOT_ONE,
    WORDNET_NAMES,
    groups_that_ship,
    wordnet_groups,
    write_wordnet_names,
)

LICENCE = "  1 You may use it.  \n  2   \n"
MADE = LICENCE + "\n".join(
    [
        "09013074 15 n 02 Lodz 0 Litzmannstadt 0 001 @i 08524735 n 0000 | a city",
        "11314402 18 n 03 Twain 0 Mark_Twain 0 Samuel_Langhorne_Clemens 0 001 @i 1 n 0000 | a writer",
        "02512053 05 n 02 Fundulus 0 genus_Fundulus 0 000 | killifish",
        "13742573 23 n 03 one 0 1 0 I 0 000 | the smallest whole number",
        "08864547 15 n 03 Paris 0 City_of_Light 0 capital_of_France 0 000 | a city",
        "02084071 05 n 02 dog 0 domestic_dog 0 000 | no proper noun",
    ]
) + "\n"  # fmt: skip


def test_proper_nouns_with_other_names_are_cut_out_usual_ones_first(tmp_path):
    (tmp_path / "data.noun").write_text(MADE, encoding="latin-1")
    groups = [
        ("Lodz", "Litzmannstadt"),
        ("Mark Twain", "Twain", "Samuel Langhorne Clemens"),
        ("Paris", "City of Light"),
    ]
    assert list(wordnet_groups(tmp_path / "data.noun")) == groups
    assert write_wordnet_names(tmp_path / "data.noun", tmp_path / "names.txt") == 3
    lines = (tmp_path / "names.txt").read_text().splitlines()
    assert lines[:2] == ["# You may use it.", "#"]
    assert [tuple(line.split("\t")) for line in lines[2:]] == groups


def test_a_file_that_is_none_of_wordnets_is_refused_with_the_line(tmp_path):
    (tmp_path / "data.noun").write_text(LICENCE + "Lodz, Litzmannstadt\n")
    with pytest.raises(ValueError, match="line 3: not a synset"):
        list(wordnet_groups(tmp_path / "data.noun"))


def test_what_ships_has_its_licence_and_names_of_both_lists():
    assert "WordNet" in WORDNET_NAMES.read_text(encoding="utf-8")[:2000]
    groups = groups_that_ship()
    assert len(groups) > 10_000 and all(len(group) > 1 for group in groups)
    assert any({"Bombay", "Mumbai"} <= {*group} for group in groups)


def test_what_is_struck_is_listed_and_no_longer_among_the_names():
    lines = lambda path: [line for line in path.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    listed = [{*line.split("\t")} for line in lines(WORDNET_NAMES)]
    ship = [{*group} for group in groups_that_ship()]
    for line in lines(NOT_ONE):
        usual, *struck = line.split("\t")
        for name in struck:
            assert any({usual, name} <= group for group in listed), (usual, name)
    for one, other in [("Six-Day War", "Arab-Israeli War"), ("television", "video"), ("Europe", "EU")]:
        assert not any({one, other} <= group for group in ship)
