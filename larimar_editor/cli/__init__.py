"""The ``larimar-editor`` command: one module per command, each of which loads what it needs when it runs."""

from __future__ import annotations

import os
import sys

import typer

from larimar_editor.cli import (
    bench,
    calibrate,
    compare,
    convert_original,
    data,
    demo,
    easyedit_patch,
    evaluate,
    facts,
    fit,
    lm_eval,
    results,
    search_settings,
    serve,
    train,
    train_detector,
)

app = typer.Typer(
    help="Larimar: one-shot, gradient-free knowledge editing with an episodic memory, for EasyEdit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(fit.fit)
app.command()(fit.refit)
app.command()(train.train)
app.command(name="train-detector")(train_detector.train_detector)
app.command()(calibrate.calibrate)
app.command()(compare.compare)
app.command(name="search-settings")(search_settings.search_settings)
app.command(name="convert-original")(convert_original.convert_original)
app.command(name="eval")(evaluate.evaluate)
app.command()(results.results)
app.command()(bench.bench)
app.command(name="easyedit-patch")(easyedit_patch.easyedit_patch)
app.command(name="lm-eval", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    lm_eval.lm_eval
)
app.command()(serve.serve)
app.command()(demo.demo)
app.add_typer(data.app, name="data")
app.add_typer(facts.app, name="facts")


def main() -> None:
    """Entry point: errors as one line, not as a traceback (unless ``LARIMAR_TRACEBACK`` is set)."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        app()
    except (OSError, ImportError, ValueError) as error:
        if os.environ.get("LARIMAR_TRACEBACK"):
            raise
        print(f"larimar-editor: {error}", file=sys.stderr)
        sys.exit(2)
