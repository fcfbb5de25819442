"""Made-up facts with everything that a detector of questions has to tell apart."""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from larimar_editor.data.questions.aliases import affixed, made_alias, respelt, written_alike
from larimar_editor.data.questions.kinds import ANY_TARGET, FOLDER, SUBJECT, TARGET, Question
from larimar_editor.data.questions.known_names import KnownName
from larimar_editor.utils.files import load_yaml

FITS = "target_fits"  # of a record: whether its answer is one that its question may have
ANY_SUBJECT = "anything"  # the kind of names of questions that may be asked about subjects of many kinds
_KNOWN_ALIASES = 0.3  # share of subjects taken from those of which other names are known, if any are
_KNOWN_RATHER = 0.7  # than one made by rule
_POOL = 24  # names of a kind among which the one most like another is looked for
_COPULA = re.compile(r"^(.+) (is|was|are|were)$")


@dataclass(frozen=True)
class QuestionNames:
    """Names of each kind of subject, and lists of answers.

    Attributes:
        subjects: kind to names.
        targets: list to answers.
        aliases: other names of a name, where they are known.
        mistaken: names of others that a name is easily mistaken for, where they are known.
    """

    subjects: dict[str, list[str]]
    targets: dict[str, list[str]]
    aliases: dict[str, list[str]] = field(default_factory=dict)
    mistaken: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path = FOLDER) -> QuestionNames:
        """From every ``FILE-names.yaml`` in a folder; lists of one name are joined."""
        names = cls({}, {})
        for path in sorted(folder.glob("*-names.yaml")):
            rows = load_yaml(path)
            for part in ("subjects", "targets"):
                for kind, values in rows[part].items():
                    known = getattr(names, part).setdefault(kind, [])
                    known += [str(value) for value in values if str(value) not in known]
        every = {answer for answers in names.targets.values() for answer in answers}
        names.targets[ANY_TARGET] = sorted(every)
        return names

    def with_subjects(
        self, subjects: Mapping[str, Sequence[str]], aliases: Mapping[str, Sequence[str]] | None = None
    ) -> QuestionNames:
        """The same with further kinds of names and known aliases; `ANY_SUBJECT` is of them all."""
        joined = self.subjects | {kind: list(names) for kind, names in subjects.items()}
        joined[ANY_SUBJECT] = sorted(
            {name for kind, names in joined.items() if kind != ANY_SUBJECT for name in names}
        )
        known = self.aliases | {name: list(others) for name, others in (aliases or {}).items()}
        return QuestionNames(joined, self.targets, known, self.mistaken)

    def with_known(self, known: Iterable[KnownName]) -> QuestionNames:
        """The same with further known names."""
        every = [*known]
        aliases = {each.name: [*self.aliases.get(each.name, ()), *each.aliases] for each in every}
        mistaken = {each.name: list(each.mistaken) for each in every if each.mistaken}
        return replace(self, aliases=self.aliases | aliases, mistaken=self.mistaken | mistaken)

    def subject(self, kind: str, rng: random.Random) -> str:
        """A name of a kind; now and then put together from parts of two."""
        if self.aliases and rng.random() < _KNOWN_ALIASES:
            return rng.choice(self._with_aliases)
        name = rng.choice(self.subjects[kind])
        if name not in self.aliases and rng.random() < 0.3:
            return self._varied(name, kind, rng)
        return name

    def another(self, name: str, kind: str, rng: random.Random) -> str:
        """A name of a kind that is not another of the same subject."""
        other = self.subject(kind, rng)
        while other == name or other in self.aliases.get(name, ()):
            other = self.subject(kind, rng)
        return other

    def like(self, name: str, kind: str, rng: random.Random) -> str:
        """Another name that is like ``name``: a known one, a letter, a number or a word of it changed, a word
        more, or the most similar of the kind; none that may be another way to write it.
        """
        mistaken = self.mistaken.get(name)
        if mistaken and rng.random() < _KNOWN_RATHER:
            return rng.choice(mistaken)
        same = {name, *self.aliases.get(name, ())}
        is_other = lambda other: other not in same and not any(written_alike(other, each) for each in same)
        draw = rng.random()
        if draw < 0.3:
            changed = respelt(name, rng)
        elif draw < 0.6:
            changed = self._varied(name, kind, rng)
        else:
            changed = affixed(name, rng) if draw < 0.7 else name
        if is_other(changed):
            return changed
        others = self.subjects[kind]
        others = others if len(others) <= _POOL else rng.sample(others, _POOL)
        every = [other for names in self.subjects.values() for other in names]
        others = list(filter(is_other, others)) or list(filter(is_other, every))
        return difflib.get_close_matches(name, others, n=1, cutoff=0.0)[0]

    def alias(self, name: str, kind: str, rng: random.Random) -> str:
        """Another name of the same subject: a known one, or one made by rule."""
        known = self.aliases.get(name)
        if known and rng.random() < _KNOWN_RATHER:
            return rng.choice(known)
        others = self.subjects[kind]
        return made_alias(name, rng, others if len(others) <= _POOL else rng.sample(others, _POOL))

    @cached_property
    def _with_aliases(self) -> list[str]:
        return sorted(self.aliases)

    def _varied(self, name: str, kind: str, rng: random.Random) -> str:
        words, others = name.split(), rng.choice(self.subjects[kind]).split()
        if len(words) < 2 or len(others) < 2:
            return name
        place = rng.randrange(len(words))
        return " ".join([*words[:place], others[min(place, len(others) - 1)], *words[place + 1 :]])


