"""The ``larimar-editor`` command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import typer

from larimar_editor.loading import DtypeName
from larimar_editor.training.cli import add_commands

app = typer.Typer(
    help="Larimar: one-shot, gradient-free knowledge editing with an episodic memory, for EasyEdit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def fit(
    text: Annotated[
        Optional[Path], typer.Option(help="UTF-8 text, one sentence a line. By default the sentences that ship.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="Decoder: a Hugging Face name, a folder, or an embedded model.")
    ] = "llama-smollm2-135m",
    out: Annotated[Path, typer.Option(help="Checkpoint folder to write.")] = Path("checkpoints/larimar"),
    sentences: Annotated[int, typer.Option(help="Sentences to use.", min=1)] = 6000,
    slots: Annotated[int, typer.Option(help="P: memory slots, the last tokens of a fact that are kept.", min=1)] = 4,
    code_size: Annotated[int, typer.Option(help="C / P: numbers per slot.", min=1)] = 768,
    key_gain: Annotated[float, typer.Option(help="Factor on a memory key's deviation from the mean key.", min=0)] = 2.0,
    value_gain: Annotated[float, typer.Option(help="The same for values.", min=0)] = 0.4,
    batch_size: Annotated[int, typer.Option(help="Sentences per decoder pass.", min=1)] = 64,
    dtype: Annotated[DtypeName, typer.Option(help="Decoder dtype while fitting.")] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    scope_threshold: Annotated[
        Optional[float], typer.Option(help="Threshold of the external scope detector; see `calibrate`.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Choice of sentences and the randomised PCA.")] = 0,
) -> None:
    """Make a Larimar checkpoint for a decoder in closed form: no gradient, about a minute for a small decoder."""
    import time

    from larimar_editor import fit as closed_form
    from larimar_editor.data import SENTENCES, read_sentences
    from larimar_editor.loading import load_decoder

    start = time.perf_counter()
    decoder, tokenizer = load_decoder(model, dtype, device)
    chosen = read_sentences(text or SENTENCES, limit=sentences, seed=seed)
    settings: dict[str, Any] = {} if scope_threshold is None else {"scope_threshold": scope_threshold}
    larimar = closed_form.fit(
        decoder,
        tokenizer,
        chosen,
        name=model,
        code_size=code_size,
        memory_slots=slots,
        key_gain=key_gain,
        value_gain=value_gain,
        batch_size=batch_size,
        seed=seed,
        **settings,
    )
    larimar.save_pretrained(out)
    report = {
        "checkpoint": str(out),
        "sentences": len(chosen),
        "latent_size": larimar.config.latent_size,
        "explained_variance": larimar.config.explained_variance,
        "seconds": round(time.perf_counter() - start, 1),
    }
    typer.echo(json.dumps(report))


add_commands(app)


@app.command()
def calibrate(
    checkpoint: Annotated[Optional[Path], typer.Option(help="Larimar checkpoint; the shipped one by default.")] = None,
    detector: Annotated[Literal["external", "internal"], typer.Option(help="Scope detector.")] = "external",
    data: Annotated[
        Optional[Path],
        typer.Option(
            help="Edits with rephrasings and neighbours (EasyEdit's, ROME's or ZsRE format). By default the project's own."
        ),
    ] = None,
    limit: Annotated[Optional[int], typer.Option(help="Use the first edits only.", min=1)] = None,
    train: Annotated[
        int,
        typer.Option(help="Made-up facts to learn the external detector's map from first, 80 or more; 0 learns none.", min=0),
    ] = 0,
    false_accepts: Annotated[
        Optional[float],
        typer.Option(help="Share of neighbours that may be let in; by default the equal-error point.", min=0, max=0.5),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Store the result in the checkpoint.")] = False,
    seed: Annotated[int, typer.Option(help="Of the made-up facts.")] = 0,
) -> None:
    """Find the scope detector's threshold: prints equal-error rate and F1 on rephrasings and neighbours.

    The internal detector is trained first, on all relations but every third, and measured on the others. The external
    detector's sentence encoder stays as it is; --train learns a linear map after it, from facts made by rule. Without
    --data the threshold then comes from such facts too: a map learned from three quarters of the relations is tried on the
    other quarter, whose neighbours are the same question about the most similar names. Other questions about the fact's own
    subject are counted besides: the detector tells them from rephrasings badly.
    """
    from larimar_editor import calibration
    from larimar_editor.data import load_edits
    from larimar_editor.embedded import resolve
    from larimar_editor.loading import load_larimar
    from larimar_editor.metric import train_metric
    from larimar_editor.scope import ExternalScopeDetector
    from larimar_editor.training.neighbours import made_up_facts

    if 0 < train < 80:
        raise typer.BadParameter(f"--train needs at least 80 facts to learn from and to try, got {train}")
    model, folder = load_larimar(checkpoint, "float32", {})
    episodic, edits, other = model.episodic, load_edits(data, limit), {}
    if detector == "external":
        if train:
            plain = ExternalScopeDetector(resolve(model.config.scope_encoder_name_or_path), 0.0, model.device)
            seen = made_up_facts(train - train // 4, plain.embed, seed=seed)
            unseen = made_up_facts(train // 4, plain.embed, held_out=True, seed=seed)
            episodic.learn_metric(seen + unseen)
        if train and data is None:
            plain.metric = train_metric(plain.embed, seen)
            result = calibration.calibrate(plain, calibration.as_edits(unseen, "near_prompt"), false_accepts)
            scores, same = calibration.pair_scores(plain, calibration.as_edits(unseen, "other_prompt"))
            other = {"other_questions_accepted": float((scores[~same] >= result.threshold).mean())}
        else:
            result = calibration.calibrate(episodic._sentence_encoder, edits, false_accepts)
    else:
        result, weights = calibration.calibrate_internal(episodic.encoder.encode, model.config.latent_size, edits)
        episodic.scope_weights = episodic.scope_weights | weights
    typer.echo(json.dumps({"detector": detector, "checkpoint": folder, "facts": train} | result.to_dict() | other))
    if write:
        model.config.scope, model.config.scope_threshold = detector, result.threshold
        model.save_pretrained(folder)


@app.command()
def compare(
    edits: Annotated[int, typer.Option(help="How many edits.", min=1)] = 10,
    data: Annotated[
        Optional[Path],
        typer.Option(help="CounterFact in EasyEdit's or ROME's format, or ZsRE. By default the project's own edits."),
    ] = None,
    methods: Annotated[
        Optional[str], typer.Option(help="Comma-separated, as EasyEdit names them. By default all that can run.")
    ] = None,
    hparams: Annotated[Path, typer.Option(help="Folder with METHOD/MODEL.yaml.")] = Path("hparams"),
    model: Annotated[str, typer.Option(help="Which MODEL.yaml.")] = "smollm2-135m",
    device: Annotated[Optional[str], typer.Option(help="cpu or a CUDA index; by default the hparams file's.")] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for table, plot, records and logs. Finished cases in it are not run again.")
    ] = Path("results/compare"),
) -> None:
    """Larimar, ROME, FT and what else EasyEdit has, on the same model and edits, through EasyEdit's BaseEditor."""
    from larimar_editor.data import load_edits
    from larimar_editor.easyedit import comparison, find_easyedit
    from larimar_editor.evaluation.report import write_comparison

    source = find_easyedit()
    typer.echo(f"EasyEdit: {'release of 2023' if source.release_2023 else 'main branch'} ({source.found_by}), {source.package}")
    chosen = None if methods is None else [name.strip() for name in methods.split(",")]
    cases = load_edits(data, edits)
    rows = comparison.compare(chosen, cases, out, hparams, model, device, typer.echo)
    if not rows:
        raise ValueError(f"no method could be run; the logs are in {out}")
    settings = {"data": str(data or "the project's own edits"), "edits": len(cases), "model": model}
    typer.echo(write_comparison(rows, out, settings))
    typer.echo(f"written: {out}/comparison.json, .csv, .md, .png")


