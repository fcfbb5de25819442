"""One name in other letters: from another alphabet by another system, with accents spelled out, by ear."""

from __future__ import annotations

import random
import re
from functools import lru_cache

from larimar_editor.utils.text import plain_letters

# What stands for one sound in names that were taken over from another alphabet or language: what is longer or
# rarer, and what is as well written for it.
_LIKE = (
    "ou u|oo u|ph f|th t|kh h|gh g|sch sh|tsch ch|tch ch|zh j|dj j|w v|x ks|ck k|c k|qu kv|y i|j i|ij i|iy i|"
    "ie i|ee i|ei i|ey i|ai i|ay i|ae a|oe o|ue u|mb nb|mp np"
)
_ALIKE = tuple((one, other) for one, other in (pair.split() for pair in _LIKE.split("|")))
_LONGEST_FIRST = tuple(sorted(_ALIKE, key=lambda pair: -len(pair[0])))
# Of these the other way round too: few would write Fukuda with "oo", or Oleander with "ae".
_BOTH_WAYS = "ou u|ph f|sch sh|w v|x ks|ck k|c k|y i|ij y|iy y|ei ai|ey ei|ay ai|mb nb|mp np"
_CHANGES = (
    *_ALIKE,
    *(tuple(pair.split()[::way]) for pair in _BOTH_WAYS.split("|") for way in (1, -1)),
)
_DOUBLE = re.compile(r"([a-z])\1")
_SINGLE = re.compile(r"(?<=[aeiou])[bdfgklmnprst](?=[aeiou])")
_SPELLED_OUT = str.maketrans(
    dict(zip("äöüåøæßÄÖÜÅØÆ", "ae oe ue aa oe ae ss Ae Oe Ue Aa Oe Ae".split(), strict=True))
)


@lru_cache(maxsize=20_000)
def sound(word: str) -> str:
    """What a word has in common with its other spellings: of Giamarellou and Giamarelou, of Iwanow and
    Ivanov, of Jürg and Juerg. Not to be read: only to be compared.
    """
    word = plain_letters(word).lower()
    for long, short in _LONGEST_FIRST:
        word = word.replace(long, short)
    return re.sub(r"(.)\1+", r"\1", word)


def spelled_out(name: str) -> str:
    """A name with the letters ä, ö, ü, å, ø, æ and ß written as two."""
    return name.translate(_SPELLED_OUT)


def spelled_otherwise(name: str, rng: random.Random) -> str | None:
    """A name as another system, another language or another ear spells it; None where nothing in it is
    spelled in two ways.
    """
    words = name.split()
    order = rng.sample(range(len(words)), len(words))
    for place in order:
        word = words[place]
        made = [other for other in _spellings(word) if other != word and sound(other) == sound(word)]
        if made:
            return " ".join([*words[:place], rng.choice(made), *words[place + 1 :]])
    return None


def _spellings(word: str) -> list[str]:
    # A first letter stays: who types a name by ear has it, mostly.
    if len(word) < 4 or not word.isalpha() or word.isupper():
        return []
    made = [
        word[: found.start()] + new + word[found.end() :]
        for old, new in _CHANGES
        for found in re.finditer(old, word)
        if found.start()
    ]
    made += [word[: found.start()] + word[found.start() + 1 :] for found in _DOUBLE.finditer(word)]
    made += [word[: found.end()] + found[0] + word[found.end() :] for found in _SINGLE.finditer(word)]
    return sorted({*made})
