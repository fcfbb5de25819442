"""Small words that stand where names do, or beside them."""

# Names that are words as well, unless they stand as names do: "US", "IT", "WHO".
WORDS_TOO = frozenset(
    "a ace act ai am an and any ap ar are art as at be bit but by can cat cd dad did do dot for go had has "
    "he her hi his hot how i id if in ion is it its la led lie ma man map may me mid my no not of off on one "
    "or our out pa pal pi pin ran so sun the to up us use was way we who will you".split()
)
# What may stand before or behind a name, in capitals at the start of a sentence, and be no part of it.
OPENERS = WORDS_TOO | frozenset(
    "about after before could describe does during explain from give have into list name near over quiz "
    "remind says should since state tell that then though under were what whats when where which while whom "
    "whose why with would".split()
)
TITLES = frozenset(
    "captain chancellor comrade doctor dr emperor empress general king lady lord miss mr mrs ms pope "
    "president prince princess prof professor queen saint sir st sultan".split()
)
PARTICLES = frozenset("al bin da de del della den der di du ibn la le van von zu".split())
MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
WEEKDAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
# With what a question or a request may be opened.
COURTESIES = r"please|kindly|hey|hi|hello|so|ok|okay|now|and|well|thanks|thank\s+you"
# What is called out, or asked alone, and is no name: "Really? And where was she born?"
INTERJECTIONS = frozenset(
    "agreed alexa alright anybody anyone anything anyway awesome aye cool correct dad deal done eh "
    "everyone exactly excuse fine folks funny good great guess guys ha hello hey hi hm hmm honestly how "
    "huh indeed joking kidding maybe mom mum nah never nice no nobody none nope nothing oh ok okay pardon "
    "perhaps please possibly question quick ready really remember right same say see seriously siri so "
    "sorry still sure thanks then there true truly ugh uh understood weird well what when where which who "
    "why wow wrong yeah yep yes you".split()
)
AUXILIARIES = frozenset(
    "is was are were does do did has have had will would can could may might must should shall".split()
)
# Behind which an answer may stand: "The firm was founded in".
PREPOSITIONS = frozenset(
    "about above across after against along around as at because before behind below beneath beside between "
    "beyond by down during for from in inside into near of off on onto opposite out outside over past since "
    "through to toward towards under until up upon via with within without".split()
)
