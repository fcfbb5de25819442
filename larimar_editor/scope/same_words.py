"""Whether a question is the written statement turned round, word for word: "The backup is copied to" and
"Where is the backup copied to?", "On Sundays Ada rose at" and "When did Ada rise on Sundays?", "The ring was
forged by" and "Who forged the ring?"

An encoder of meanings is sure of such a question where the relation is a usual one, and unsure where it is
not. What question word stands in the place of the answer is told from the answer: "Where was the firm
founded?" does not ask for 1932.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from larimar_editor.scope.clauses import WHETHER, Clause, readings, with_adverbial_behind
from larimar_editor.scope.question_words import fits_the_answer, says_who_or_what
from larimar_editor.scope.verbs import PARTICIPLES, is_form_of
from larimar_editor.utils.text import plain_letters

# Signs that are more than punctuation, or are where they stand: "[]", "7 % 2", "\\d", "-3", ":w", "__init__",
# "a[0]".
_TELLING = re.compile(
    r"(?<!\S)(?![-–—.…]+(?!\S))[^\w\s]+(?!\S)|[*/%&@\\^]|#(?!\d)|"
    r"(?<![^\s(\[{=\"'“‘])(?:--?|[!:;.,?])(?=\w)|(?<=\d)\s-\s(?=\d)|"
    r"(?<!\w)_+(?=[^\W_])|(?<=[^\W_])_+(?!\w)|(?<=\w)[(\[{]"
)
_EMPHASISED = re.compile(r"(\*{1,3})(\w(?:[^*]{0,200}[^\s*])?)\1")
# What ends a sentence; of "$!?" the last mark, and of "$?" hardly a mark at all.
_LAST_MARKS = re.compile(r"(?<=[\w\s\"'”’)])[.?!…？！。]+$|[.?!…？！。]$")
_AFTER_THE_END = re.compile(r"(?<=[.?!…？！。])\s[^\w*.?!…？！。]*$")  # "... of Peru? 🙂"
_LIST_MARKS = re.compile(r"^(?:[-#*>]+\s+)+")
_SHORT = re.compile(r"(?<![\w'’-])[^\W\d_]{1,2}(?![\w'’-])")
_IN_LITTLE = frozenset(  # English, in whatever case
    "a i an am as at be by do go he hi if in is it me my no of oh ok on or so to up us we".split()
)
_OPTION = re.compile(r"(?<!\S)[-\\][A-Za-z]\b")  # "-r" and "-R", "\\d" and "\\D"


def asks_in_its_words(prompt: str, query: str, target: str | None) -> bool | None:
    """Whether a query is a written prompt turned round, word for word.

    Args:
        prompt: what was written, a statement that the answer completes or a question.
        query: one sentence.
        target: the fact's answer, by which a question word is judged; None where it is not known.

    Returns:
        True where it is; False where its words are the prompt's and its question word asks for another kind
        of answer, as "where" for a year; None where it has other words, or nothing is plain.
    """
    prompt, query = (_AFTER_THE_END.sub("", text) for text in (prompt, query))
    answer = target.strip() if target else None
    verdicts = {_verdict(ours, theirs, answer) for ours in readings(prompt) for theirs in readings(query)}
    verdicts -= {None}
    if True in verdicts and _told_apart_by_signs(prompt, query):
        return None
    return None if not verdicts else True in verdicts


def _told_apart_by_signs(one: str, other: str) -> bool:
    """Whether signs, or the case of small words, tell two texts apart whose words are the same: "7 // 2" and
    "7 % 2", "-r" and "-R", "CO" and "Co". Who types no capitals says nothing by it.
    """
    one, other = (_without_marks(text) for text in (one, other))
    ours, theirs = (sorted(found.strip() for found in _TELLING.findall(text)) for text in (one, other))
    if ours != theirs or {*_OPTION.findall(one)} != {*_OPTION.findall(other)}:
        return True
    if one.isupper() or other.isupper():
        return False
    short, its = (
        {word.lower(): word for word in _SHORT.findall(text) if not word.islower()} for text in (one, other)
    )
    return any(short[word] != its[word] for word in short.keys() & its.keys() - _IN_LITTLE)


def _without_marks(text: str) -> str:
    """Without those of lists, of emphasis and code, and of the end."""
    plain = _LIST_MARKS.sub("", plain_letters(text)).replace("`", "")
    return _LAST_MARKS.sub("", _EMPHASISED.sub(r"\2", plain))


def _verdict(ours: Clause, theirs: Clause, target: str | None) -> bool | None:
    if (ours.word and theirs.word) or WHETHER in (ours.word, theirs.word):
        return True if ours == theirs else None
    if not ours.word and not theirs.word:
        if ours.foreign and theirs.foreign:
            return None
        return True if ours.last == theirs.last and _same(ours, theirs) else None
    statement, question = (theirs, ours) if ours.word else (ours, theirs)
    if _names_it_behind(statement, question):
        return True
    if _by_whom(statement, question) or _whom(statement, question):
        return says_who_or_what(statement, question, target)
    return fits_the_answer(statement, question, target) if _same(statement, question) else None


def _names_it_behind(statement: Clause, question: Clause) -> bool:
    """As "listens on port" does what "which port does it listen on?" asks for."""
    if question.word != "what" or not (question.kind and question.tenses) or statement.last:
        return False  # of "what opens the key" no word is a kind
    behind = tuple(filter(None, (*question.content, question.last))) + question.kind
    return _are(statement.content, behind, question.support) and _in_one_tense(statement, question)


def _by_whom(statement: Clause, question: Clause) -> bool:
    """As "it was forged by" and "who forged it?"."""
    asked = question.word in ("who", "what") and not (question.tenses or question.last)
    if not asked or not question.content or statement.last != "by" or statement.tenses != {"past"}:
        return False
    verb, *rest = question.content
    return _has_with(statement.content, PARTICIPLES.get(verb, verb), rest)


def _whom(statement: Clause, question: Clause) -> bool:
    """As "she betrayed" and "who was betrayed by her?"."""
    asked = question.word in ("who", "what") and not (question.kind or question.last)
    if not asked or question.tenses != {"past"} or statement.last or statement.tenses:
        return False
    verb, *rest = question.content
    return rest[:1] == ["by"] and any(
        _has_with(order, past, rest[1:])
        for order in (statement.content, *with_adverbial_behind(statement.content))
        for past in (verb, *(past for past, participle in PARTICIPLES.items() if participle == verb))
    )


def _has_with(words: Sequence[str], verb: str, rest: Sequence[str]) -> bool:
    """Whether the words are the others with the verb among them, behind one at least."""
    return any(
        [*words[:place], *words[place + 1 :]] == list(rest)
        for place, word in enumerate(words)
        if place and word == verb
    )


def _same(one: Clause, other: Clause) -> bool:
    """Whether the words are the same, up to an adverbial that stands before or behind."""
    if len(one.content) != len(other.content):
        return False
    support = one.support or other.support
    by_form = bool(one.support) != bool(other.support) and not _have(one, other)
    orders = [one.content, *with_adverbial_behind(one.content)]
    others = [other.content, *with_adverbial_behind(other.content)]
    return _in_one_tense(one, other) and any(
        _are(mine, its, support, by_form) or (one.support and _are(its, mine, support, by_form))
        for mine in orders
        for its in others
    )


def _in_one_tense(one: Clause, other: Clause) -> bool:
    if not one.tenses or not other.tenses:  # a verb by itself; its form is compared
        return bool(one.support or other.support) or one.tenses == other.tenses
    if bool(one.support) != bool(other.support) and not _have(one, other):
        return False  # "the server is" does not say what it does
    return one.tenses == other.tenses


def _have(one: Clause, other: Clause) -> bool:
    """Whether "has", "had" or "does have" is in one of them."""
    return not (one.tenses | other.tenses).isdisjoint(("has", "had"))


def _are(said: Sequence[str], asked: Sequence[str], support: str, by_form: bool = False) -> bool:
    """Whether two runs of words are one, but for the verb that "do" takes the form of; which there has to be
    one of ``by_form``: of "my parents live in" nobody asks where they did live.
    """
    if len(said) != len(asked) or not said:
        return False
    differing = [pair for pair in zip(said, asked) if pair[0] != pair[1]]
    if not differing:
        return not by_form or support == "do" or any(is_form_of(word, word, support) for word in said)
    return bool(support) and len(differing) == 1 and is_form_of(*differing[0], support)
