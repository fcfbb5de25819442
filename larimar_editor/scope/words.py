"""Words that several modules read by: question words, pronouns, prepositions, numbers, months, and those that
stand where names do, or beside them. Verbs are in `larimar_editor.scope.verbs`.
"""

from __future__ import annotations

from collections.abc import Iterable

from larimar_editor.scope.verbs import AUXILIARIES


def any_of(words: Iterable[str]) -> str:
    """A pattern for one of some words, without bounds."""
    return f"(?:{'|'.join(sorted(words))})"


ARTICLES = frozenset("a an the".split())
QUESTION_WORDS = frozenset("who whom what which where when why how".split())
# Those that go on with a statement as well: "the city where Lena was born".
RELATIVES = frozenset("who whose which where when".split())
OURS = frozenset("my our your".split())
# Of "his" and of "him" the one that is a subject.
OWNERS = {"his": "he", "her": "she", "its": "it", "their": "they"}
SUBJECTS = {"him": "he", "them": "they", **OWNERS}
# Names that are words as well, unless they stand as names do: "US", "IT", "WHO".
WORDS_TOO = frozenset(
    "a ace act ai am an and any ap ar are art as at be bit but by can cat cd dad did do dot for go had has "
    "he her hi his hot how i id if in ion is it its la led lie ma man map may me mid my no not of off on one "
    "or our out pa pal pi pin ran so sun the to up us use was way we who will you".split()
)
# What may stand before or behind a name, in capitals at the start of a sentence, and be no part of it.
OPENERS = (
    WORDS_TOO
    | QUESTION_WORDS
    | AUXILIARIES
    | frozenset(
        "about after before describe during explain from give into list name near over quiz remind says "
        "since state tell that then though under whats while whose with".split()
    )
)
TITLES = frozenset(
    "captain chancellor comrade doctor dr emperor empress general king lady lord miss mr mrs ms pope "
    "president prince princess prof professor queen saint sir st sultan".split()
)
PARTICLES = frozenset("al bin da de del della den der di du ibn la le van von zu".split())
MONTHS = tuple(
    "january february march april may june july august september october november december".split()
)
# That say when wherever they stand; others may be names, as Easter and Holi.
FEASTS = frozenset("halloween ramadan thanksgiving".split())
WEEKDAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
# With what a question or a request may be opened.
COURTESIES = r"(?:please|kindly|hey|hi|hello|so|ok|okay|now|and|well|thanks|thank\s+you)"
COURTEOUSLY = rf"\W*(?:{COURTESIES}\W+)*"
INDIRECTLY = (  # and what an indirect question is opened with, in small letters
    r"(?:(?:can|could|would|will) you (?:please )?(?:tell|remind|show)(?: me| us)?|"
    r"(?:can|could|would|will) you (?:please )?(?:say|let me know)|"
    r"(?:do|does) (?:you|anyone|anybody|somebody) (?:know|remember|recall|happen to know)|"
    r"(?:tell|remind|show)(?: me| us)|say|let me know|"
    r"i(?: want| need|['’]d like| would like) to know|i wonder|i forgot)"
)
# What is called out, or asked alone, and is no name: "Really? And where was she born?"
INTERJECTIONS = QUESTION_WORDS | frozenset(
    "agreed alexa alright anybody anyone anything anyway awesome aye cool correct dad deal done eh "
    "everyone exactly excuse fine folks funny good great guess guys ha hello hey hi hm hmm honestly huh "
    "indeed joking kidding maybe mom mum nah never nice no nobody none nope nothing now oh ok okay "
    "pardon perhaps please possibly question quick ready really remember right same say see seriously "
    "siri so sorry still sure thanks then there true truly ugh uh understood weird well wow wrong yeah "
    "yep yes you".split()
)
# Behind which an answer may stand: "The firm was founded in".
PREPOSITIONS = frozenset(
    "about above across after against along around as at because before behind below beneath beside between "
    "beyond by down during for from in inside into near of off on onto opposite out outside over past since "
    "through to toward towards under until up upon via with within without".split()
)
# Those used most, which a question may begin with or end in: "In which year", "where is it from?"
USUAL_PREPOSITIONS = frozenset("at by for from in of on to with".split())
SCALES = {"thousand": 3, "million": 6, "billion": 9}  # and their zeros
_TO_NINETEEN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBERS = (
    {word: value for value, word in enumerate(_TO_NINETEEN.split())}
    | {word: 10 * tens for tens, word in enumerate(_TENS.split(), 2)}
    | {"hundred": 100}
    | {word: 10**zeros for word, zeros in SCALES.items()}
)
