"""The commands of training: ``chunk``, ``sample``, ``rephrase``, ``train``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from larimar_editor.embedded import DECODER
from larimar_editor.loading import DtypeName


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to ``app``."""
    for command in (chunk, sample, rephrase, train):
        app.command()(command)


def chunk(
    texts: Annotated[list[Path], typer.Argument(help="UTF-8 text, a paragraph a line, or JSON lines with `text`.")],
    out: Annotated[Path, typer.Option(help="JSON lines to write.")] = Path("chunks.jsonl"),
    into: Annotated[Literal["sentences", "blocks"], typer.Option(help="Blocks of tokens are the paper's way.")] = "sentences",
    tokens: Annotated[int, typer.Option(help="Tokens of a block; most tokens of a sentence.", min=1)] = 64,
    least: Annotated[int, typer.Option(help="Fewest tokens of a chunk.", min=1)] = 5,
    model: Annotated[str, typer.Option(help="Decoder whose tokenizer counts.")] = DECODER,
) -> None:
    """Turn text files into training chunks, streamed; prints what was kept and dropped."""
    from transformers import AutoTokenizer

    from larimar_editor.embedded import resolve
    from larimar_editor.training import corpus

    tokenizer = AutoTokenizer.from_pretrained(resolve(model))
    make = corpus.sentence_chunks if into == "sentences" else corpus.block_chunks
    counts = corpus.Counts()
    limits = {"least": least} | ({"most": tokens} if into == "sentences" else {"size": tokens})
    corpus.write_chunks(make(corpus.paragraphs(texts), tokenizer, counts, **limits), out, counts)
    typer.echo(json.dumps({"out": str(out)} | counts.to_dict()))


def sample(
    count: Annotated[int, typer.Option(help="Sentences to keep.", min=1)] = 1000,
    out: Annotated[Path, typer.Option(help="JSON lines to write.")] = Path("samples.jsonl"),
    model: Annotated[str, typer.Option(help="Decoder: a Hugging Face name, a folder, or an embedded model.")] = DECODER,
    batch_size: Annotated[int, typer.Option(help="Texts sampled at once.", min=1)] = 64,
    temperature: Annotated[float, typer.Option(min=0.01)] = 1.0,
    top_p: Annotated[float, typer.Option(min=0.01, max=1)] = 0.95,
    dtype: Annotated[DtypeName, typer.Option(help="Decoder dtype.")] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    seed: Annotated[int, typer.Option()] = 0,
) -> None:
    """Sample training text from a decoder itself: what it says unprompted fits it best."""
    from larimar_editor.loading import load_decoder
    from larimar_editor.training import corpus

    decoder, tokenizer = load_decoder(model, dtype, device)
    counts = corpus.Counts()
    texts = corpus.sampled_texts(
        decoder, tokenizer, count, counts, batch_size=batch_size, temperature=temperature, top_p=top_p, seed=seed
    )
    corpus.write_chunks(texts, out, counts)
    typer.echo(json.dumps({"out": str(out)} | counts.to_dict()))


def rephrase(
    count: Annotated[int, typer.Option(help="Facts to make.", min=1)] = 1000,
    out: Annotated[Path, typer.Option(help="JSON lines to write.")] = Path("facts.jsonl"),
    relations: Annotated[Optional[Path], typer.Option(help="YAML file of relations; those that ship by default.")] = None,
    text: Annotated[Optional[Path], typer.Option(help="Text to take names from; the sentences that ship by default.")] = None,
    exclude: Annotated[
        Optional[list[Path]], typer.Option(help="Edits whose wordings must not occur; may be given again.")
    ] = None,
    seed: Annotated[int, typer.Option()] = 0,
) -> None:
    """Make up facts in several wordings from relations and names; prints how many wordings were left out."""
    from larimar_editor.data import SENTENCES, load_edits, read_sentences
    from larimar_editor.training.relations import Names, RephrasedFacts, read_relations, without_wordings_of

    every = read_relations(relations)
    kept = without_wordings_of(every, [edit for path in exclude or () for edit in load_edits(path)])
    facts = RephrasedFacts(kept, Names(text=read_sentences(text or SENTENCES)), seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", encoding="utf-8") as file:
        for fact in map(facts.__getitem__, range(count)):
            file.write(json.dumps(fact, ensure_ascii=False) + "\n")
    wordings = [sum(len(relation.prompts) for relation in each) for each in (every, kept)]
    typer.echo(json.dumps({"out": str(out), "facts": count, "wordings": wordings[1], "left_out": wordings[0] - wordings[1]}))


def train(
    settings: Annotated[Path, typer.Argument(help="YAML file of the run; see configs/training.")],
    out: Annotated[Path, typer.Option(help="Folder of the run. A run that was interrupted goes on from its last save.")] = Path(
        "runs/larimar"
    ),
    set_: Annotated[
        Optional[list[str]], typer.Option("--set", help="name=value in place of the file's, such as optimisation.steps=100.")
    ] = None,
    until: Annotated[Optional[int], typer.Option(help="Stop after this many steps, saved.", min=1)] = None,
    device: Annotated[str, typer.Option(help="auto (what accelerate finds) or cpu.")] = "auto",
    dtype: Annotated[DtypeName, typer.Option(help="Dtype of a frozen decoder.")] = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Build everything, take one step, save nothing.")] = False,
    speed: Annotated[bool, typer.Option("--speed", help="Only time training steps, beside plainly written ones.")] = False,
) -> None:
    """Train a Larimar; start it with `accelerate launch -m larimar_editor.cli train` for several processes."""
    import yaml
    from accelerate import Accelerator

    from larimar_editor.loading import load_decoder
    from larimar_editor.training import benchmark, loop, plots
    from larimar_editor.training.settings import TrainingSettings

    pairs = [pair.partition("=") for pair in set_ or ()]
    if bad := [name for name, equals, _ in pairs if not equals]:
        raise typer.BadParameter(f"--set takes name=value, got {bad[0]!r}")
    values = TrainingSettings.from_yaml(settings, {name: yaml.safe_load(value) for name, _, value in pairs})
    # DeepSpeed would turn every weight into bfloat16; the loop keeps those that are trained in float32, and uses autocast.
    deepspeed = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"
    accelerator = Accelerator(
        cpu=device == "cpu",
        mixed_precision="no" if deepspeed else values.optimisation.precision,
        gradient_accumulation_steps=1,  # the loop adds passes up itself
    )
    full = values.model.get("decoder_mode") == "full"
    decoder, tokenizer = load_decoder(values.decoder, "float32" if full else dtype, str(accelerator.device))
    run = loop.prepare(values, out, decoder, tokenizer, accelerator)
    if dry_run:
        report = loop.dry_run(run)
    elif speed:
        report = benchmark.measure(run)
    else:
        report = loop.train(run, until)
        if accelerator.is_main_process:
            plots.plot_training(out)
    if accelerator.is_main_process:
        typer.echo(json.dumps({"out": str(out)} | report))
