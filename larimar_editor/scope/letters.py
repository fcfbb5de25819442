"""What the letters alone say of a query: other numbers or other initials than the written prompt's, a word
that excludes one of its words, the other side of what it asks, or its answer set aside.

An encoder of meanings finds "the 1936 Summer Olympics" and "the 1932 Summer Olympics", "code 33-B" and "code
32-B", or "the CEO" and "the CTO", nearly the same. None of this is a matter of degree, and no candidate of
which it is plain needs a closer look.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Set
from functools import lru_cache

from larimar_editor.scope.contrasts import in_contrast
from larimar_editor.scope.initials import other_initials
from larimar_editor.scope.roles import asks_for_the_other_side
from larimar_editor.scope.units import UNITS
from larimar_editor.scope.verbs import COPULAS
from larimar_editor.scope.words import ARTICLES, COURTEOUSLY, MONTHS, NUMBERS, QUESTION_WORDS, SCALES, any_of
from larimar_editor.utils.text import plain_letters

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
# Of thousands, and as in India.
_IN_GROUPS = re.compile(r"(?<!\d)(?<!\d,)(?:\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d\d)*,\d{3})(?!,?\d)")
_SPACED = re.compile(r"(?<![\d.,])\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?![\d.,]*\d)")  # 10 000
_JOINT = re.compile(r"(?<=\d)(?:[.,:–-]|\s(?:to|by|x)\s)(?=\d)")
_BESIDE = re.compile(r"(?<=\d):(?=\d{3})")  # "10.0.0.5:8080", "ISO 9001:2015"
_OF_SECTION = re.compile(r"(?<![\d.,:])(\d{1,2})\.(\d{1,2})(?![\d,:]|\.\d)")
# "(?a:" keeps a letter like "ı" from passing for one of a name that is looked up.
_NAMED_DAY = re.compile(  # "15 March", "the 15th of March"; "March 15", "March the 15th"
    rf"\b(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month>(?a:{any_of(MONTHS)}))|"
    rf"(?P<month_first>(?a:{any_of(MONTHS)}))\s+(?:the\s+)?(?P<then_day>\d{{1,2}})(?:st|nd|rd|th)?)\b(?![.:]?\d)",
    re.IGNORECASE,
)
_NUMBERED_DAY = re.compile(r"(?<![\d./:-])(\d{1,2})([./])(\d{1,2})(?:\.(?!\d)|(?![\d./:]))")
_MEASURED = re.compile(
    rf"(?<![\d.,:])(\d+(?:[.,:]\d+)*)[\s-]?((?a:{'|'.join(sorted(UNITS, key=len, reverse=True))}))(?:e?s)?\b",
    re.IGNORECASE,
)
_JOINED = re.compile(r"(?<![\w.,])\(?\d+(?:\)?[ ./–-]{1,2}\(?\d+)+(?!\w)")
_DATE_OR_ADDRESS = re.compile(r"\d{1,4}([./–-])\d{1,2}\1\d{1,4}|\d{1,3}(?:\.\d{1,3}){3}")
_DATE = re.compile(
    r"(?<![\d./–-])(?:\d{1,2}([./–-])\d{1,2}\1\d{4}|\d{4}([./–-])\d{1,2}\2\d{1,2})(?![./–-]?\d)"
)
_IN_POINTS = re.compile(r"(?<![\d.,:])\d{1,3}(?:\.\d{3})+(?![.,:]?\d)")  # 1.000 euros
_FRACTION = re.compile(r"(?<![\d./:-])(?:(\d{1,3})\s)?(\d)/([1-9]\d?)(?![./:-]?\d)")
_ZEROS_OF = SCALES | {"k": 3, "m": 6, "mn": 6, "b": 9, "bn": 9}
_SCALED = re.compile(  # "1.5 million", "1.5M"
    rf"(?<![\d.,])(\d+(?:\.\d+)?)(?:\s((?a:{any_of(SCALES)}))|((?a:{any_of(_ZEROS_OF)})))\b", re.IGNORECASE
)
_LONG = 5  # digits from which a number may be a phone's or an order's, which are grouped in many ways
_ON_THE_CLOCK = re.compile(  # "half past 9", "a quarter to 10", "2 o'clock"
    r"\b(?:(half\s+past|quarter\s+(?:past|to))\s+(\d{1,2})|(\d{1,2})\s+o['’]clock)\b", re.IGNORECASE
)
_WITH_H = re.compile(r"(?<![\w.:])(\d{1,2})h([0-5]\d)\b", re.IGNORECASE)  # 14h30
_HALF_DAY = re.compile(r"(?<![\w.:])(\d{1,2})(?:[:.](\d\d))?\s?([ap])\.?m\b\.?", re.IGNORECASE)
_ZEROS = re.compile(r"(?:[.:]0+)+$")  # 9:00, 5.00, 2.0.0
_DIGIT = re.compile(r"(?![0-9])\d")
_YEAR = re.compile(r"1[1-9]\d\d|20\d\d")  # 1024 is more often a number
# Up to 39, which kings and wars do not exceed; of one letter only behind a name ("Charles V"), as "I" is
# a word and "X" may stand for anybody.
_ROMAN = re.compile(r"(?<![\w'’.-])(?=[IVX])(X{0,3})(IX|IV|V?I{0,3})(?![\w'’-])")
_BEHIND_A_NAME = re.compile(r"\S\s+[A-Z][^\W\d_]*[a-z]\s+$")
_FAR = 60  # characters before a numeral in which a name ends
_UNITS = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
_WORDS = (
    {word: str(value) for word, value in NUMBERS.items()}
    | {word: str(place) for place, word in enumerate(_ORDINALS.split(), 1)}
    | {"dozen": "12", "hundredth": "100"}
)
_SET_ASIDE = (
    r"(?:\b(?:not|never|no longer|besides|beside|apart from|aside from|other than|except|excluding|"
    r"instead of|rather than|without|unlike)|n['’]t)[\s,]+(?:[\w'’-]+\s+){0,3}"
)
# "Was" is "what" in German: "Was ist die Hauptstadt von Peru?"
_IN_ENGLISH = r"(?=.*\b(?:the|a|of|to|from|with|at|on|by|for|his|its|their|born)\b)"
# "Does Brill have a mayor?", but not "Is it tea or coffee?", "Did she say which?", "Has anybody the key?"
_YES_OR_NO = re.compile(
    rf"{COURTEOUSLY}(?:does|did|is|was{_IN_ENGLISH}|are|were|has)(?:n['’]?t)?\s+"
    r"(?!(?:any(?:body|one)?|every(?:body|one)|i|it|one|some(?:body|one)|that|there|this|us|we|you)\b)"
    rf"(?!.*\b(?:or|whether|whose|says?|said|tells?|told|lists?|listed|mention(?:s|ed)?|knows?|known|set|given|"
    rf"{any_of(QUESTION_WORDS)})\b).*\?\W*",
    re.IGNORECASE | re.DOTALL,
)
_SAID_SO = re.compile(r"\W*(?:yes|no|true|false|not)\b", re.IGNORECASE)
_ARTICLE = re.compile(rf"^{any_of(ARTICLES)}\s+", re.IGNORECASE)


def asks_something_else(prompt: str, query: str, target: str | None = None, read: str | None = None) -> bool:
    """Whether it is plain from the letters that a query does not ask what a written prompt asks.

    It is where each of the two names a number that the other lacks, in digits or as a king has it; but not
    where they are one measure in two units, where one names years and the other small numbers, nor where only
    one names any. So it is where each has initials that the other lacks, and these differ in one letter:
    "CEO" and "CTO"; or words that exclude each other: "the western terminus" and "the eastern terminus"; or
    where they ask for the two sides of one deed (`larimar_editor.scope.roles`). And it is where the query
    sets the fact's answer aside: "..., which is not T, is", "Besides T, who ..."; or is answered with yes or
    no, and the prompt is not.

    Args:
        prompt: the written prompt.
        query: a sentence of a query.
        target: the fact's answer, where it is known.
        read: the query with things called as the prompt calls them, where that is something else: a name may
            have a number and another of the same thing none.
    """
    named = query if read is None else read
    aside = target is not None and _set_aside(prompt, query, target)
    return (
        aside
        or _other_numbers(prompt, named)
        or other_initials(prompt, named)
        or in_contrast(prompt, named)
        or _asks_only_whether(prompt, query, target)
        or asks_for_the_other_side(prompt, named)
    )


def _asks_only_whether(prompt: str, query: str, target: str | None) -> bool:
    if target is not None and (_SAID_SO.match(target) or _says_how_it_is(prompt, target)):
        return False
    return _YES_OR_NO.fullmatch(query) is not None and _YES_OR_NO.fullmatch(prompt) is None


def _says_how_it_is(prompt: str, target: str) -> bool:
    """As "the bakery is" closed, which says whether it is open, too."""
    return target.lstrip()[:1].islower() and prompt.rstrip().rpartition(" ")[2].lower() in COPULAS


def _other_numbers(prompt: str, query: str) -> bool:
    """In whichever way digits are grouped."""
    if not (_numbers(prompt) and _numbers(query)):
        return False
    if _HALF_DAY.search(prompt) and _HALF_DAY.search(query):
        prompt, query = (_HALF_DAY.sub(_of_the_day, text) for text in (prompt, query))
    ours, theirs = _readings(prompt), _readings(query)
    if _forms_of_dates(prompt) != _forms_of_dates(query):  # "1.11.2020" and "1 November 2020"
        ours, theirs = ours | {_with_dates(prompt, " ")}, theirs | {_with_dates(query, " ")}
    if bool(_NAMED_DAY.search(prompt)) != bool(_NAMED_DAY.search(query)):  # "15.03." and "15 March"
        ours, theirs = ours | {_with_days(prompt)}, theirs | {_with_days(query)}
    if bool(_OF_SECTION.search(prompt)) != bool(_OF_SECTION.search(query)):  # "4.2" and "paragraph 2 of 4"
        ours, theirs = ours | {_in_sections(prompt, query)}, theirs | {_in_sections(query, prompt)}
    if bool(_FRACTION.search(prompt)) != bool(_FRACTION.search(query)):  # "1/2 l" and "0.5 l"
        ours, theirs = (
            found | {_FRACTION.sub(_as_decimal, text)} for found, text in ((ours, prompt), (theirs, query))
        )
    return all(_differ(*pair) for pair in itertools.product(ours, theirs))


def _readings(text: str) -> set[str]:
    plain = _DIGIT.sub(lambda digit: str(unicodedata.digit(digit[0])), text)
    return {
        reading
        for told in {plain, _with_clock(plain, 0), _with_clock(plain, 720)}
        for each in {told, _HALF_DAY.sub(_of_the_day, told)}  # "3 pm" and "15:00"
        for reading in (
            each,
            _SPACED.sub(lambda number: re.sub(r"\s", "", number[0]), each),
            _JOINT.sub(".", each),  # "9:05" and "9.05", "2-1" and "2:1", "16 by 9" and "16:9"
            _BESIDE.sub(" ", each),
            _WITH_H.sub(r"\1:\2", each),
            _IN_POINTS.sub(lambda number: number[0].replace(".", ""), each),
            _JOINED.sub(_as_code, each),  # "555-1234" and "5551234"
            _SCALED.sub(_written_out, each),  # "1.5 million" and "1500000"
            _with_dates(each, "."),  # "11/1/2020" and "11.1.2020"
        )
    }


def _written_out(found: re.Match) -> str:
    whole, _, part = found[1].partition(".")
    zeros = _ZEROS_OF[(found[2] or found[3]).lower()]
    return whole + part.ljust(zeros, "0") if len(part) <= zeros else found[0]


def _with_dates(text: str, joint: str) -> str:
    """The text with this between the numbers of its dates."""
    return _DATE.sub(lambda date: re.sub(r"\D", joint, date[0]), text)


def _forms_of_dates(text: str) -> set[tuple[str | None, bool]]:
    """What joins the numbers of its dates, and whether the year comes first."""
    return {(found[1] or found[2], bool(found[2])) for found in _DATE.finditer(text)}


def _with_days(text: str) -> str:
    """The text with days of a month as numbers: "15.3" for "15 March", "March 15th", "15.03." and "3/15"."""

    def numbered(found: re.Match) -> str:
        one, other = int(found[1]), int(found[3])
        return f"{other}.{one}" if other > 12 else f"{one}.{other}"

    def named(found: re.Match) -> str:
        day, month = found["day"] or found["then_day"], found["month"] or found["month_first"]
        return f"{int(day)}.{MONTHS.index(month.lower()) + 1}"

    return _NAMED_DAY.sub(named, _NUMBERED_DAY.sub(numbered, text))


def _in_sections(text: str, other: str) -> str:
    """The text with section and paragraph apart, where the other names both."""
    both = _numbers(_JOINED.sub(" ", other))
    apart = lambda found: f"{found[1]} {found[2]}" if {found[1], found[2]} <= both else found[0]
    return _OF_SECTION.sub(apart, text)


def _as_code(found: re.Match) -> str:
    digits = re.sub(r"\D", "", found[0])
    whole = len(digits) < _LONG or _DATE_OR_ADDRESS.fullmatch(found[0])
    return found[0] if whole else digits


def _as_decimal(found: re.Match) -> str:
    return f"{int(found[1] or 0) + int(found[2]) / int(found[3]):g}"


def _with_clock(text: str, later: int) -> str:
    """The text with what a clock face shows in digits, so many minutes later: "9:30" for "half past 9"."""

    def in_digits(found: re.Match) -> str:
        way = (found[1] or "").lower()
        past = 30 if way.startswith("half") else 15 if way else 0
        minutes = (60 * int(found[2] or found[3]) + (-past if way.endswith("to") else past)) % 720 + later
        return f"{minutes // 60}:{minutes % 60:02}"

    return _ON_THE_CLOCK.sub(in_digits, text)


def _of_the_day(found: re.Match) -> str:
    hour = int(found[1]) % 12 + 12 * (found[3].lower() == "p")
    return f"{hour}:{found[2] or '00'}"


def _differ(prompt: str, query: str) -> bool:
    """Whether each has a number that the other lacks, and not the one only years and the other small ones:
    "the Z3" may be "the relay machine of 1941".
    """
    ours, theirs = _numbers(prompt), _numbers(query)
    if not (ours and theirs):
        return False
    of_prompt, of_query = _lacking(ours, theirs, query), _lacking(theirs, ours, prompt)
    if not (of_prompt and of_query):
        return False
    if _same_in_other_units(prompt, of_prompt, query, of_query):
        return False
    year_and_number = _are_years(of_prompt) and _are_small(of_query, query)
    number_and_year = _are_years(of_query) and _are_small(of_prompt, prompt)
    return not (year_and_number or number_and_year)


def _same_in_other_units(prompt: str, ours: Set[str], query: str, theirs: Set[str]) -> bool:
    """Whether these numbers are the same measures in other units: "1 year" and "12 months"."""
    mine, its = _measures(prompt), _measures(query)
    return all(
        any(_is_near(*one, *other) for one in mine.get(number, ()) for other in its.get(another, ()))
        for number in ours
        for another in theirs
    )


def _is_near(dimension: str, value: float, its_dimension: str, its_value: float) -> bool:
    return dimension == its_dimension and abs(value - its_value) <= 0.02 * max(value, its_value)


@lru_cache(maxsize=4096)
def _measures(text: str) -> dict[str, list[tuple[str, float]]]:
    found: dict[str, list[tuple[str, float]]] = {}
    for number, unit in _MEASURED.findall(text):
        if number.count(".") <= 1 and re.fullmatch(r"[\d.]+", number):
            dimension, factor = UNITS[unit.lower()]
            found.setdefault(number, []).append((dimension, factor * float(number)))
    return found


def _are_years(numbers: Set[str]) -> bool:
    return all(map(_YEAR.fullmatch, numbers))


def _are_small(numbers: Set[str], text: str) -> bool:
    """Of up to three digits, and no year in short: '95."""
    return all(
        len(number) < 4 and number.isdigit() and not re.search(rf"['’]{number}\b", text) for number in numbers
    )