@app.command()
def score(
    checkpoint: Annotated[Optional[Path], typer.Option(help="Larimar checkpoint; the shipped one by default.")] = None,
    data: Annotated[Optional[Path], typer.Option(help="Edits, as for `compare`. By default the project's own.")] = None,
    limit: Annotated[Optional[int], typer.Option(help="Use the first edits only.", min=1)] = None,
    write: Annotated[
        Literal["single", "together", "sequentially"], typer.Option(help="Each alone, all in one block, or one after the other.")
    ] = "single",
    out: Annotated[Optional[Path], typer.Option(help="JSON lines to write, a record per edit.")] = None,
    scope: Annotated[
        Optional[Literal["external", "internal", "none"]], typer.Option(help="Detector; the checkpoint's by default.")
    ] = None,
    scope_threshold: Annotated[Optional[float], typer.Option(help="In place of the checkpoint's.")] = None,
    memory_rows: Annotated[Optional[int], typer.Option(help="K, in place of the checkpoint's.", min=1)] = None,
    key_gain: Annotated[Optional[float], typer.Option(help="In place of the checkpoint's.")] = None,
    value_gain: Annotated[Optional[float], typer.Option(help="In place of the checkpoint's.")] = None,
    dtype: Annotated[DtypeName, typer.Option(help="Decoder dtype.")] = "float32",
) -> None:
    """Write edits and print, as JSON, how well they hold for their prompts and rephrasings, and what neighbours say."""
    from larimar_editor.data import load_edits
    from larimar_editor.evaluation.many_edits import score_many_edits, summarise_many
    from larimar_editor.evaluation.single_edits import score_single_edits, summarise
    from larimar_editor.loading import load_larimar

    given = {
        "scope": scope,
        "scope_threshold": scope_threshold,
        "memory_rows": memory_rows,
        "key_gain": key_gain,
        "value_gain": value_gain,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    model, folder = load_larimar(checkpoint, dtype, settings)
    edits = load_edits(data, limit)
    if write == "single":
        records = score_single_edits(model, edits)
        summary = summarise(records)
    else:
        records = score_many_edits(model, edits, sequentially=write == "sequentially")
        summary = summarise_many(records)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text("".join(json.dumps(record) + "\n" for record in records))
    typer.echo(json.dumps({"checkpoint": folder, "write": write, "dtype": dtype} | settings | summary))


@app.command(name="eval")
def evaluate(
    name: Annotated[str, typer.Argument(help="Name of a table or figure (see larimar_editor/evaluation), or all.")],
    hparams: Annotated[Path, typer.Option(help="Larimar's YAML file.")] = Path("hparams/LARIMAR/smollm2-135m.yaml"),
    out: Annotated[Path, typer.Option(help="Folder; each evaluation has one of its name in it. Scored cases are kept.")] = Path(
        "results/eval"
    ),
    counterfact: Annotated[Optional[Path], typer.Option(help="CounterFact. By default the project's own edits.")] = None,
    zsre: Annotated[Optional[Path], typer.Option(help="ZsRE. By default the project's own edits.")] = None,
    text: Annotated[Optional[Path], typer.Option(help="Plain text for perplexity. By default the sentences that ship.")] = None,
    facts: Annotated[
        Optional[Path],
        typer.Option(help="Facts for longcontext, one a line, a tab before the answer. By default those that ship."),
    ] = None,
    limit: Annotated[Optional[int], typer.Option(help="Use the first cases only.", min=1)] = None,
    baselines: Annotated[
        int, typer.Option(help="Cases for EasyEdit's own methods, at most: some take a minute each.", min=1)
    ] = 4,
    dtype: Annotated[DtypeName, typer.Option(help="Decoder dtype.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
) -> None:
    """A table or figure of the paper: records, summary, table in Markdown and LaTeX, figure. A run that was stopped goes on."""
    from larimar_editor.evaluation.context import Context
    from larimar_editor.evaluation.evaluation import NAMES, find
    from larimar_editor.evaluation.records import processes
    from larimar_editor.evaluation.report import all_tables

    if name not in (*NAMES, "all"):
        raise typer.BadParameter(f"no evaluation {name!r}; there are {', '.join(NAMES)} and all", param_hint="NAME")
    context = Context(hparams, counterfact, zsre, text, facts, out, limit, baselines, dtype, device, seed)
    summaries, tables = [], []
    for evaluation in [find(each) for each in (NAMES if name == "all" else [name])]:
        summaries.append(evaluation.run(context, out / evaluation.name, progress=processes().is_main_process))
        if processes().is_main_process:
            tables.append((out / evaluation.name / "table.md").read_text(encoding="utf-8"))
            typer.echo(f"{evaluation.name}: {evaluation.title}\n\n{tables[-1]}")
    if name == "all" and processes().is_main_process:
        (out / "tables.md").write_text(all_tables(summaries, tables), encoding="utf-8")


@app.command()
def bench(
    checkpoint: Annotated[Optional[Path], typer.Option(help="Larimar checkpoint; the shipped one by default.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for bench.json, bench.md and bench.png.")] = Path("results/bench"),
    parts: Annotated[Optional[str], typer.Option(help="Comma-separated; all by default. See the README.")] = None,
    full: Annotated[bool, typer.Option("--full", help="As far as blocks of 10,000, K = 8,192 and a million prompts.")] = False,
    dtype: Annotated[DtypeName, typer.Option(help="Decoder dtype.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
) -> None:
    """How long editing and reading take and how that grows, beside the encoder and the bare decoder of the same run."""
    from larimar_editor.bench import run as benchmark
    from larimar_editor.loading import load_decoder, load_larimar

    chosen = benchmark.PARTS if parts is None else tuple(part.strip() for part in parts.split(","))
    if unknown := [part for part in chosen if part not in benchmark.PARTS]:
        raise typer.BadParameter(f"no part {unknown[0]!r}; there are {', '.join(benchmark.PARTS)}", param_hint="--parts")
    model, _ = load_larimar(checkpoint, dtype, {}, device)
    bare, _ = load_decoder(model.config.base_model_name_or_path, dtype, device)
    report = benchmark.run(model, bare, chosen, benchmark.FULL if full else benchmark.USUAL, typer.echo)
    typer.echo(benchmark.write(report, out))


@app.command()
def perplexity(
    text: Annotated[Path, typer.Argument(help="UTF-8 text.")],
    checkpoint: Annotated[Optional[Path], typer.Option(help="Larimar checkpoint; the shipped one by default.")] = None,
    data: Annotated[Optional[Path], typer.Option(help="Edits to write first. By default the project's own.")] = None,
    limit: Annotated[Optional[int], typer.Option(help="Windows of 256 tokens, from the start.", min=1)] = None,
    dtype: Annotated[DtypeName, typer.Option(help="Decoder dtype.")] = "float32",
) -> None:
    """Perplexity of a text with facts in memory, and the base model's, as JSON."""
    from larimar_editor.data import load_edits
    from larimar_editor.evaluation.many_edits import write_all
    from larimar_editor.evaluation.perplexity import score_text
    from larimar_editor.loading import load_larimar

    model, folder = load_larimar(checkpoint, dtype, {})
    write_all(model, load_edits(data), sequentially=False)
    result = score_text(model, text.read_text(encoding="utf-8"), limit=limit)
    typer.echo(json.dumps({"checkpoint": folder, "facts": len(model.facts()), "dtype": dtype} | result))


@app.command("memit-stats")
def memit_stats(
    hparams: Annotated[Path, typer.Option(help="MEMIT's YAML file.")] = Path("hparams/MEMIT/smollm2-135m.yaml"),
    text: Annotated[
        Optional[Path], typer.Option(help="UTF-8 text, one sentence a line. By default the sentences that ship.")
    ] = None,
) -> None:
    """Compute MEMIT's key statistics from local text, into the files that EasyEdit looks for."""
    import easyeditor

    from larimar_editor.data import SENTENCES
    from larimar_editor.easyedit.statistics import compute_key_statistics

    values = easyeditor.MEMITHyperParams.from_hparams(str(hparams))
    editor = easyeditor.BaseEditor.from_hparams(values)
    compute_key_statistics(editor.model, editor.tok, values, text or SENTENCES)
    typer.echo(f"statistics of layers {', '.join(map(str, values.layers))} are in {values.stats_dir}")


@app.command()
def models(
    to: Annotated[Optional[Path], typer.Option(help="Copy the embedded decoder's folder here, for scripts of your own.")] = None,
) -> None:
    """Make the embedded models' folders and print where they are."""
    import shutil

    from larimar_editor.embedded import DECODER, EMBEDDED, resolve

    for name in EMBEDDED:
        typer.echo(f"{name}: {resolve(name)}")
    if to is not None:
        shutil.copytree(resolve(DECODER), to / DECODER, dirs_exist_ok=True)
        typer.echo(f"copied to {to / DECODER}")


def main() -> None:
    """Entry point: errors as one line, not as a traceback."""
    import os
    import sys

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        app()
    except (FileNotFoundError, ModuleNotFoundError, ValueError) as error:
        if os.environ.get("LARIMAR_TRACEBACK"):
            raise
        print(f"larimar-editor: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