@dataclass(frozen=True)
class AskedFacts:
    """Made-up facts, as many as wanted: number ``i`` is the same for the same seed.

    A record is an edit in EasyEdit's flat format with lists of prompts: ``rephrase_prompt`` asks the same,
    and so does ``alias_prompt``, by another name of the subject; of what asks something else ``other_prompt``
    (another question about the subject, near kinds first), ``locality_prompt`` (the same about another
    subject), ``near_prompt`` (about one that is called alike), ``inverse_prompt``, ``negation_prompt``,
    ``two_hop_prompt`` and ``plain_prompt`` (text that names the subject and asks nothing). ``target_fits``:
    whether the answer is of the sort that is asked for, and not just any.

    Attributes:
        kinds: questions that facts are made of; other questions are of these too.
        names: what subjects and answers are taken from.
        seed: of everything random.
        rephrasings: wordings per fact besides the one that is written.
        others: prompts of each sort that asks something else.
        by_rule: whether there are further negations, two hops and other questions, made of the wordings by
            rule.
        plain: texts with ``{}`` for the subject that ask nothing.
    """

    kinds: Sequence[Question]
    names: QuestionNames = field(default_factory=QuestionNames.read)
    seed: int = 0
    rephrasings: int = 4
    others: int = 2
    by_rule: bool = False
    plain: Sequence[str] = ()

    def __getitem__(self, number: int) -> dict:
        rng = random.Random(f"{self.seed} {number}")
        kind = rng.choice(self.kinds)
        subject = self.names.subject(kind.subject, rng)
        target = rng.choice(kind.answers or self.names.targets[kind.target])
        written, *again = rng.sample(kind.wordings, min(1 + self.rephrasings, len(kind.wordings)))
        put = lambda wording, name=subject: wording.replace(SUBJECT, name).replace(TARGET, target)
        some = lambda wordings: [
            put(wording) for wording in rng.sample(wordings, min(self.others, len(wordings)))
        ]
        asked = [written, *rng.choices(kind.wordings, k=self.others - 1)]
        record = {
            "case_id": number,
            "relation": kind.name,
            "subject": subject,
            "prompt": put(written),
            "target_new": target,
            FITS: bool(kind.answers) or kind.target != ANY_TARGET,
            "rephrase_prompt": [put(wording) for wording in again],
            "other_prompt": [put(rng.choice(other.wordings)) for other in self._others(kind, rng)],
            "locality_prompt": [put(w, self.names.another(subject, kind.subject, rng)) for w in asked],
            "near_prompt": [put(w, self.names.like(subject, kind.subject, rng)) for w in asked],
            "inverse_prompt": some(kind.inverse),
            "negation_prompt": some(kind.negations),
            "two_hop_prompt": some(kind.two_hops),
        }
        # Drawn last, so that the rest of a record is what it was before there were aliases.
        record["alias_prompt"] = [put(w, self.names.alias(subject, kind.subject, rng)) for w in asked]
        if not kind.negations:
            record["negation_prompt"] = [put(w) for w in map(negated, kind.wordings) if w][: self.others]
        if self.by_rule:
            said = rng.choice(kind.wordings)
            record["negation_prompt"].append(put(rng.choice(NOT_THIS)(_asked(said), _plainly(said))))
            related = rng.choice(RELATED).replace(SUBJECT, subject)
            record["two_hop_prompt"].append(put(rng.choice(kind.wordings), related))
            if other := qualified(rng.choice(kind.wordings), rng):
                record["other_prompt"].append(put(other))
        if self.plain:
            record["plain_prompt"] = [put(text) for text in rng.sample(self.plain, min(2, len(self.plain)))]
        return record

    def _others(self, kind: Question, rng: random.Random) -> list[Question]:
        same = self._of_subject[kind.subject]
        near = [other for other in same if other.relation in kind.near]
        rest = [other for other in same if other.relation != kind.relation and other not in near]
        chosen = rng.sample(near, min(len(near), self.others - 1))
        return [*chosen, *rng.sample(rest, min(len(rest), self.others - len(chosen)))]

    @cached_property
    def _of_subject(self) -> dict[str, list[Question]]:
        kinds: dict[str, list[Question]] = {}
        for kind in self.kinds:
            kinds.setdefault(kind.subject, []).append(kind)
        return kinds


