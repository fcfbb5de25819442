"""The demo's page, in Gradio."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
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
        with gr.Accordion("Why: each sentence of the prompt, taken alone, and the nearest fact", open=True):
            why = gr.Dataframe(headers=REASONS, interactive=False, elem_id="why", wrap=True)
            picture = gr.Plot(label="the facts nearest to the prompt", elem_id="picture")
        with gr.Accordion("Probes of the last edit", open=True):
            probes = gr.Dataframe(headers=PROBES, interactive=False, elem_id="probes", wrap=True)
        facts = _listing(bench)

        listed = [facts["table"], facts["changes"]]
        shown = lambda words: (_facts(bench.facts(words)), _changes(bench))

        def on_write(prompt: str, target: str, subject: str, words: str):
            fact, milliseconds = bench.write(prompt, target, subject)
            told = f"Written in **{milliseconds:.0f} ms**: {fact.prompt} **{fact.target_new}**"
            yield told, *shown(words), gr.skip()
            yield gr.skip(), gr.skip(), gr.skip(), _probes(bench.probed(fact))

        def on_ask(prompt: str, chat: bool, tokens: float) -> Iterator[tuple]:
            first = (bench.decided(prompt), _reasons(bench.why(prompt)), _scores(bench, prompt))
            for base, edited in bench.ask(prompt, chat, int(tokens)):
                yield base, edited, *first
                first = (gr.skip(), gr.skip(), gr.skip())

        def on_forget(ids: str, words: str):
            chosen = [int(each) for each in ids.replace(",", " ").split()]
            if not chosen:
                raise ValueError("type the ids of the facts that are to be forgotten")
            bench.forget(chosen)
            return f"Forgotten: {', '.join(map(str, chosen))}", *shown(words)

        def on_undo(words: str):
            bench.undo()
            return "The last operation is taken back", *shown(words)

        def on_import(path: str, words: str):
            return f"{bench.import_lines(Path(path))} facts read", *shown(words)

        def on_export():
            path = Path(tempfile.mkdtemp()) / "facts.jsonl"
            bench.export_lines(path)
            return str(path)

        def on_point(words: str):
            bench.set_point()
            return shown(words)[1]

        status, words = facts["status"], facts["words"]
        # Tokenizers are not made for threads: what touches the model comes one after the other.
        alone = {"concurrency_limit": 1, "concurrency_id": "model"}
        write["button"].click(
            _told_streaming(on_write, 0, 4),
            [write["prompt"], write["target"], write["subject"], words],
            [write["status"], *listed, probes],
            api_name="write",
            **alone,
        )
        asked = dict(
            fn=_told_streaming(on_ask, 2, 5),
            inputs=[ask["prompt"], ask["chat"], ask["tokens"]],
            outputs=[ask["base"], ask["edited"], ask["status"], why, picture],
        )
        ask["button"].click(**asked, api_name="ask", **alone)
        ask["prompt"].submit(**asked, api_name=False, **alone)
        facts["forget"].click(
            _told(on_forget, 3), [facts["ids"], words], [status, *listed], api_name="forget", **alone
        )
        facts["undo"].click(_told(on_undo, 3), [words], [status, *listed], api_name="undo", **alone)
        words.change(shown, [words], listed, api_name="search", **alone)
        facts["import"].upload(
            _told(on_import, 3), [facts["import"], words], [status, *listed], api_name=False, **alone
        )
        facts["export"].click(on_export, [], [facts["file"]], api_name=False, **alone)
        facts["point"].click(on_point, [words], [facts["changes"]], api_name=False, **alone)
        blocks.load(shown, [words], listed, api_name=False)
    return blocks


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
    written, gone = bench.changes()
    lines = [f"- written: {fact.prompt} **{fact.target_new}**" for fact in written]
    lines += [f"- gone: {fact.prompt} **{fact.target_new}**" for fact in gone]
    return "Changes since the point:\n\n" + "\n".join(lines) if lines else "No changes since the point."


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
