"""Who or what a question is about where only a pronoun says it: "And where did she die?", in a chat in which
"When was Marie Curie born?" was asked before.

A detector finds such a question as near to a fact about anybody else: of "Where was she born?" it cannot see
that nobody is named. So it is read with the name where there is little doubt of it, which is where what was
asked before had one name, as its subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from larimar_editor.scope.small_words import OPENERS, PARTICLES
from larimar_editor.utils.sentences import sentences

_AUXILIARIES = "is was are were does do did has have had will would can could may might must should shall"
_AUXILIARY = rf"(?:{_AUXILIARIES.replace(' ', '|')})"
_ASKING = (
    r"(?:(?:in|on|at|to|from|for|by|of|with|until|since|under)\s+)?"
    r"(?:who|whom|what|which|where|when|why|how)\b"
)
_HEAD = r"\W*(?:(?:and|but|so|ok|okay|then|now|also|well|great|thanks|thank\s+you|please)\b\W*)*"
_OPENING = re.compile(rf"^{_HEAD}", re.IGNORECASE)
# "They" may be people in general: "where do they eat haggis".
_THEY = r"they(?=\s+[a-z]+(?:\s+(?:at|by|for|from|in|of|on|to|with))?\W*$)"
_BY_A_PRONOUN = [
    re.compile(_HEAD + pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:{_ASKING}(?:\s+[a-z-]+){{0,3}}?(?:\s+{_AUXILIARY}|['’]s)|{_AUXILIARY})(?:n['’]t)?"
        rf"\s+(he|she|it|his|her|its|their|{_THEY})\b",
        rf"(he|she|it|his|her|its|their|{_THEY})\b",
        rf"{_ASKING}(?:\s+[a-z-]+){{1,3}}\s+(him|her|it|them)\b(?=\W*$)",
    )
]
# "What is it that ...", "How long does it take ...", "Is it true that ...", "Her Majesty"; "What time is it?"
_OF_NOTHING = re.compile(r"\s+(?:that|takes?|took|true|possible|time|majesty|highness)\b", re.IGNORECASE)
_TIME_OF_DAY = re.compile(r"\btime\s+(?:is|was)\s+it\b", re.IGNORECASE)
_OWNING = {"his": "he", "her": "she", "its": "it", "their": "they"}
_ONE = {"him": "he", "them": "they", **_OWNING}
_WORD = re.compile(r"[^\W_]+(?:[-'’.&][^\W_]+)*")
_CONTRACTED = re.compile(r"['’](?:s|re|d|ll|ve|m)$")
_DETERMINERS = frozenset("the my our your a an".split())
_VERBS = frozenset(_AUXILIARIES.split())
_BEFORE_A_SUBJECT = _VERBS | {"about"}
_NO_NOUN = frozenset(
    f"{_AUXILIARIES} who whom what which where when why how that this i me you we and".split()
)
_NO_NAMES = OPENERS | _NO_NOUN | _ONE.keys() | frozenset(_ONE.values())
_BEFORE_A_VERB = frozenset("do does did will would can could may might must should shall".split())
_PREPOSITIONS = frozenset("about at behind by for from in near of on over since to under until with".split())
_IN = frozenset("in at on during since".split())  # what is behind them is seldom what a question is about
_JOINTS = PARTICLES | {"of", "the"}
_SHORT = 8  # words; a longer question has room for what it is about: "How hot does it get before tin melts?"
_FEW = 3  # words of a courtesy, as "Thanks a lot!"
_FAR = 4  # words between an article and the name that ends its phrase: "the night ferry to Askerholm"
_OWNED = re.compile(r"\b(?:his|her|its|their)\b", re.IGNORECASE)
_NEVER = re.compile(r"(?!)")
# Where what was asked for may be meant: "Who wrote Hamlet?", not "Who was Hamlet?"; "What did Jobs found?"
_WHO = re.compile(
    rf"\bwhom?\b(?!(?:['’]s|\s+{_AUXILIARY})\s+(?:the\s|[A-Z]\S+\W*$|[A-Z]\S+\s+[A-Z]\S+\W*$))", re.IGNORECASE
)
_WHAT = re.compile(
    r"\b(?:what|which)\b.*\b(?:do|does|did)\b|"
    r"\b(?:born|die[sd]?|lives?|lived|married|study|studied|allergic|dr|mrs?|ms|prof)\b",
    re.IGNORECASE,
)
_MAY_BE_ANOTHER = {"he": _WHO, "she": _WHO, "it": _WHAT}


def is_about_a_pronoun(question: str) -> bool:
    """Whether a short sentence is about what a pronoun of the third person stands for, and names nothing:
    "When was she born?", "Its capital is", but not "Is it true that Ada rose at six?"
    """
    return _pronoun_of(question) is not None


def said_in_full(asked: str, before: Iterable[str]) -> str:
    """What a user asks, with what the pronoun in its last sentence stands for: "And where did Marie Curie
    die?" Unchanged where that sentence is not about a pronoun, where it stands behind one that may name
    something, or where what he asked last, courtesies and questions about the same pronoun aside, does not
    have one name as its subject; a name that is all in small letters is not seen.

    Args:
        asked: what the user says now.
        before: what he said before, the latest first.
    """
    *others, question = sentences(asked)
    found = _pronoun_of(question)
    if found is None or not is_without_names(others):
        return asked
    subject = _named_before(_one_of(found), before)
    if subject is None:
        return asked
    pronoun = found[1].lower()
    owning = pronoun in _OWNING and not (pronoun == "her" and found.end(1) == len(question.rstrip(" ?.!")))
    own = ("'" if subject.endswith("s") else "'s") if owning else ""
    start, end = found.span(1)
    return " ".join([*others, question[:start] + subject + own + question[end:]])


def is_without_names(said: Iterable[str]) -> bool:
    """Whether sentences say too little to name anything, as "Thanks a lot!" """
    return all(
        len(words := _WORD.findall(part)) <= _FEW
        and not any(map(_may_be_a_name, words[1:]))
        and _subject(part) is None
        for part in said
    )


def _pronoun_of(question: str) -> re.Match | None:
    found = next(filter(None, (pattern.match(question) for pattern in _BY_A_PRONOUN)), None)
    if found is None or _OF_NOTHING.match(question, found.end()) or _TIME_OF_DAY.search(question):
        return None
    words = _WORD.findall(_OPENING.sub("", question))
    # "Who directed Her?"
    titled = not (found[1].islower() or question.isupper() or words[0].startswith(found[1]))
    return None if titled or len(words) > _SHORT or any(map(_may_be_a_name, words[1:])) else found


def _one_of(found: re.Match) -> str:
    """ "he" of "him" and "his", and so on."""
    pronoun = found[1].lower()
    return _ONE.get(pronoun, pronoun)


def _may_be_a_name(word: str) -> bool:
    bare = _CONTRACTED.sub("", word).casefold()
    return (word[0].isupper() or word[0].isdigit()) and bare not in _NO_NAMES


def _named_before(pronoun: str, before: Iterable[str]) -> str | None:
    """What the user last asked about, as far as "he", "she", "it" or "they" may mean it."""
    for said in before:
        parts = sentences(said)
        while len(parts) > 1 and any(part.endswith("?") for part in parts[:-1]) and parts[-1][-1] != "?":
            parts.pop()  # "Answer in English."
        last, also = parts[-1], _pronoun_of(parts[-1])
        about_it_too = also is not None and _one_of(also) == pronoun
        named_another = _OWNED.search(last) is not None  # "And its capital?"
        person = pronoun in ("he", "she")
        if (about_it_too and (person or not named_another)) or (
            is_without_names(parts) and not named_another
        ):
            continue
        subject = None if _MAY_BE_ANOTHER.get(pronoun, _NEVER).search(last) else _subject(last)
        return None if subject and pronoun == "they" and not _is_of_many(subject) else subject
    return None


def _is_of_many(name: str) -> bool:
    return name.endswith("s") or "&" in name


def _subject(sentence: str) -> str | None:
    """What a sentence is about: its one name, with its article, where it stands behind "is" or "about" or
    begins the sentence.
    """
    words = list(_WORD.finditer(sentence))
    plain = [_CONTRACTED.sub("", word[0]) for word in words]
    names = [at for at, word in enumerate(plain) if _may_be_a_name(word)]
    for begin, word in enumerate(plain):
        if begin and not _is_before_a_subject(words[begin - 1][0]):
            continue
        first = _name_of_phrase(plain, names, begin)
        last = _end_of_name(sentence, words, names, first)
        owns = last is not None and plain[last] != words[last][0]  # "Marie Curie's husband"
        if last is None or owns or (last == 0 and not _is_followed_by_is(plain)):
            continue
        others = [at for at in names if at and not first <= at <= last and plain[at - 1].lower() not in _IN]
        if others or (begin == first - 1 and _is_cut(plain, begin, last)):
            return None
        opening = word if first == begin else word.lower()
        return opening + sentence[words[begin].end() : words[last].end()]
    return None


def _is_before_a_subject(word: str) -> bool:
    return word.lower() in _BEFORE_A_SUBJECT or _CONTRACTED.search(word) is not None


def _is_followed_by_is(words: Sequence[str]) -> bool:
    """Whether a first word is the subject: every sentence begins with a capital, as "Thanks for that"."""
    return len(words) > 1 and words[1].lower() in _VERBS


def _name_of_phrase(words: Sequence[str], names: Sequence[int], begin: int) -> int:
    """Where the name begins that a phrase ends in, as "the night ferry to Askerholm"; the phrase's own
    beginning where it has no article.
    """
    if words[begin].lower() not in _DETERMINERS:
        return begin
    first = next((at for at in range(begin + 1, begin + 2 + _FAR) if at in names), begin)
    between = {word.lower() for word in words[begin + 1 : first]}
    return begin if between & (_NO_NOUN | _DETERMINERS) else first


def _is_cut(words: Sequence[str], article: int, last: int) -> bool:
    """Whether a noun may follow that belongs to the name, as in "Who is the German chancellor?" """
    behind = words[last + 1] if last + 1 < len(words) else ""
    verb = article > 0 and words[article - 1].lower() in _BEFORE_A_VERB
    return behind.islower() and not (verb or behind in _NO_NOUN or behind in _PREPOSITIONS)


def _end_of_name(sentence: str, words: Sequence[re.Match], names: Sequence[int], first: int) -> int | None:
    """The last word of a name: of "Statue of Liberty", of "Orrery 3.2"."""
    if first not in names or not words[first][0][0].isupper():
        return None
    last = first
    for at in range(first + 1, len(words)):
        gap = sentence[words[at - 1].end() : words[at].start()]
        if re.search(r"[^\s&.]", gap) or ("." in gap and len(words[at - 1][0]) > 3):
            break
        if at in names:
            last = at
        elif words[at][0].lower() not in _JOINTS or at - last > 2:
            break
    return last
