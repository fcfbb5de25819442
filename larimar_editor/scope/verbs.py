"""English verbs by their forms: the tense of an auxiliary, the past of "rise", the participle of "wrote"."""

from __future__ import annotations

import re
from collections.abc import Sequence

MODALS = frozenset("will would can could shall should may might must".split())
# Of each auxiliary what it says of the tense; nothing where that is empty.
TENSES = {
    **dict.fromkeys("is are am does do".split(), "present"),
    **dict.fromkeys("was were did".split(), "past"),
    **dict.fromkeys("has have".split(), "has"),
    "had": "had",
    **dict.fromkeys("be been being".split(), ""),
    **{word: word for word in MODALS},
}
# Those that a question about a third may begin with.
AUXILIARIES = frozenset(TENSES) - {"am", "be", "been", "being"}
SUPPORT = frozenset("do does did".split())
COPULAS = frozenset("is are am was were".split())
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
PARTICIPLES = dict(  # of those that are not the past's form
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
# Irregular, of the past and participles: "made", "written".
DONE = frozenset(PARTICIPLES.values()).union(*_IRREGULAR.values())
_BASES = {
    form: base
    for base, pasts in _IRREGULAR.items()
    for past in pasts
    for form in (past, PARTICIPLES.get(past, past))
}
_DOUBLING = re.compile(r"[^aeiouy]+[aeiou][bdfgklmnprtvz]")  # "hopped" is of "hop", and "hoped" of "hope"
_Y_CHANGES = re.compile(r"[^aeiou]y$")  # "studies" is of "study", and "plays" of "play"
# Nothing is done to anything.
_INTRANSITIVE = frozenset("arose became came fell lay rose sat slept stood went".split())


def may_be_done(word: str) -> bool:
    """Whether a word may be the past or the participle of a verb: "founded", "built"."""
    return word.endswith("ed") or word in DONE


def participle_of(past: str) -> str | None:
    """ "written" of "wrote", "founded" of "founded"; None of what is not the past of a verb that something is
    done with.
    """
    if past in _INTRANSITIVE:
        return None
    if not past.endswith("ed") and not any(past in forms for forms in _IRREGULAR.values()):
        return None
    return PARTICIPLES.get(past, past)


def is_form_of(form: str, base: str, support: str) -> bool:
    """Whether a verb is the form of another that "do" takes from it: "rose" of "rise" behind "did", "rises"
    behind "does".
    """
    if support == "does":
        return form == _present_of(base)
    return support == "did" and form in _pasts_of(base)


def base_of(word: str) -> str:
    """What the forms of a word have in common, to compare them by: "acquir" of "acquires" and "acquired",
    "write" of "wrote" and "written". It need not be a word, and may be that of another one, too.
    """
    if (irregular := _BASES.get(word)) is not None:
        return _common(irregular)
    if word.endswith(("ies", "ied")):
        return f"{word[:-3]}i"
    ending = next((each for each in ("ing", "ed", "s") if word.endswith(each)), "")
    short = len(word) - len(ending) < 3 or word.endswith("ss")
    return _common(word if short else word.removesuffix(ending))


def _common(base: str) -> str:
    base = base.removesuffix("e")
    if base.endswith("y"):
        return f"{base[:-1]}i"
    return base[:-1] if len(base) > 3 and base[-1] == base[-2] else base


def forms_of(base: str) -> frozenset[str]:
    """ "write", "writes", "wrote"."""
    return _pasts_of(base) | {base, _present_of(base)}


def _present_of(base: str) -> str:
    if _Y_CHANGES.search(base):
        return f"{base[:-1]}ies"
    return f"{base}es" if base.endswith(("s", "x", "z", "ch", "sh", "o")) else f"{base}s"


def _pasts_of(base: str) -> frozenset[str]:
    """Its past, as far as the letters tell: of "prefer" with one "r" and with two."""
    if base in _IRREGULAR:
        return _IRREGULAR[base]
    if base.endswith("e"):
        return frozenset({f"{base}d"})
    doubled = f"{base}{base[-1:]}ed"
    if _DOUBLING.fullmatch(base):
        return frozenset({doubled})
    return frozenset({f"{base[:-1]}ied"} if _Y_CHANGES.search(base) else {f"{base}ed", doubled})


def tenses_of(words: Sequence[str]) -> tuple[frozenset[str], str]:
    """The tenses of the auxiliaries among some words, and the form of "do" there; empty where none is, or it
    stands behind another: "what should I do", "what is she going to do".
    """
    support = next((each for each in words if each in TENSES), "")
    if support in SUPPORT:
        tense = {"present": "has", "past": "had"} if "have" in words else {}
        return frozenset({tense.get(TENSES[support], TENSES[support])}), support
    return frozenset(filter(None, (TENSES.get(each) for each in words))), ""