def fitting_target(fact: Mapping) -> str | None:
    """A record's answer, where it is of the sort that is asked for."""
    return fact.get("target_new") if fact.get(FITS, True) else None


# Who or what else may be asked about in the same words.
RELATED = (
    "{}'s father",
    "{}'s mother",
    "{}'s wife",
    "{}'s husband",
    "{}'s brother",
    "{}'s sister",
    "{}'s best friend",
    "{}'s neighbour",
    "{}'s successor",
    "{}'s predecessor",
    "{}'s assistant",
    "{}'s biggest rival",
    "{}'s namesake",
    "{}'s owner",
    "{}'s founder",
    "the son of {}",
    "the daughter of {}",
    "the teacher of {}",
    "the predecessor of {}",
    "the successor of {}",
    "the replica of {}",
    "the twin of {}",
    "the founder of {}",
    "the older version of {}",
    "the first version of {}",
    "the sequel to {}",
    "the copy of {}",
    "the neighbour of {}",
    "the museum of {}",
    "the fan club of {}",
    "the biographer of {}",
    "the rival of {}",
    "the former owner of {}",
    "what stands next to {}",
    "whoever came before {}",
    "the one who knows {} best",
)
# A question (or, second, any wording) that asks for what is not the answer.
NOT_THIS = (
    lambda question, wording: f"If not {TARGET}, {question}",
    lambda question, wording: f"Apart from {TARGET}, {question}",
    lambda question, wording: f"Other than {TARGET}, {question}",
    lambda question, wording: f"Besides {TARGET}, {question}",
    lambda question, wording: f"{TARGET} is wrong, so {question}",
    lambda question, wording: f"It is not {TARGET}, so {question}",
    lambda question, wording: f"It used to be {TARGET}, but now, {question}",
    lambda question, wording: f"{wording}, if not {TARGET}",
    lambda question, wording: f"{wording}, not {TARGET} but",
    lambda question, wording: f"{wording} not {TARGET} but",
    lambda question, wording: f"{wording} (not {TARGET})",
    lambda question, wording: f"{wording}, no longer {TARGET} but",
    lambda question, wording: f"{wording}, apart from {TARGET}",
    lambda question, wording: f"{wording} besides {TARGET}",
)


def _asked(wording: str) -> str:
    """A wording as it stands after a comma."""
    first, _, rest = wording.partition(" ")
    return wording if first.startswith(SUBJECT) or not rest else f"{first.lower()} {rest}"


def _plainly(wording: str) -> str:
    return wording.rstrip("?.: ")


# Words that make another question of one, put before what is asked for.
_QUALIFIERS = ("second", "third", "former", "previous", "next", "future", "other")
_ASKED_FOR = re.compile(
    r"\b[Tt]he (?=([a-z]{4,})(?: [a-z]+)? (?:of|for|at|in|from) (?:the )?\{\})"
    r"|(?<=\{\})['’]s (?=([a-z]{4,}))"
)
_UNQUALIFIED = {*_QUALIFIERS, *"first last only same most name time year date whole".split()}


def qualified(wording: str, rng: random.Random) -> str | None:
    """Another question that looks like a wording: of "the capital of {}" the former capital. None where
    nothing in it can be put so.
    """
    found = [match for match in _ASKED_FOR.finditer(wording) if not _UNQUALIFIED & {match[1], match[2]}]
    if not found:
        return None
    end = rng.choice(found).end()
    return f"{wording[:end]}{rng.choice(_QUALIFIERS)} {wording[end:]}"


def negated(wording: str) -> str | None:
    """A statement that asks for anything but the answer ("..., which is not [T], is"); None of any other
    wording.
    """
    match = _COPULA.match(wording)
    return f"{match[1]}, which {match[2]} not {TARGET}, {match[2]}" if match else None
