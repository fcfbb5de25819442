"""Facts written, as many as there is patience for, and all kept: what is right after the last?"""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tqdm.auto import tqdm

from larimar_editor.data.edits import Edit
from larimar_editor.data.question_sources import questions
from larimar_editor.data.questions.facts import AskedFacts
from larimar_editor.data.questions.kinds import SUBJECT
from larimar_editor.evaluation.harness.baselines import retained_edit_conditions
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.many_edits import last_of_each_prompt
from larimar_editor.evaluation.harness.plots import Panel, panels_plot
from larimar_editor.evaluation.harness.records import Condition, read_records, whole_lines
from larimar_editor.evaluation.harness.scores import target_scores
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.reading import Reading

COUNTS = (100, 1000, 10_000, 100_000)
ASKED = 300  # facts that are asked for after the last, spread evenly over all
METHODS = ("GRACE", "WISE", "MEMIT", "ROME")
_TIMED = 100  # last edits whose median is told
_BATCH = 16
_BLOCK = 256  # facts that are written together, where their time is not told


def stream_of(context: Context) -> Iterator[Edit]:
    """Facts without an end: CounterFact's and ZsRE's, then made-up ones. No prompt comes twice, nor one
    question about one subject in two wordings; and no made-up fact answers what another one's other question
    or neighbour asks.
    """
    seen: set[str] = set()
    for edit in (*context.counterfact_edits, *context.zsre_edits):
        if edit.target_new.strip() and edit.prompt.strip() not in seen:  # ZsRE has a few without a target
            seen.add(edit.prompt.strip())
            yield edit
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
        finally:
            model.close_state(keep=False)
            model.edited_state = model.edited_state.cleared()
        return [record | self._cost(count) for record in records]

    def _write(self, model: LarimarForCausalLM, count: int) -> None:
        first = len(model.edited_state.store)
        whole = "".join(line + "\n" for line in whole_lines(self._seconds))
        self._seconds.write_text(whole, encoding="utf-8")  # without what an interrupted run left of a line
        alone = max(first, count - _TIMED)  # from here on one by one, as is timed
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
        last = [spent[number] for number in range(max(1, count - _TIMED + 1), count + 1) if number in spent]
        size = sum(path.stat().st_size for path in self._folder.glob("facts.db*"))
        return {"bytes": size / count} | ({"seconds": median(last)} if last else {})


def _scores(model: LarimarForCausalLM, edits: Sequence[Edit]) -> list[dict]:
    """Each fact as it was written, in other words, another question about its subject, and a neighbour."""
    records: list[dict] = [{} for _ in edits]
    pairs = {
        "written": lambda edit: [(edit.prompt, edit.target_new)],
        "reworded": lambda edit: [(prompt, edit.target_new) for prompt in edit.rephrase_prompts[:1]],
        "other": lambda edit: list(zip(edit.portability_prompts[:1], edit.portability_ground_truth)),
        "neighbour": lambda edit: list(zip(edit.locality_prompts[:1], edit.locality_ground_truth)),
    }
    for kind, of in pairs.items():
        wanted = [(place, pair) for place, edit in enumerate(edits) for pair in of(edit)]
        for start in tqdm(range(0, len(wanted), _BATCH), desc=kind, unit="pass", leave=False):
            part = wanted[start : start + _BATCH]
            scores = target_scores(model, [pair for _, pair in part])
            if kind in ("other", "neighbour"):
                base = target_scores(
                    model,
                    [pair for _, pair in part],
                    Reading.nothing(len(part), model.config.latent_size),
                )
                values = [score.as_before(other) for score, other in zip(scores, base)]
            else:
                values = [score.accuracy for score in scores]
            for (place, _), value in zip(part, values):
                records[place][kind] = value
    return records


def _conditions(context: Context) -> list[Condition]:
    counts = [count for count in COUNTS if count <= (context.limit or COUNTS[1])] or [
        context.limit or COUNTS[0]
    ]
    # The files' own cases all count, however few of them are wanted in other tables.
    edits = list(itertools.islice(stream_of(context), counts[-1]))
    life = Life(context, edits)
    few = last_of_each_prompt(edits)[: context.baseline_cases]
    own = [_condition(context, life, count) for count in counts]
    return own + retained_edit_conditions(context, few, METHODS, None)


def _condition(context: Context, life: Life, count: int) -> Condition:
    places = random.Random(context.seed + count).sample(range(count), min(ASKED, count))
    cases = {str(place): life.edits[place] for place in sorted(places)}
    return Condition(
        f"Larimar, {count:,} facts", cases, lambda asked: life.ask(count, asked), 0, {"facts": count}
    )


def _plot(rows: Sequence[Mapping], path: Path) -> None:
    own = [row for row in rows if row["seconds"]]
    panels = []
    kinds = {"written": "as written", "reworded": "reworded", "neighbour": "neighbours, as before"}
    lines = {
        name: [(row["settings"]["facts"], row[key]) for row in own if row[key]] for key, name in kinds.items()
    }
    panels.append(Panel(lines, "facts", "share", log="x"))
    seconds = [(row["settings"]["facts"], row["seconds"]) for row in own]
    panels.append(Panel({"seconds of an edit": seconds}, "facts", "seconds", log="x"))
    panels_plot(panels, path)


def _either(key: str, of_methods: str = ""):
    return lambda record: record.get(key, record.get(of_methods))


EVALUATION = Evaluation(
    "lifelong",
    "Facts written, and all kept, asked after the last",
    _conditions,
    (
        Column("written", "As written", _either("written", "rewrite")),
        Column("reworded", "Reworded", _either("reworded", "rephrase")),
        Column("other", "Other question, as before", _either("other")),
        Column("neighbour", "Neighbour, as before", _either("neighbour", "locality")),
        Column("seconds", "Seconds of an edit", _either("seconds")),
        Column("bytes", "Bytes of a fact", _either("bytes")),
    ),
    _plot,
    note=f"Share of the answer's tokens, of up to {ASKED} facts drawn evenly; CounterFact's and ZsRE's cases "
    "come first, then made-up ones of all kinds of questions, held out or not. As before: share of tokens "
    "that are the base model's. The last hundred before a count are "
    "written one by one, with the file on the disk, and their median is told; those before them in blocks. "
    "--limit is how many facts there are at most; 1,000 by default.",
)
