"""Whether an answer says when something is: "in the middle of May", "half past 9", but not "Theresa May".

`YEAR`, `IN_AN_ERA`, `CLOCK`, `UNIT_OF_TIME` and `HOW_OFTEN` are what says when. `PART_OF_TIME`, `PERIOD`,
`NUMBER` and `SHORT_DATE` are what may say when, and may say something else. All are looked for in small
letters, but the last in an answer as it is.
"""

from __future__ import annotations

import re

from larimar_editor.scope.words import FEASTS, MONTHS, NUMBERS, WEEKDAY, any_of

YEAR = r"(?:1\d{3}|20\d\d)"
IN_AN_ERA = r"\d+ (?:bc|ad)"
CLOCK = r"(?:\d{1,2}[:.]\d\d|\d{1,2}\s?[ap]\.?m\b|o['’]clock|noon|midnight|midday)"
UNIT_OF_TIME = r"(?:(?:second|minute|hour|day|week|month|year|decade)s?|centur(?:y|ies))"
HOW_OFTEN = r"(?:(?:bi)?(?:dai|hour|night|week|fortnight|month|quarter|year|annual)ly)"
_MARCH_OR_MAY = any_of(("march", "may"))  # words as well
_OTHER_MONTHS = set(MONTHS) - {"march", "may"}
_TIME = re.compile(
    rf"\b(?:{YEAR}s?|{CLOCK}|{IN_AN_ERA}|{UNIT_OF_TIME}|{HOW_OFTEN}|"
    r"today|tomorrow|yesterday|every|once|twice|"
    rf"{WEEKDAY}s?|{any_of(_OTHER_MONTHS)}|"
    rf"{_MARCH_OR_MAY} \d+|\d+(?:st|nd|rd|th)? {_MARCH_OR_MAY}|"
    rf"{any_of(FEASTS)})\b"
)
# Where they end an answer they are a time: "in the early morning", not "on the night ferry".
PART_OF_TIME = re.compile(
    r"\b(?:spring|summer|autumn|winter|morning|afternoon|evening|night|dawn|dusk|sunrise|sunset|easter|"
    r"christmas|march|may|end|beginning|start|before|after|during|while|when)\b"
)
# They may say when something was, or what it was.
PERIOD = re.compile(
    r"\b(?:wars?|reigns?|eras?|ages?|renaissance|antiquity|dynasty|dynasties|breakfast|lunch|dinner|diwali|holi|eid|"
    r"purim|passover|hanukkah|pentecost|advent|lent|carnival|epiphany|yom kippur|new year|nowruz|xmas|"
    r"mid(?:summer|winter)|(?:sol|equi)\w+|weekdays?|weekends?|(?:morn|even)ings|nights|afternoons|holidays?|"
    r"\w+time|times|periods?|(?:twen|thir|for|fif|six|seven|eigh|nine)ties|jurassic|cretaceous|triassic)\b"
)
SHORT_DATE = re.compile(
    r"\b(?:Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b"
)
_BESIDE_A_TIME = re.compile(
    r"\b(?:in|on|at|of|the|a|an|its|early|late|mid|middle|about|around|circa|ca?|shortly|just|sharp|last|next|this|"
    r"from|to|through|and|until|till|since|between|by|ago|later|past|quarter|turn|per|other|first|third|fourth|"
    r"[ap]\.?m|mornings|afternoons|evenings|nights|weekdays?|weekends?)\b"
)
# Theresa May: no month where a name stands before it.
_NAMED_MAY = re.compile(
    r"\b(?!(?:In|On|By|From|After|Before|During|Around|About|Every|Each|This|Early|Late|Mid|Since|Until|The|Last|"
    r"Next)\b)[A-Z][\w'’-]*\s+(?:May|March)\W*$"
)
# "Ground Zero" is no time.
NUMBER = re.compile(rf"\d|\b(?:{any_of(NUMBERS.keys() - {'zero'})}|half|dozen|never|always)\b")


def names_a_time(target: str) -> bool:
    """Whether an answer has a time in it, alone or among other words: "1932", "1600 Pennsylvania Avenue"."""
    lower = target.lower().rstrip(" .")
    part = list(PART_OF_TIME.finditer(lower))[-1:]
    ends = any(each.end() == len(lower) for each in part) and not _NAMED_MAY.search(target)
    return _TIME.search(lower) is not None or ends


def is_nothing_but_a_time(target: str) -> bool:
    """Whether an answer that `names_a_time` is one: not June Carter, and not "1600 Pennsylvania Avenue"."""
    lower = re.sub(r"(?<=\d)(?:st|nd|rd|th|s)\b", "", target.lower())
    for part in (_TIME, PART_OF_TIME, _BESIDE_A_TIME, NUMBER):
        lower = part.sub(" ", lower)
    return not re.search(r"[^\W\d_]", lower)