def _lacking(numbers: Set[str], others: Set[str], text: str) -> Set[str]:
    """Those of the numbers that are none of the others, nor in the text as a word, nor a year in short."""
    spelled = {_WORDS[word] for word in re.findall(r"[a-z]+", text.lower()) if word in _WORDS}
    return {
        number
        for number in numbers
        if number not in spelled and not any(_same(number, other) for other in others)
    }


def _same(one: str, other: str) -> bool:
    one, other = (_ZEROS.sub("", each) for each in (one, other))
    if one.lstrip("0") == other.lstrip("0"):
        return True
    short, long = sorted((one, other), key=len)
    return len(short) == 2 and len(long) == 4 and long.endswith(short)  # '95


@lru_cache(maxsize=4096)
def _numbers(text: str) -> frozenset[str]:
    whole = _IN_GROUPS.sub(lambda number: number[0].replace(",", ""), text)
    digits = {found[0] for found in _NUMBER.finditer(whole)}
    roman = {
        str(10 * len(found[1]) + _UNITS.index(found[2]))
        for found in _ROMAN.finditer(text)
        if len(found[0]) > 1 or _BEHIND_A_NAME.search(text[max(0, found.start() - _FAR) : found.start()])
    }
    return frozenset(digits | roman)


def _set_aside(prompt: str, query: str, target: str) -> bool:
    answer = _ARTICLE.sub("", plain_letters(target.strip().rstrip(". ")))
    prompt, query = plain_letters(prompt), plain_letters(query)
    if not answer or answer.lower() not in query.lower():
        return False
    # A blood group of "A" is no article.
    exactly = f"(?-i:{re.escape(answer)})" if len(answer) == 1 else re.escape(answer)
    aside = re.compile(rf"{_SET_ASIDE}{exactly}(?!\w)", re.IGNORECASE)
    return aside.search(query) is not None and aside.search(prompt) is None
