"""Whether a question is the written statement turned round, word for word: "The backup is copied to" and
"Where is the backup copied to?", "On Sundays Ada rose at" and "When did Ada rise on Sundays?", "The ring was
forged by" and "Who forged the ring?"

An encoder of meanings is sure of such a question where the relation is a usual one, and unsure where it is
not. What question word stands in the place of the answer is told from the answer: "Where was the firm
founded?" does not ask for 1932.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from larimar_editor.scope.small_words import COURTESIES, MONTHS, WEEKDAY
from larimar_editor.utils.text import plain_letters

_WORD = re.compile(r"[^\W_]+(?:['’.:/&+-][^\W_]+)*[+#]*|[^\w\s]")
# Signs that tell two texts apart ("$5" and "€5", "==" and "!="), and marks that are part of a letter.
_SIGNS = frozenset(("Sc", "Sm", "Mn", "Mc"))
_ARTICLES = frozenset("a an the".split())
_A_NAMED = re.compile(r"(?<=\w )A(?![\w'’.]|\s+[A-Z])")  # "hepatitis A"
_LETTER_A = "ª"  # any letter that is no "a"
# Signs that are more than punctuation, or are where they stand: "7 % 2", "\\d", "-3", "!x", "a[0]".
_TELLING = re.compile(r"[*/%&@\\^♭]|#(?!\d)|(?<![^\s(\[{=])[-!](?=\w)|(?<=\d)\s-\s(?=\d)|(?<=\w)[(\[{]")
_EMPHASISED = re.compile(r"([*_`]{1,3})(\w(?:[^*`]{0,200}[^\s*`])?)\1")
_LIST_MARKS = re.compile(r"^(?:[-#*>]+\s+)+")
_SHORT = re.compile(r"(?<![\w'’-])[^\W\d_]{1,2}(?![\w'’-])")
_IN_LITTLE = frozenset(  # English, in whatever case
    "a i an am as at be by do go he hi if in is it me my no of oh ok on or so to up us we".split()
)
_OPTION = re.compile(r"(?<!\S)[-\\][A-Za-z]\b")  # "-r" and "-R", "\\d" and "\\D"
_TENSES = {
    **dict.fromkeys("is are am does do".split(), "present"),
    **dict.fromkeys("was were did".split(), "past"),
    **dict.fromkeys("has have".split(), "has"),
    "had": "had",
    **dict.fromkeys("be been being".split(), ""),
    **{word: word for word in "will would can could shall should may might must".split()},
}
_SUPPORT = frozenset("do does did".split())
_COPULAS = frozenset("is are am was were".split())
_QUESTION_WORDS = {
    "who": "who",
    "whom": "who",
    "what": "what",
    "which": "what",
    "where": "where",
    "when": "when",
    "why": "why",
    "how": "how",
}
_CONTRACTED = re.compile(r"\b(who|what|where|when|why|how)['’]s\b")
_OPENERS = re.compile(
    rf"(?:(?:{COURTESIES}|"
    r"(?:can|could|would|will) you (?:please )?(?:tell|remind|show)(?: me| us)?|"
    r"(?:can|could|would|will) you (?:please )?(?:say|let me know)|"
    r"(?:do|does) (?:you|anyone|anybody|somebody) (?:know|remember|recall|happen to know)|"
    r"(?:tell|remind|show)(?: me| us)|say|let me know|"
    r"i(?: want| need|['’]d like| would like) to know|i wonder|i forgot)\b[\s,:]*)+"
)
_PREPOSITIONS = frozenset(
    "about above across after against along around as at because before behind below beneath beside between "
    "beyond by down during for from in inside into near of off on onto opposite out outside over past since "
    "through to toward towards under until up upon via with within without".split()
)
_OF_PLACE = _PREPOSITIONS - set(
    "about as because by during for from into of since to until with within without".split()
)
_OF_TIME = frozenset("after around at before by during for from in on since until within".split())
_OF_WHAT_HAPPENED = frozenset("after before during since until within".split())
# A text with none of these may be in another language, in which "a" is "to".
_ENGLISH = (_PREPOSITIONS | _TENSES.keys() | _QUESTION_WORDS.keys() | {"the"}) - set(
    "am as do in on to".split()
)
_MOVED = _PREPOSITIONS | set("each every last next this".split())  # what an adverbial begins with
_DAY = rf"\b(?:{MONTHS}|{WEEKDAY})\b"
_MEASURES = {  # what is asked for with "how", and with "what" or "which", and what such an answer has
    "long": r"\d|second|minute|hour|day|week|month|year|decade|centur|lifetime",
    "far": r"\d|mile|kilomet|metre|meter|yard|f(?:oo|ee)t|step|lap",
    "often": r"\b(?:every|each|once|twice|thrice|times|\w+ly|never|always)\b",
    "much": r"\d|half|nothing|hundred|thousand|million|billion",
}
_PLACES = frozenset(
    "building city continent country county place region room state street town village".split()
)
_TIMES = {
    "year": r"\b(?:1\d{3}|20\d\d)\b|\b\d+ (?:bc|ad)\b",
    "month": _DAY,
    "day": _DAY,
    "date": _DAY,
    "time": r"\d[:.]\d\d|\d\s?[ap]\.?m\b|o['’]clock|noon|midnight|midday",
}
_PLAIN_MONTHS = "|".join(month for month in MONTHS.split("|") if month not in ("march", "may"))
_TIME = re.compile(
    r"\b(?:1\d{3}s?|20\d\ds?|\d{1,2}[:.]\d\d|\d{1,2}\s?[ap]\.?m\b|\d+ (?:bc|ad)|o['’]clock|noon|"
    r"midnight|midday|today|tomorrow|yesterday|daily|weekly|monthly|yearly|annually|every|once|twice|"
    rf"{WEEKDAY}s?|"
    r"(?:march|may) \d+|\d+(?:st|nd|rd|th)? (?:march|may)|thanksgiving|halloween|ramadan|"
    rf"{_PLAIN_MONTHS}|"
    r"(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|decades?|century|centuries))\b"
)
# Where they end an answer they are a time: "in the early morning", not "on the night ferry".
_PART_OF_TIME = re.compile(
    r"\b(?:spring|summer|autumn|winter|morning|afternoon|evening|night|dawn|dusk|sunrise|sunset|easter|"
    r"christmas|march|may|end|beginning|start|before|after|during|while|when)\b"
)
# They may say when something was, or what it was.
_PERIOD = re.compile(
    r"\b(?:war|reign|era|ages?|renaissance|antiquity|dynasty|breakfast|lunch|dinner|diwali|holi|eid|"
    r"purim|passover|hanukkah|pentecost|advent|lent|carnival|epiphany|yom kippur|new year)\b"
)
_SHORT_DATE = re.compile(
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
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fifteen|twenty|thirty|"
    r"forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|billion|half|dozen|never|always)\b"
)
_IRREGULAR = {
    base: frozenset(past.split("/"))
    for base, past in (
        pair.split(":")
        for pair in (
            "arise:arose awake:awoke bear:bore beat:beat become:became begin:began bend:bent bet:bet "
            "bind:bound bite:bit bleed:bled blow:blew break:broke breed:bred bring:brought build:built "
            "burn:burnt/burned burst:burst buy:bought cast:cast catch:caught choose:chose cling:clung "
            "come:came cost:cost creep:crept cut:cut deal:dealt dig:dug draw:drew dream:dreamt/dreamed "
            "drink:drank drive:drove eat:ate fall:fell feed:fed feel:felt fight:fought find:found flee:fled "
            "fly:flew forbid:forbade forget:forgot forgive:forgave freeze:froze get:got give:gave go:went "
            "grind:ground grow:grew hang:hung/hanged hear:heard hide:hid hit:hit hold:held hurt:hurt "
            "keep:kept kneel:knelt know:knew lay:laid lead:led lean:leant/leaned learn:learnt/learned "
            "leave:left lend:lent let:let lie:lay/lied light:lit lose:lost make:made mean:meant meet:met "
            "overcome:overcame overtake:overtook pay:paid put:put quit:quit read:read ride:rode ring:rang "
            "rise:rose run:ran say:said see:saw seek:sought sell:sold send:sent set:set shake:shook "
            "shed:shed shine:shone shoot:shot shrink:shrank shut:shut sing:sang sink:sank sit:sat "
            "sleep:slept slide:slid speak:spoke speed:sped spend:spent spill:spilt/spilled spin:spun "
            "split:split spread:spread spring:sprang stand:stood steal:stole stick:stuck sting:stung "
            "strike:struck strive:strove swear:swore sweep:swept swell:swelled swim:swam swing:swung "
            "take:took teach:taught tear:tore tell:told think:thought throw:threw undergo:underwent "
            "understand:understood wake:woke wear:wore "
            "weave:wove weep:wept win:won wind:wound withdraw:withdrew write:wrote"
        ).split()
    )
}
# "plays chess" does not say which instrument she plays.
_OF_MANY_KINDS = frozenset(
    "play plays played study studies studied support supports supported acquire acquires acquired buy "
    "buys bought own owns owned win wins won like likes liked love loves loved hate hates hated prefer "
    "prefers preferred use uses used want wants wanted teach teaches taught write writes wrote wear "
    "wears wore read reads run runs ran lead leads led hold holds held have know knows knew see sees "
    "saw make makes made follow follows followed take takes took get gets got keep keeps kept lose "
    "loses lost join joins joined".split()
)
# Behind these "in" may say in which language,
_IN_WORDS = frozenset(
    "written wrote writes sung sings sang spoken speaks spoke published printed performed".split()
)
# and behind these, before a small letter, of what or how: in finance, in black and white.
_IN_OTHER_WAYS = frozenset(
    "shot filmed painted released works worked work graduated graduates majored majors studied studies "
    "specialises specialised specializes specialized trades traded deals dealt believes believed dressed "
    "ends ended results resulted came comes participated participates competed competes invested invests "
    "sold programmed coded measured paid served covered interested experienced".split()
)
_PARTICIPLES = dict(  # of those that are not the past's form
    pair.split(":")
    for pair in (
        "arose:arisen ate:eaten awoke:awoken beat:beaten became:become began:begun bit:bitten blew:blown "
        "bore:borne broke:broken came:come chose:chosen drank:drunk drew:drawn drove:driven fell:fallen "
        "flew:flown forbade:forbidden forgave:forgiven forgot:forgotten froze:frozen gave:given got:gotten "
        "grew:grown hid:hidden knew:known lay:lain overcame:overcome overtook:overtaken ran:run rang:rung "
        "rode:ridden rose:risen sang:sung sank:sunk saw:seen shook:shaken shrank:shrunk spoke:spoken "
        "sprang:sprung stole:stolen swam:swum swore:sworn took:taken threw:thrown tore:torn went:gone "
        "woke:woken wore:worn wove:woven withdrew:withdrawn wrote:written"
    ).split()
)
_DONE = frozenset(_PARTICIPLES.values()).union(*_IRREGULAR.values())
# Nothing is done to anything.
_INTRANSITIVE = frozenset("arose became came fell lay rose sat slept stood went".split())


@dataclass(frozen=True)
class _Asked:
    """A statement that breaks off, or a question, taken apart.

    Attributes:
        word: the question word; empty for a statement.
        kind: what stands with it, as in "which town".
        content: the other words in their order, without articles and auxiliaries.
        last: the preposition that the answer stands behind; empty where there is none.
        tenses: of the auxiliaries.
        support: the form of "do" that a question has; empty where it has none.
        is_copula: whether a statement ends in "is".
        foreign: whether none of a statement's words is plainly English.
    """

    word: str
    kind: tuple[str, ...]
    content: tuple[str, ...]
    last: str
    tenses: frozenset[str]
    support: str
    is_copula: bool = False
    foreign: bool = False


def participle_of(past: str) -> str | None:
    """ "written" of "wrote", "founded" of "founded"; None of what is not the past of a verb that something is
    done with.
    """
    if past in _INTRANSITIVE:
        return None
    if not past.endswith("ed") and not any(past in forms for forms in _IRREGULAR.values()):
        return None
    return _PARTICIPLES.get(past, past)


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
    verdicts = {
        _verdict(ours, theirs, target) for ours in _readings(prompt) for theirs in _readings(query)
    } - {None}
    if True in verdicts and _told_apart_by_signs(prompt, query):
        return None
    return None if not verdicts else True in verdicts


def _told_apart_by_signs(one: str, other: str) -> bool:
    """Whether signs, or the case of small words, tell two texts apart whose words are the same: "7 // 2" and
    "7 % 2", "-r" and "-R", "CO" and "Co". Who types no capitals says nothing by it.
    """
    one, other = (_EMPHASISED.sub(r"\2", _LIST_MARKS.sub("", plain_letters(text))) for text in (one, other))
    ours, theirs = (sorted(found.strip() for found in _TELLING.findall(text)) for text in (one, other))
    if ours != theirs or {*_OPTION.findall(one)} != {*_OPTION.findall(other)}:
        return True
    if one.isupper() or other.isupper():
        return False
    short, its = (
        {word.lower(): word for word in _SHORT.findall(text) if not word.islower()} for text in (one, other)
    )
    return any(short[word] != its[word] for word in short.keys() & its.keys() - _IN_LITTLE)


def _verdict(ours: _Asked, theirs: _Asked, target: str | None) -> bool | None:
    if ours.word and theirs.word:
        return True if ours == theirs else None
    if not ours.word and not theirs.word:
        if ours.foreign and theirs.foreign:
            return None
        return True if ours.last == theirs.last and _same(ours, theirs) else None
    statement, question = (theirs, ours) if ours.word else (ours, theirs)
    if _names_it_behind(statement, question) or _by_whom(statement, question) or _whom(statement, question):
        return True
    return _fits(statement, question, target) if _same(statement, question) else None


def _names_it_behind(statement: _Asked, question: _Asked) -> bool:
    """As "listens on port" does what "which port does it listen on?" asks for."""
    if question.word != "what" or not question.kind or statement.last:
        return False
    behind = tuple(filter(None, (*question.content, question.last))) + question.kind
    return _are(statement.content, behind, question.support) and _in_one_tense(statement, question)


def _by_whom(statement: _Asked, question: _Asked) -> bool:
    """As "it was forged by" and "who forged it?"."""
    asked = question.word in ("who", "what") and not (question.tenses or question.last)
    if not asked or not question.content or statement.last != "by" or statement.tenses != {"past"}:
        return False
    verb, *rest = question.content
    return _has_with(statement.content, _PARTICIPLES.get(verb, verb), rest)


def _whom(statement: _Asked, question: _Asked) -> bool:
    """As "she betrayed" and "who was betrayed by her?"."""
    asked = question.word in ("who", "what") and not (question.kind or question.last)
    if not asked or question.tenses != {"past"} or statement.last or statement.tenses:
        return False
    verb, *rest = question.content
    return rest[:1] == ["by"] and any(
        _has_with(order, past, rest[1:])
        for order in (statement.content, *_with_adverbial_behind(statement.content))
        for past in (verb, *(past for past, participle in _PARTICIPLES.items() if participle == verb))
    )


def _has_with(words: Sequence[str], verb: str, rest: Sequence[str]) -> bool:
    """Whether the words are the others with the verb among them, behind one at least."""
    return any(
        [*words[:place], *words[place + 1 :]] == list(rest)
        for place, word in enumerate(words)
        if place and word == verb
    )


def _fits(statement: _Asked, question: _Asked, target: str | None) -> bool | None:
    """Whether the question word, or what stands with it, asks for such an answer."""
    word, kind = question.word, " ".join(question.kind)
    last, its = statement.last, question.last
    time = target is not None and _is_time(target)
    only_time = target is not None and time and _is_nothing_but_a_time(target)
    if word in ("who", "what") and not kind:
        if time and (word == "who" or last in _OF_TIME):
            plain = only_time and not re.fullmatch(r"[A-Z][a-z]+", str(target).strip(" ."))  # June is a name
            return False if word == "who" and plain else None
        if statement.is_copula and target and _is_a_state(target):
            return None
        return True if last == its else None
    if not target or its not in ("", last):
        return None
    answer = target.lower()
    if kind:
        wanted = {"how": _MEASURES, "what": _TIMES}.get(word, {}).get(kind)
        if wanted is not None:
            # "Ada is 34" does not say how long she is; "the term of the lease is" says how long it is.
            measured = not statement.is_copula or "of" in statement.content
            return True if measured and re.search(wanted, answer) else None
        plain = word == "what" and not (last or its or statement.is_copula) and kind not in _PLACES
        plain = plain and _OF_MANY_KINDS.isdisjoint(statement.content)
        return True if plain and len(question.kind) == 1 and not time else None
    if word == "when" and last in ("", *_OF_TIME):
        if time:
            return True if only_time else None  # "was recorded by" June Carter
        vague = any(part.search(answer) for part in (_NUMBER, _PART_OF_TIME, _PERIOD))
        # "weekdays", "payday", "childhood": without a capital it may be any time.
        named = re.search(r"[A-Z]", target) is not None and not _SHORT_DATE.search(target)
        return None if vague or not named or last in _OF_WHAT_HAPPENED else False
    if word == "where" and (last in ("", *_OF_PLACE) or last == its):
        if time or _PERIOD.search(answer):
            # "1600 Pennsylvania Avenue"; and the office is in room 1204.
            room = statement.tenses == {"present"} and answer.isdigit()
            return False if only_time and not room else None
        placed = bool(last) or answer.split()[0] in _OF_PLACE
        verb = statement.content[-1] if last in ("in", "on") and not its and statement.content else ""
        if verb in _IN_WORDS or (verb in _IN_OTHER_WAYS and target.lstrip()[:1].islower()):
            return None
        return True if placed and not answer[0].isdigit() else None
    if word == "how" and not last and not time and not statement.is_copula:
        return True if answer.split()[0] in ("by", "from", "through", "to", "using", "via", "with") else None
    if word == "why":
        done = last == "for" and answer.split()[0].endswith("ing")  # "was fined for selling", not "for Ada"
        return True if done or last == "because" or answer.startswith(("because", "due ")) else None
    return None


def _is_a_state(answer: str) -> bool:
    """As "closed on Mondays", "in Rome", "married to Bo": what somebody is like, and not who he is."""
    first, *rest = answer.split()
    if not rest or not first.islower():
        return False
    done = first.endswith(("ed", "ing")) or first in _DONE
    return first in _PREPOSITIONS or (done and rest[0] in _PREPOSITIONS)


def _same(one: _Asked, other: _Asked) -> bool:
    """Whether the words are the same, up to an adverbial that stands before or behind."""
    if len(one.content) != len(other.content):
        return False
    support = one.support or other.support
    orders = [one.content, *_with_adverbial_behind(one.content)]
    others = [other.content, *_with_adverbial_behind(other.content)]
    return _in_one_tense(one, other) and any(
        _are(mine, its, support) or (one.support and _are(its, mine, support))
        for mine in orders
        for its in others
    )


def _with_adverbial_behind(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    if not words or words[0] not in _MOVED:
        return []
    return [words[end:] + words[:end] for end in range(2, len(words))]


def _in_one_tense(one: _Asked, other: _Asked) -> bool:
    if not one.tenses or not other.tenses:  # a verb by itself; its form is compared
        return bool(one.support or other.support) or one.tenses == other.tenses
    has = not (one.tenses | other.tenses).isdisjoint(("has", "had"))
    if bool(one.support) != bool(other.support) and not has:
        return False  # "the server is" does not say what it does
    return one.tenses == other.tenses


def _are(said: Sequence[str], asked: Sequence[str], support: str) -> bool:
    """Whether two runs of words are one, but for the verb that "do" takes the form of."""
    if len(said) != len(asked) or not said:
        return False
    differing = [pair for pair in zip(said, asked) if pair[0] != pair[1]]
    if not differing:
        return True
    return bool(support) and len(differing) == 1 and _is_form(*differing[0], support)


def _is_form(form: str, base: str, support: str) -> bool:
    short = base[:-1] if base.endswith(("y", "e")) else base
    if support == "did":
        if base in _IRREGULAR:
            return form in _IRREGULAR[base]
        return form in (f"{base}ed", f"{base}d", f"{short}ied", f"{base}{base[-1]}ed")
    return support == "does" and form in (f"{base}s", f"{base}es", f"{short}ies")


def _is_time(target: str) -> bool:
    lower = target.lower().rstrip(" .")
    part = list(_PART_OF_TIME.finditer(lower))[-1:]
    ends = any(each.end() == len(lower) for each in part) and not _NAMED_MAY.search(target)
    return _TIME.search(lower) is not None or ends


def _is_nothing_but_a_time(target: str) -> bool:
    """Not June Carter, and not "1600 Pennsylvania Avenue"."""
    lower = re.sub(r"(?<=\d)(?:st|nd|rd|th|s)\b", "", target.lower())
    for part in (_TIME, _PART_OF_TIME, _BESIDE_A_TIME, _NUMBER):
        lower = part.sub(" ", lower)
    return not re.search(r"[^\W\d_]", lower)


@lru_cache(maxsize=4096)
def _readings(text: str) -> tuple[_Asked, ...]:
    """In which ways a text may be taken apart; none where it has no word."""
    lower = _CONTRACTED.sub(r"\1 is", _A_NAMED.sub(_LETTER_A, plain_letters(text)).lower().strip())
    opened = _OPENERS.match(lower)
    asked = _question_first(_words(lower[opened.end() :])) if opened else []
    words = asked if asked and _starts_a_question(asked) else _question_first(_words(lower))
    if not words:
        return ()
    if not _starts_a_question(words):
        content, last = _parted(words)
        tenses, support = _tenses(words)
        foreign = _ENGLISH.isdisjoint(words)
        return (_Asked("", (), content, last, tenses, support, words[-1] in _COPULAS, foreign),)
    before = words.pop(0) if words[0] in _PREPOSITIONS else ""
    word = _QUESTION_WORDS[words.pop(0)]
    first = next((place for place, each in enumerate(words) if each in _TENSES), None)
    if first is None:  # "which smith forged it?"
        first = 1 if word == "what" and len(words) > 1 else 0
    # "Which town was it founded in?"; and "who forged it?" or, as after "tell me", "where it was founded".
    return tuple(
        _question(word, tuple(words[:end]), words[end:], before) for end in dict.fromkeys((first, 0))
    )


def _question(word: str, kind: tuple[str, ...], rest: list[str], before: str) -> _Asked:
    content, last = _parted(rest)
    tenses, support = _tenses(rest)
    if before and last:
        content, last = (*content, last), ""
    return _Asked(word, kind, content, before or last, tenses, support)


def _question_first(words: list[str]) -> list[str]:
    """Of "On school nights, when does Ada go to bed?" the adverbial behind the question."""
    if not words or words[0] not in _MOVED or _starts_a_question(words):
        return words
    pairs = enumerate(itertools.pairwise(words))
    begin = next((at for at, (one, two) in pairs if one in _QUESTION_WORDS and two in _TENSES), 0)
    return words[begin:] + words[:begin]


def _starts_a_question(words: Sequence[str]) -> bool:
    start = words[1:] if words[0] in _PREPOSITIONS else words
    return bool(start) and start[0] in _QUESTION_WORDS


def _parted(words: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The words that count, and the preposition at the end."""
    content = tuple(each for each in words if each not in _ARTICLES and each not in _TENSES)
    if len(content) > 1 and content[-1] in _PREPOSITIONS:
        return content[:-1], content[-1]
    return content, ""


def _tenses(words: Sequence[str]) -> tuple[frozenset[str], str]:
    support = next((each for each in words if each in _SUPPORT), "")
    if support:
        tense = {"present": "has", "past": "had"} if "have" in words else {}
        return frozenset({tense.get(_TENSES[support], _TENSES[support])}), support
    return frozenset(filter(None, (_TENSES.get(each) for each in words))), ""


def _words(text: str) -> list[str]:
    found = _WORD.findall(text.lstrip("> "))
    return [word for word in found if word[0].isalnum() or unicodedata.category(word) in _SIGNS]
