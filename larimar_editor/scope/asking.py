"""Which sentence of a longer query asks: a question, a request, or the one that the text goes on from.

Of a page of running text every sentence is compared with every fact, and one in some hundreds looks as if it
asked for one: "The letter says :", "of the following days." So a sentence that is not the one to be answered
has to be the more like a fact.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from larimar_editor.scope.pronouns import is_about_a_pronoun, is_without_names
from larimar_editor.scope.verbs import AUXILIARIES
from larimar_editor.scope.words import COURTEOUSLY, NUMBERS, QUESTION_WORDS, RELATIVES, any_of
from larimar_editor.utils.sentences import MARKS, is_question, last_question, sentences

NOBODY = (
    50.0  # odds against a question that only a pronoun says the subject of, where nothing says what it means
)
SAID = 20.0  # odds against a sentence that is said, and not asked, before the last
BEFORE = 2  # sentences that a last one which names nothing is read with
FEW = 3  # sentences that may stand before the last for nothing; each further one counts against it
_FIRST = re.compile(r"\W*(?!I\b)([^\W_])")  # letter or digit of a word
# What is told may begin with them, too: "Should it rain, ...".
_SELDOM_ASK = frozenset("have has had should shall must".split())
_REQUEST = re.compile(
    rf"{COURTEOUSLY}(?:"
    rf"{any_of(QUESTION_WORDS | RELATIVES)}|in (?:what|which)|{any_of(AUXILIARIES - _SELDOM_ASK)}|"
    r"tell|name|give|say|state|list|find|remind|complete|finish|continue|fill|guess|identify|describe|"
    r"explain|show|recall|write|look up|search|check|answer|question|q|let me know"
    r")\b",
    re.IGNORECASE,
)
# What is told, though it begins as a request does: "When Ada was a child she lived in Ulm.", "Will Smith was
# born in Ulm.", but not "Where was Lena born." and "Does Ada Lund have a cat."
_NO_REQUEST = re.compile(
    rf"(?i:{COURTEOUSLY})(?:"
    rf"(?i:when|where)\b(?!['’]|\s+(?:exactly\s+|in\s+\w+\s+)?(?i:{any_of(AUXILIARIES)})\b)|"
    rf"(?!(?i:{any_of(QUESTION_WORDS)})\b)[A-Z][a-z]+(?:\s+[A-Z][\w.-]*)+\s+"
    rf"{any_of(AUXILIARIES - {'do', 'have'})}\b"
    r")"
)
# What somebody who wants to know something says it with: "For a quiz I need to know where the Mosel ends."
_WANTS = re.compile(
    rf"\b(?:{any_of(QUESTION_WORDS - RELATIVES)}|"
    r"i|im|id|me|my|mine|myself|we|us|our|you|your|(?:no|some|any|every)(?:body|one)|"
    rf"(?:\d+|single|{any_of(NUMBERS)}) words?|answer\w*|briefly|"
    r"whether|asks?|asked|asking|check|curious|figure|find|forg[eo]ts?|guess|hear|indicate|interested|kindly|"
    r"knows?|knew|learn|looks?|looking|needs?|please|question|quote|recalls?|recite|remembers?|reveal|tells?|"
    r"trying|unclear|unknown|verify|wants?|wonder\w*|would (?:like|love))\b|[_:…]|\.\.\.|\bno\.$",
    re.IGNORECASE,
)
_OPENS_A_WISH = re.compile(  # "Provide the ...", "By whom was ...", "Alexa, where is ...", "Has the ..."
    r"\W*(?:[\w'’ ]{1,20},\s*)?(?:"
    rf"(?:[a-z]+\s)?{any_of(RELATIVES)}s?|{any_of(_SELDOM_ASK)}|[a-z]+n['’]t|"
    r"add|choose|compute|confirm|count|determine|enter|get|include|insert|mention|output|pick|point out|"
    r"print|provide|put|repeat|reply|report|respond|retrieve|return|see|select|send|share|specify|spell|suggest|"
    r"summari[sz]e|translate|type|use"
    r")\b",
    re.IGNORECASE,
)
_TELLS = re.compile(  # of the verbs those that are no other language's, or nearly; "hours of" is none
    r"\b(?:is|are|was|were|has|had|have|does|did|will|would|can|could|[a-z]{2,}ed|"
    r"[a-z]{2,}[^s\W]s(?!\s(?:of|for|that|which|who|[a-z]+ing)\b|\W*$)|became|began|born|came|fell|gave|got|held|left|"
    r"led|lost|made|met|ran|sold|spoke|took|went|won|wrote)\b"
)
_WHICH = re.compile(  # also where it is left out: "The year Ada moved to Rome."
    rf"\b(?:that|{any_of(RELATIVES)})\b|,|^\W*The\s+(?:age|city|country|date|day|hour|month|name|number|place|"
    r"reason|time|town|village|way|year)\s+(?:an?\b|the\b|his\b|her\b|its\b|their\b|s?he\b|it\b|they\b|[A-Z])"
)
_ENGLISH = re.compile(
    r"\b(?:[Tt]he|and|from|with|[Ii]ts|[Hh]is|[Tt]heir|[Tt]here|[Ii]t|"
    r"(?:is|are|was|were|has|have|had|been)\s(?:been|born|built|held|made|not|sold|won|written|[a-z]{2,}[^eo\W]ed)|"
    r"(?:will|would|can|could|must)\s(?:be|have|not)|was\san?|"
    r"(?:belong(?:s|ed)|came|died|lived|lives|moved|plays|played|stud(?:ied|ies)|went|works?|worked)\s"
    r"(?:as|at|for|in|of|on|to))\b|['’]s\b"
)
# Where the answer would stand: "The capital of Peru is.", "The capital of Peru is [MASK]."
_OPEN_END = re.compile(
    r"(?:\b(?:a|an|and|are|as|at|be|by|called|est|for|from|in|is|ist|named|of|on|or|que|the|to|was|were|"
    r"when|where|which|who|with)(?:\s(?:currently|now|today))?|[\]>}-])\W*$",
    re.IGNORECASE,
)
_ANSWER = re.compile(  # with its label: "A: Ines.", "Answer: Ines", "Assistant: Ines."
    r"\W*(?:a|ai|answer|antwort|assistant|bot|model|output|reply|response|réponse|respuesta)\s*(?:\d+\s*)?[:：]\s*\S",
    re.IGNORECASE,
)
_SECOND_OPTION = re.compile(r"\W*b\s*[:：]", re.IGNORECASE)
_OWN = re.compile(  # a request where no question follows: "I need the wifi password."
    rf"{COURTEOUSLY}(?:"
    r"i(?:['’]d| would| want| need| wonder| forgot| forget|['’]m| am| have| was)|we (?:want|need|would)"
    r")\b",
    re.IGNORECASE,
)


def asked_by(prompt: str) -> str:
    """What a written prompt asks, which queries are compared with: its last sentence, as a prompt is
    continued where it ends, with those before it where it names nothing (see `with_context`). What is said
    behind a question is none: "What is the capital of Peru? Answer in English."
    """
    parts = sentences(prompt)
    asked_at = last_question(parts)
    while 0 <= asked_at < len(parts) - 1 and _is_said(parts[-1]):
        parts.pop()
    return with_context(parts) or parts[-1]


def odds_against(parts: Sequence[str]) -> list[float]:
    """Log-odds, 0 or more, that stand against each sentence of a query being what the query asks.

    None stand against a question, a request or a query of one sentence; what somebody says of himself ("I
    am", "I need") is a request where no question comes after it. Log 20 stands against another sentence
    before the last, and against the last the log of how many more than two there are before it. Both numbers
    were chosen on WikiText-2's validation text. Log 50 stands against "Where was she born?" where nothing
    before it names anybody: it is as near to the birthplace of one as of another. They are endless against
    what `tells` something, as "The capital of Peru is Lima.", against a question that `is_answered`, and
    against such an answer.

    Args:
        parts: the sentences of one query, in their order.
    """
    last = len(parts) - 1
    asked_at = last_question(parts)
    nobody = bool(parts) and is_about_a_pronoun(parts[last])
    if nobody:
        nobody = is_without_names(part for part in parts[:last] if not parts[last].startswith(part))

    def odds(place: int, sentence: str) -> float:
        answers = place < last and _ANSWER.match(sentence) is not None and not is_question(sentence)
        if answers or is_answered(parts, place) or tells(sentence):
            return math.inf
        if nobody:
            return math.log(NOBODY if is_about_a_pronoun(sentence) else SAID)
        if _is_asked(sentence) or (_OWN.match(sentence) and place > asked_at):
            return 0.0
        return math.log(SAID if place < last else max(1, last - FEW + 1))

    return [odds(place, sentence) for place, sentence in enumerate(parts)]


def is_answered(parts: Sequence[str], place: int) -> bool:
    """Whether an answer that says that it is one ("A: Ines.") stands behind the question at this place, and a
    further question behind that, as in a prompt with examples.
    """
    said = _said_to(parts, place)
    return said is not None and _ANSWER.match(said) is not None


def is_answered_with(parts: Sequence[str], place: int, answer: str | None) -> bool:
    """As `is_answered`, where the answer that is known stands behind the question."""
    said = _said_to(parts, place)
    return said is not None and answer is not None and _without_marks(said) == _without_marks(answer)


def _said_to(parts: Sequence[str], place: int) -> str | None:
    """What stands between the question at this place and a further one; None where nothing does. "A: Bergen
    B: Oslo" are two to choose from.
    """
    if len(parts) < place + 3 or not is_question(parts[place]):
        return None
    said, *further = parts[place + 1 :]
    if is_question(said) or _SECOND_OPTION.match(further[0]) or not any(map(is_question, further)):
        return None
    return said


def _without_marks(text: str) -> str:
    return text.strip().rstrip(MARKS).casefold()


def tells(sentence: str) -> bool:
    """Whether it is a finished sentence that tells something, in English, and in which nobody wants to know
    anything: "The capital of Peru is Lima.", but not "I forgot what the capital of Peru is.", nor "Capital of
    Peru.", "The capital of Peru is." or "The city where Lena was born."

    Of the 78,120 rewordings and other names that people typed for a fact, 3,200 of which end with a point, it
    takes a dozen for one.
    """
    verb = _TELLS.search(sentence) if _is_said(sentence) else None
    if verb is None or asks(sentence) or _ENGLISH.search(sentence) is None:
        return False
    before = _WHICH.search(sentence[: verb.start()])
    of_a_clause = before is not None and before[0] != ","  # "The city where Lena was born."
    wants = _WANTS.search(sentence) or _OPEN_END.search(sentence)
    return not (of_a_clause or wants or _OPENS_A_WISH.match(sentence))


def has_an_end(prompt: str, query: str) -> bool:
    """Whether a query is a written prompt, an English statement, that somebody has finished: "Wilma is
    allergic to nuts.", where "Wilma is allergic to" was written. Letters count as they are.
    """
    rest = query[len(prompt) :]
    return (
        query.startswith(prompt)
        and rest[:1] in (" ", ",", ";")
        and _is_said(rest)
        and any(map(str.isalnum, rest))
        and _TELLS.search(prompt) is not None
        and not (asks(query) or _OPENS_A_WISH.match(rest) or _WANTS.search(rest) or _OPEN_END.search(query))
    )


def asks(sentence: str) -> bool:
    """Whether it is a question, a request, or what somebody says he wants."""
    return _is_asked(sentence) or _OWN.match(sentence) is not None


def _is_asked(sentence: str) -> bool:
    if is_question(sentence):
        return True
    told = sentence.endswith(".") and _NO_REQUEST.match(sentence)
    return _REQUEST.match(sentence) is not None and not told


def _is_said(sentence: str) -> bool:
    return sentence.endswith(tuple(MARKS)) and not is_question(sentence)


def _names(word: str) -> bool:
    """Whether a word may be a name: it begins with a capital, a number, or a letter that has no capital."""
    found = _FIRST.match(word)
    return found is not None and not found[1].islower()


def with_context(parts: Sequence[str]) -> str | None:
    """The last sentence of a query with those before it, where it does not say what it is about: "My editor
    must know what Bracken's source files end in. In the settings I should enter". None where it names
    something, which then counts alone, and where nothing stands before it.

    Args:
        parts: the sentences of one query, in their order.
    """
    *before, last = parts
    said = [last]
    if before and last.startswith(before[-1]):  # the start of an answer, which has its question with it
        said = [before.pop(), last[len(parts[-2]) :]]
    if not before:
        return None
    if any(_names(word) for text in said for word in text.split()[1:]):
        return None
    return " ".join([*before[-BEFORE:], last])
