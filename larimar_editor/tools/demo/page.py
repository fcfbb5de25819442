"""The demo's page, in Gradio."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
import pandas as pd
from matplotlib.figure import Figure

from larimar_editor.state.fact import Fact
from larimar_editor.tools.demo.workbench import Probed, Reason, Workbench

FACTS = ["id", "prompt", "answer", "subject"]
REASONS = ["sentence", "nearest fact", "score", "threshold", "in scope", "why"]
PROBES = ["", "sort", "question", "memory read", "as before, to the bit", "base model", "edited model"]
_EXPECTED = (ValueError, OSError, KeyError, RuntimeError, TypeError)  # of a user's input or a file


def page(bench: Workbench) -> gr.Blocks:
    """The page of a bench; ``launch`` opens it."""
    with gr.Blocks(title="Larimar", analytics_enabled=False) as blocks:
        gr.Markdown(
            "# Larimar\nWrite a fact, ask anything, and see what the edit changed. What is out of scope is "
            f"answered by the base model, to the bit. Facts are kept in `{bench.path}`."
        )
        with gr.Row():
            with gr.Column(scale=1):
                write = _writing()
            with gr.Column(scale=2):
                ask = _asking()
        why = _explaining()
        facts = _listing(bench)
        actions = _Actions(bench)
        _connect_writing(actions, write, facts, why)
        _connect_asking(actions, ask, why)
        _connect_listing(actions, facts)
        blocks.load(actions.shown, [facts["words"]], [facts["table"], facts["changes"]], api_name=False)
    return blocks


@dataclass(frozen=True)
class _Actions:
    """What the page's buttons do with a bench: each gives what is shown in the parts that it is connected
    with. ``words`` are what the list of facts is searched for.
    """

    bench: Workbench

    def shown(self, words: str) -> tuple[pd.DataFrame, str]:
        return _facts(self.bench.facts(words)), _changes(self.bench)

    def write(self, prompt: str, target: str, subject: str, words: str) -> Iterator[tuple]:
        fact, milliseconds = self.bench.write(prompt, target, subject)
        told = f"Written in **{milliseconds:.0f} ms**: {fact.prompt} **{fact.target_new}**"
        yield told, *self.shown(words), gr.skip()
        yield gr.skip(), gr.skip(), gr.skip(), _probes(self.bench.probed(fact))

    def ask(self, prompt: str, chat: bool, tokens: float) -> Iterator[tuple]:
        bench = self.bench
        first = (bench.decided(prompt), _reasons(bench.why(prompt)), _scores(bench, prompt))
        for base, edited in bench.ask(prompt, chat, int(tokens)):
            yield base, edited, *first
            first = (gr.skip(), gr.skip(), gr.skip())

    def forget(self, ids: str, words: str) -> tuple:
        chosen = [int(each) for each in ids.replace(",", " ").split()]
        if not chosen:
            raise ValueError("type the ids of the facts that are to be forgotten")
        self.bench.forget(chosen)
        return f"Forgotten: {', '.join(map(str, chosen))}", *self.shown(words)

    def undo(self, words: str) -> tuple:
        self.bench.undo()
        return "The last operation is taken back", *self.shown(words)

    def read_lines(self, path: str, words: str) -> tuple:
        return f"{self.bench.import_lines(Path(path))} facts read", *self.shown(words)

    def write_lines(self) -> str:
        path = Path(tempfile.mkdtemp()) / "facts.jsonl"
        self.bench.export_lines(path)
        return str(path)

    def set_point(self, words: str) -> str:
        self.bench.set_point()
        return self.shown(words)[1]


# Tokenizers are not made for threads: what touches the model comes one after the other.
_ALONE: dict[str, Any] = {"concurrency_limit": 1, "concurrency_id": "model"}


def _connect_writing(actions: _Actions, write: dict, facts: dict, why: dict) -> None:
    write["button"].click(
        _told_streaming(actions.write, 0, 4),
        [write["prompt"], write["target"], write["subject"], facts["words"]],
        [write["status"], facts["table"], facts["changes"], why["probes"]],
        api_name="write",
        **_ALONE,
    )


def _connect_asking(actions: _Actions, ask: dict, why: dict) -> None:
    asked = dict(
        fn=_told_streaming(actions.ask, 2, 5),
        inputs=[ask["prompt"], ask["chat"], ask["tokens"]],
        outputs=[ask["base"], ask["edited"], ask["status"], why["reasons"], why["picture"]],
    )
    ask["button"].click(**asked, api_name="ask", **_ALONE)
    ask["prompt"].submit(**asked, api_name=False, **_ALONE)


def _connect_listing(actions: _Actions, facts: dict) -> None:
    words, listed = facts["words"], [facts["table"], facts["changes"]]
    told = [facts["status"], *listed]
    facts["forget"].click(_told(actions.forget, 3), [facts["ids"], words], told, api_name="forget", **_ALONE)
    facts["undo"].click(_told(actions.undo, 3), [words], told, api_name="undo", **_ALONE)
    words.change(actions.shown, [words], listed, api_name="search", **_ALONE)
    facts["import"].upload(
        _told(actions.read_lines, 3), [facts["import"], words], told, api_name=False, **_ALONE
    )
    facts["export"].click(actions.write_lines, [], [facts["file"]], api_name=False, **_ALONE)
    facts["point"].click(actions.set_point, [words], [facts["changes"]], api_name=False, **_ALONE)


def _writing() -> dict[str, Any]:
    return {
        "prompt": gr.Textbox(
            label="Prompt", placeholder="The mother tongue of Danielle Darrieux is", elem_id="fact-prompt"
        ),
        "target": gr.Textbox(label="Answer", placeholder="English", elem_id="fact-target"),
        "subject": gr.Textbox(
            label="Subject, if you like", placeholder="Danielle Darrieux", elem_id="fact-subject"
        ),
        "button": gr.Button("Write", variant="primary", elem_id="write"),
        "status": gr.Markdown(elem_id="write-status"),
    }


def _asking() -> dict[str, Any]:
    parts: dict[str, Any] = {
        "prompt": gr.Textbox(
            label="Ask", placeholder="What language did Danielle Darrieux grow up with?", elem_id="ask-prompt"
        )
    }
    with gr.Row():
        parts["chat"] = gr.Checkbox(label="as a chat", elem_id="chat")
        parts["tokens"] = gr.Slider(5, 200, 40, step=5, label="tokens", elem_id="tokens")
        parts["button"] = gr.Button("Ask", variant="primary", elem_id="ask")
    with gr.Row():
        parts["base"] = gr.Textbox(label="Base model", lines=5, interactive=False, elem_id="base")
        parts["edited"] = gr.Textbox(label="Edited model", lines=5, interactive=False, elem_id="edited")
    parts["status"] = gr.Markdown(elem_id="ask-status")
    return parts


def _explaining() -> dict[str, Any]:
    parts: dict[str, Any] = {}
    with gr.Accordion("Why: each sentence of the prompt, taken alone, and the nearest fact", open=True):
        parts["reasons"] = gr.Dataframe(headers=REASONS, interactive=False, elem_id="why", wrap=True)
        parts["picture"] = gr.Plot(label="the facts nearest to the prompt", elem_id="picture")
    with gr.Accordion("Probes of the last edit", open=True):
        parts["probes"] = gr.Dataframe(headers=PROBES, interactive=False, elem_id="probes", wrap=True)
    return parts


def _listing(bench: Workbench) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    gr.Markdown("## Facts")
    with gr.Row():
        parts["words"] = gr.Textbox(label="Search", elem_id="search")
        parts["ids"] = gr.Textbox(label="Forget these ids", elem_id="forget-ids")
        parts["forget"] = gr.Button("Forget", elem_id="forget")
        parts["undo"] = gr.Button("Undo", elem_id="undo")
        parts["point"] = gr.Button("Count changes from now", elem_id="point")
    parts["status"] = gr.Markdown(elem_id="facts-status")
    parts["table"] = gr.Dataframe(_facts(bench.facts()), interactive=False, elem_id="facts", wrap=True)
    parts["changes"] = gr.Markdown(elem_id="changes")
    with gr.Row():
        parts["import"] = gr.UploadButton("Import JSON lines", file_types=[".jsonl"], elem_id="import")
        parts["export"] = gr.Button("Export", elem_id="export")
        parts["file"] = gr.File(label="Exported", interactive=False, elem_id="exported")
    return parts


def _told(function: Callable, outputs: int) -> Callable:
    """What a user did wrong, said where it was done; everything else on the page stays as it is."""

    def run(*values):
        try:
            return function(*values)
        except _EXPECTED as error:
            return _error(error), *[gr.skip()] * (outputs - 1)

    return run


def _told_streaming(function: Callable, place: int, outputs: int) -> Callable:
    """The same of a function that yields; the error goes to one of its outputs."""

    def run(*values):
        try:
            yield from function(*values)
        except _EXPECTED as error:
            skipped = [gr.skip()] * outputs
            yield *skipped[:place], _error(error), *skipped[place + 1 :]

    return run


def _error(error: Exception) -> str:
    return f"⚠️ **{error}**"


def _facts(facts: Sequence[Fact]) -> pd.DataFrame:
    rows = [(fact.id, fact.prompt, fact.target_new, fact.subject or "") for fact in facts]
    return pd.DataFrame(rows, columns=FACTS)


def _reasons(reasons: Sequence[Reason]) -> pd.DataFrame:
    rows = [
        (
            each.sentence,
            each.nearest,
            f"{each.score:.3f}",
            f"{each.threshold:.3f}",
            _mark(each.in_scope),
            each.why,
        )
        for each in reasons
    ]
    return pd.DataFrame(rows, columns=REASONS)


def _probes(probed: Sequence[Probed]) -> pd.DataFrame:
    rows = [
        (
            "✓" if each.as_wanted else "✗",
            each.probe.sort,
            each.probe.prompt,
            _mark(each.in_scope),
            _mark(each.same),
            each.base,
            each.edited,
        )
        for each in probed
    ]
    return pd.DataFrame(rows, columns=PROBES)


def _mark(yes: bool) -> str:
    return "yes" if yes else "no"


def _changes(bench: Workbench) -> str:
    (written, gone), (count, lost) = bench.changes(), bench.change_counts()
    lines = [f"- written: {fact.prompt} **{fact.target_new}**" for fact in written]
    lines += [f"- gone: {fact.prompt} **{fact.target_new}**" for fact in gone]
    if not lines:
        return "No changes since the point."
    last = ", the last of which are" if len(lines) < count + lost else ""
    return f"Changes since the point: {count} written, {lost} gone{last}:\n\n" + "\n".join(lines)


def _scores(bench: Workbench, prompt: str) -> Figure | None:
    """Cosines of the nearest facts; below the line a fact gets no closer look."""
    found = bench.nearest(prompt)[::-1]
    if not found:
        return None
    figure = Figure(figsize=(8, 0.5 + 0.3 * len(found)), layout="constrained")
    axes = figure.subplots()
    axes.barh(
        [text if len(text) < 60 else f"{text[:57]}..." for text, _ in found], [score for _, score in found]
    )
    axes.axvline(bench.model.config.scope_least_cosine, color="tab:red", linestyle="--")
    axes.set(xlabel="cosine of the first stage; left of the line there is no closer look", xlim=(0, 1))
    return figure
