"""Facts written, as many as there is patience for, and all kept: what is right after the last?"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm.auto import tqdm

from larimar_editor.data.edits import Edit, load_edits
from larimar_editor.data.question_sources import questions
from larimar_editor.data.questions.facts import AskedFacts
from larimar_editor.data.questions.kinds import SUBJECT
from larimar_editor.evaluation.harness.baselines import KEEPING
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation, Figure
from larimar_editor.evaluation.harness.lifetimes import (
    ASKED,
    TIMED,
    Lifetime,
    drawn,
    of_the_last,
    perplexity_ratio,
    questions_of,
    records_of,
    texts_of,
    to_stay,
)
from larimar_editor.evaluation.harness.plots import Panel, panels_plot
from larimar_editor.evaluation.harness.records import (
    Condition,
    LeftOut,
    cases_of,
    processes,
    read_records,
    whole_lines,
)
from larimar_editor.evaluation.harness.scores import TargetScore, target_scores
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.reading import Reading
from larimar_editor.utils.device import environment

COUNTS = (100, 1000, 10_000, 100_000)
_BATCH = 16
_BLOCK = 256  # facts that are written together, where their time is not told


def stream_of(context: Context) -> Iterator[Edit]:
    """Facts without an end: CounterFact's and ZsRE's, then made-up ones. No prompt comes twice, nor one
    question about one subject in two wordings; and no made-up fact answers what another one's other question
    or neighbour asks.
    """
    seen: set[str] = set()
    # Of the files all, however few cases are wanted elsewhere: a longer stream begins as a shorter one does.
    for edit in (*load_edits(context.counterfact), *load_edits(context.zsre)):
        if edit.prompt.strip() not in seen:
            seen.add(edit.prompt.strip())
            # Theirs is what follows from the new answer, not what is to stay.
            yield replace(edit, portability_prompts=(), portability_ground_truth=())
    yield from _made_up(context.seed, seen)


def _made_up(seed: int, written: set[str]) -> Iterator[Edit]:
    """Made-up facts, none of which asks what is in ``written``."""
    sources = questions()
    kinds = [*sources.held_out, *(kind for row in sources.of_subjects.values() for kind in row)]
    kinds += [*sources.training["kinds"], *sources.training["sheets"]]
    wordings = {kind.name: kind.wordings for kind in kinds}
    made = AskedFacts(kinds, sources.names, seed)
    answered, unanswered = set(written), set[str]()  # texts that a fact asks, and that none may ask
    for number in itertools.count():
        record = made[number]
        asks = {wording.replace(SUBJECT, record["subject"]) for wording in wordings[record["relation"]]}
        if record["prompt"] in answered or not unanswered.isdisjoint(asks):
            continue
        answered |= asks
        other, neighbour = (
            [text for text in record[sort] if text not in answered][:1]
            for sort in ("other_prompt", "locality_prompt")
        )
        unanswered |= {*other, *neighbour}
        yield Edit(
            record["prompt"],
            record["target_new"],
            "",
            record["subject"],
            tuple(record["rephrase_prompt"][:1]),
            tuple(neighbour),
            (record["target_new"],),
            tuple(other),
            (record["target_new"],),
            case_id=number,
        )


@dataclass
class Life:
    """Writes facts into a file, which an interrupted run goes on with.

    Args:
        context: what is run on what.
        edits: all of them.
    """

    context: Context
    edits: Sequence[Edit]

    @property
    def _folder(self) -> Path:
        return self.context.out / "lifelong"

    @property
    def _seconds(self) -> Path:
        return self._folder / "seconds.jsonl"

    def ask(self, count: int, asked: Sequence[Edit]) -> list[dict]:
        """Records of some of the first ``count`` facts, when so many are written and no more."""
        model = self.context.larimar()
        self._folder.mkdir(parents=True, exist_ok=True)
        model.open_state(self._folder / "facts.db")
        try:
            if len(model.edited_state.store) > count:
                raise ValueError(
                    f"{self._folder} has more than {count} facts; remove it, or choose another --out"
                )
            self._write(model, count)
            records = _scores(model, asked)
            perplexity = _perplexity(model, self.context.plain_text)
        finally:
            model.close_state(keep=False)
            model.edited_state = model.edited_state.cleared()
        here = {"environment": environment(self.context.device)}
        cost = self._cost(count) | {"perplexity": perplexity} | here
        return [record | cost for record in records]

    def _write(self, model: LarimarForCausalLM, count: int) -> None:
        first = len(model.edited_state.store)
        whole = "".join(line + "\n" for line in whole_lines(self._seconds))
        self._seconds.write_text(whole, encoding="utf-8")  # without what an interrupted run left of a line
        alone = max(first, count - TIMED)  # from here on one by one, as is timed
        starts = [*range(first, alone, _BLOCK), *range(alone, count)]
        with (
            self._seconds.open("a", encoding="utf-8", buffering=1) as log,
            tqdm(desc="writing", unit="fact", initial=first, total=count) as bar,
        ):
            for start, end in itertools.pairwise([*starts, count]):
                block = [edit.request for edit in self.edits[start:end]]
                began = time.perf_counter()
                model.write(block)
                if start >= alone:
                    seconds = time.perf_counter() - began
                    log.write(json.dumps({"fact": start + 1, "seconds": seconds}) + "\n")
                bar.update(end - start)

    def _cost(self, count: int) -> dict[str, float]:
        spent = {each["fact"]: each["seconds"] for each in read_records(self._seconds)}
        last = [spent[number] for number in range(max(1, count - TIMED + 1), count + 1) if number in spent]
        size = sum(path.stat().st_size for path in self._folder.glob("facts.db*"))
        return {"bytes": size / count} | ({"seconds": of_the_last(last)} if last else {})


def _scores(model: LarimarForCausalLM, edits: Sequence[Edit]) -> list[dict]:
    """What `questions_of` these facts is answered."""
    questions = questions_of(edits)
    edited = _in_batches(model, [question.pair for question in questions], "asking")
    pairs = to_stay(questions)
    base = _in_batches(model, pairs, "asking the base model", nothing=True)
    return records_of(questions, edited, dict(zip(pairs, base, strict=True)))


def _perplexity(model: LarimarForCausalLM, text: str) -> float:
    texts = texts_of(text)
    edited, base = (_in_batches(model, texts, "plain text", nothing) for nothing in (False, True))
    return perplexity_ratio(edited, base)


def _in_batches(
    model: LarimarForCausalLM, pairs: Sequence[tuple[str, str]], what: str, nothing: bool = False
) -> list[TargetScore]:
    """Scores of pairs, with what is written or as if nothing were."""
    result: list[TargetScore] = []
    for start in tqdm(range(0, len(pairs), _BATCH), desc=what, unit="pass", leave=False):
        part = pairs[start : start + _BATCH]
        reading = Reading.nothing(len(part), model.config.latent_size) if nothing else None
        result += target_scores(model, part, reading)
    return result


def _conditions(context: Context) -> list[Condition]:
    last = min(context.limit or COUNTS[1], COUNTS[-1])
    counts = [*(count for count in COUNTS if count < last), last]
    # The files' own cases all count, however few of them are wanted in other tables.
    edits = list(itertools.islice(stream_of(context), counts[-1]))
    life = Life(context, edits)
    own = [_condition(life, count) for count in counts]
    if not processes().is_main_process:  # the others wait for the first while methods edit
        return own
    few = edits if context.minutes is not None else edits[: context.baseline_cases]
    lifetime = Lifetime(few, counts, context.minutes, texts_of(context.plain_text), context.seed)
    methods = context.baselines.methods(context, KEEPING)
    return own + [condition for method in methods for condition in _of_method(context, method, lifetime)]


def _condition(life: Life, count: int) -> Condition:
    return Condition(
        f"Larimar, {count:,} facts",
        _cases_at(life.edits, drawn(count, life.context.seed)),
        lambda asked: life.ask(count, asked),
        0,
        {"method": "Larimar", "facts": count},
    )


def _cases_at(edits: Sequence[Edit], places: Sequence[int]) -> dict[str, Edit]:
    return {str(place): edits[place] for place in places}


def _of_method(context: Context, method: str, lifetime: Lifetime) -> list[Condition]:
    """One condition for each number of facts that the method comes to, which is known only when it has: it
    edits here, if it has not before.
    """

    def left_out(reason: str) -> Condition:
        def score(cases: Sequence[Edit]) -> list[dict]:
            raise LeftOut(reason)

        return Condition(method, cases_of(lifetime.edits[:1]), score, 0)

    try:
        life = context.baselines.lifetime(context, method, lifetime)
    except LeftOut as reason:
        return [left_out(str(reason))]
    if not life["reached"]:
        return [left_out(f"{method} is left out: its first edit failed, {life['ended']}")]
    return [
        _reached(method, lifetime, life, reached, reached is life["reached"][-1])
        for reached in life["reached"]
    ]


def _reached(method: str, lifetime: Lifetime, life: Mapping, reached: Mapping, last: bool) -> Condition:
    facts, cost = reached["facts"], {key: reached[key] for key in ("seconds", "perplexity")}
    cost |= {"environment": life["environment"]}
    settings = {"method": method, "facts": facts, "minutes": lifetime.minutes}
    return Condition(
        f"{method}, {facts:,} facts",
        _cases_at(lifetime.edits, reached["places"]),
        lambda asked: [record | cost for record in reached["records"]],
        0,
        settings | ({"ended": life["ended"]} if last else {}),
        f"Larimar, {facts:,} facts" if facts in lifetime.counts else None,
    )


def _plot(rows: Sequence[Mapping], path: Path) -> None:
    kinds = {"written": "as written", "reworded": "reworded", "neighbour": "neighbours, as before"}
    own = [row for row in rows if row["settings"]["method"] == "Larimar"]
    methods = dict.fromkeys(row["settings"]["method"] for row in rows)
    answered = {f"Larimar, {name}": _line(own, key) for key, name in kinds.items()}
    seconds = {}
    for method in methods:
        of_method = [row for row in rows if row["settings"]["method"] == method]
        seconds[method] = _line(of_method, "seconds")
        if method != "Larimar":
            answered[f"{method}, as written"] = _line(of_method, "written")
    panels = [
        Panel(answered, "facts", "share", log="x"),
        Panel(seconds, "facts", "seconds of an edit", log="x"),
    ]
    panels_plot(panels, path)


def _line(rows: Sequence[Mapping], key: str) -> list[tuple[int, Mapping]]:
    return [(row["settings"]["facts"], row[key]) for row in rows if row[key]]


def _of(key: str):
    return lambda record: record.get(key)


def _of_the_life(key: str):
    """Each record has it, of all facts together."""
    return lambda records: records[0].get(key)


EVALUATION = Evaluation(
    "lifelong",
    "Facts written, and all kept, asked after the last",
    _conditions,
    (
        Column("written", "As written", _of("written")),
        Column("reworded", "Reworded", _of("reworded")),
        Column("other", "Other question, as before", _of("other")),
        Column("neighbour", "Neighbour, as before", _of("neighbour")),
        Figure(
            "perplexity", "Perplexity of plain text, the base model's being 1", _of_the_life("perplexity")
        ),
        Figure("seconds", "Seconds of an edit", _of_the_life("seconds")),
        Figure("bytes", "Bytes of a fact", _of_the_life("bytes")),
    ),
    _plot,
    note=f"Share of the answer's tokens, of up to {ASKED} facts drawn evenly; CounterFact's and ZsRE's cases "
    "come first, then made-up ones of all kinds of questions, held out or not. As before: share of tokens "
    "that are the base model's. The last hundred before a count are "
    "written one by one, with the file on the disk, and their median is told; those before them in blocks. "
    "EasyEdit's methods edit the same facts, each on top of those before, for --minutes (of editing) "
    "or up to --baselines; at each count that they come to they are asked the same questions as Larimar. "
    "--limit is how many facts there are at most; 1,000 by default.",
    reads=("counterfact", "zsre", "text"),
)
