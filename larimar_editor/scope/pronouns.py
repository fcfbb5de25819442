"""Who or what a question is about where only a pronoun says it: "And where does it leave from?", in a chat in
which "Who is the captain of the night ferry to Askerholm?" was asked before.

A detector finds such a question as near to a fact about anybody else: of "Where was she born?" it cannot see
that nobody is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from larimar_editor.scope.small_words import OPENERS, PARTICLES
from larimar_editor.utils.sentences import sentences

_AUXILIARIES = "is was are were does do did has have had will would can could may might must should shall"
_AUXILIARY = _AUXILIARIES.replace(" ", "|")
_ASKING = (
    r"(?:(?:in|on|at|to|from|for|by|of|with|until|since|under)\s+)?"
    r"(?:who|whom|what|which|where|when|why|how)\b"
)
_HEAD = r"\W*(?:(?:and|but|so|ok|okay|then|now|also|well|great|thanks|thank\s+you|please)\b\W*)*"
# "They" may be people in general: "where do they eat haggis".
_THEY = r"they(?=\s+[a-z]+(?:\s+(?:at|by|for|from|in|of|on|to|with))?\W*$)"
_SUBJECT = rf"(?P<subject>he|she|it|his|her|its|their|{_THEY})\b"
_OBJECT = r"(?P<object>him|her|it|them)\b(?=\W*$)"
_BY_A_PRONOUN = re.compile(
    rf"{_HEAD}(?:"
    rf"(?:{_ASKING}(?:\s+[a-z-]+){{0,3}}?(?:\s+(?:{_AUXILIARY})|['’]s)|(?:{_AUXILIARY}))(?:n['’]t)?\s+{_SUBJECT}"
    rf"|{_SUBJECT.replace('subject', 'first')}"
    rf"|{_ASKING}(?:\s+[a-z-]+){{1,3}}\s+{_OBJECT})",
    re.IGNORECASE,
)
# "What is it that ...", "How long does it take ..."; and "Is it true that ..."
_OF_NOBODY = re.compile(r"\s+(?:that|takes?|took|true|possible|time)\b", re.IGNORECASE)
_TIME_OF_DAY = re.compile(r"\btime\s+(?:is|was)\s+it\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")
_OWN = re.compile(r"['’]s$")
_DETERMINERS = frozenset("the my our your his her their a an this that".split())
_IN = frozenset("in at on during since".split())  # what is behind them is seldom what a question is about
_TO_ANOTHER = frozenset("about by for from in of on to with".split())
_PRONOUNS = frozenset("he she it they his her its their him them".split())
_COURTESIES = frozenset("cool good great hello no nice okay right sorry sure thank thanks yes".split())
_NO_NOUN = frozenset(f"{_AUXILIARIES} who whom what which where when why how i you we".split())
_SHORT = 7  # words; a longer question has room for what it is about: "How hot does it get before tin melts?"
_FEW = 3  # words of a sentence that is a courtesy
_FAR = 5  # words between an article and the name that ends its phrase: "the night ferry to Askerholm"


def is_about_a_pronoun(question: str) -> bool:
    """Whether a short sentence is about what a pronoun of the third person stands for, and names nothing:
    "When was she born?", "Its capital is", but not "Is it true that Ada rose at six?"
    """
    return _pronoun_of(question) is not None


def said_in_full(asked: str, before: Iterable[str]) -> str:
    """What a user asks, with what the pronoun in its last sentence stands for, which is what he named last:
    "And where does the night ferry to Askerholm leave from?" Unchanged where that sentence is not about a
    pronoun, where it stands behind one that names something, or where nothing was named before; a name that
    is all in small letters is not seen.

    Args:
        asked: what the user says now.
        before: what he said before, the latest first.
    """
    *others, question = sentences(asked)
    found = _pronoun_of(question)
    if found is None or not is_without_names(others):
        return asked
    group = next(name for name, said in found.groupdict().items() if said)
    pronoun, (start, end) = found[group].lower(), found.span(group)
    person = not pronoun.startswith(("it", "the"))
    named = (
        topic for said in before for part in reversed(sentences(said)) if (topic := _topic(part, person))
    )
    topic = next(named, None)
    if topic is None:
        return asked
    own = pronoun in ("his", "its", "their") or (pronoun == "her" and group != "object")
    topic += ("'" if topic.endswith("s") else "'s") if own else ""
    return " ".join([*others, question[:start] + topic + question[end:]])


def is_without_names(said: Iterable[str]) -> bool:
    """Whether sentences say too little to name anything, as "Thanks a lot!" """
    return all(len(_WORD.findall(part)) <= _FEW and _topic(part, person=True) is None for part in said)


def _pronoun_of(question: str) -> re.Match | None:
    found = _BY_A_PRONOUN.match(question)
    if found is None or _OF_NOBODY.match(question, found.end()) or _TIME_OF_DAY.search(question):
        return None
    words = _WORD.findall(question)
    return None if len(words) > _SHORT or any(map(_may_be_a_name, words[1:])) else found


def _may_be_a_name(word: str) -> bool:
    return (word[0].isupper() or word[0].isdigit()) and word.casefold() not in OPENERS | _PRONOUNS


def _topic(sentence: str, person: bool) -> str | None:
    """What a sentence is about, as far as it names it: the first name with its article, but what it is in."""
    words = list(_WORD.finditer(sentence))
    runs = _names(sentence, words)
    if not runs:
        return None
    first, last = next(
        (run for run in runs if not run[0] or words[run[0] - 1][0].lower() not in _IN), runs[0]
    )
    begin = _with_article(words, first, person)
    if begin == first - 1 and not person and _ends_a_phrase(sentence, words, last + 1):
        last += 1  # "the Hallgarten office"
    topic = _OWN.sub("", sentence[words[begin].start() : words[last].end()])
    return topic if begin == first else topic[0].lower() + topic[1:]


def _names(sentence: str, words: Sequence[re.Match]) -> list[tuple[int, int]]:
    """First and last word of each name: "Statue of Liberty", "Orrery 3.2"."""
    runs: list[tuple[int, int]] = []
    small = 0  # of "of the", since the last name
    for place, word in enumerate(words):
        if not _is_name(words, place):
            small = small + 1 if word[0] in PARTICLES or word[0] in ("of", "the") else _FAR
            continue
        before = words[runs[-1][1]] if runs else None
        if before and small <= 2 and _goes_on(before[0], sentence[before.end() : word.start()]):
            runs[-1] = runs[-1][0], place
        else:
            runs.append((place, place))
        small = 0
    return [run for run in runs if any(words[at][0][0].isupper() for at in range(run[0], run[1] + 1))]


def _goes_on(word: str, gap: str) -> bool:
    """Whether a name may go on behind one of its words, as behind "Dr."."""
    marks = r"[^\w\s&.]" if len(word) < 4 else r"[^\w\s&]"
    return not (_OWN.search(word) or re.search(marks, gap))


def _is_name(words: Sequence[re.Match], place: int) -> bool:
    if not _may_be_a_name(words[place][0]):
        return False
    if place or _OWN.search(words[place][0]):
        return True
    if words[0][0].lower() in _COURTESIES:
        return False
    # A sentence begins with a capital.
    return len(words) == 1 or _may_be_a_name(words[1][0]) or words[1][0] in _AUXILIARIES.split()


def _with_article(words: Sequence[re.Match], first: int, person: bool) -> int:
    """Where the phrase begins that a name ends, by its nearest article. A person is not what is of him."""
    for place in range(first - 1, max(-1, first - 2 - _FAR), -1):
        word = words[place][0].lower()
        if word in _DETERMINERS:
            return place
        if word in _NO_NOUN or word == "of" or (person and word in _TO_ANOTHER):
            break
    return first


def _ends_a_phrase(sentence: str, words: Sequence[re.Match], place: int) -> bool:
    if place == len(words):
        return False
    word, behind = words[place], sentence[words[place].end() :]
    beside = sentence[words[place - 1].end() : word.start()].isspace()
    return beside and word[0].islower() and word[0] not in _NO_NOUN and not re.match(r"\s*\w", behind)
