"""``larimar-editor data ...``: what prepares files."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer
from tqdm.auto import tqdm

from larimar_editor.cli.options import (
    DECODER,
    CheckpointOption,
    DecoderOption,
    DeviceOption,
    DtypeOption,
    TextOption,
)
from larimar_editor.utils.files import written_whole
from larimar_editor.utils.json_files import records_in, write_records

app = typer.Typer(
    help="Prepare files: training text, made-up facts, statistics, models, settings.", no_args_is_help=True
)


@app.command()
def chunk(
    texts: Annotated[
        list[Path], typer.Argument(help="UTF-8 text, a paragraph a line, or JSON lines with `text`.")
    ],
    out: Annotated[Path, typer.Option(help="JSON lines to write.")] = Path("chunks.jsonl"),
    into: Annotated[
        Literal["sentences", "blocks"], typer.Option(help="Blocks of tokens are the paper's way.")
    ] = "sentences",
    tokens: Annotated[int, typer.Option(help="Tokens of a block; most tokens of a sentence.", min=1)] = 64,
    least: Annotated[int, typer.Option(help="Fewest tokens of a chunk.", min=1)] = 5,
    model: Annotated[str, typer.Option(help="Decoder whose tokenizer counts.")] = DECODER,
) -> None:
    """Turn text files into training chunks, streamed; prints how many were dropped."""
    from transformers import AutoTokenizer

    from larimar_editor.pretrained.embedded import resolve
    from larimar_editor.training import corpus

    tokenizer = AutoTokenizer.from_pretrained(resolve(model))
    make = corpus.sentence_chunks if into == "sentences" else corpus.block_chunks
    counts = corpus.Counts()
    limits = {"least": least} | ({"most": tokens} if into == "sentences" else {"size": tokens})
    corpus.write_chunks(make(corpus.paragraphs(texts), tokenizer, counts, **limits), out, counts)
    typer.echo(json.dumps({"out": str(out)} | counts.to_dict()))


@app.command()
def sample(
    count: Annotated[int, typer.Option(help="Sentences to make.", min=1)] = 1000,
    out: Annotated[Path, typer.Option(help="JSON lines to write.")] = Path("samples.jsonl"),
    model: DecoderOption = DECODER,
    batch_size: Annotated[int, typer.Option(help="Texts sampled at once.", min=1)] = 64,
    temperature: Annotated[float, typer.Option(help="Of what is drawn.", min=0.01)] = 1.0,
    top_p: Annotated[float, typer.Option(min=0.01, max=1)] = 0.95,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "cpu",
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
) -> None:
    """Sample training text from a decoder itself: what it says unprompted fits it best."""
    from larimar_editor.model.loading import load_decoder
    from larimar_editor.training import corpus

    decoder, tokenizer = load_decoder(model, dtype, device)
    counts = corpus.Counts()
    texts = corpus.sampled_texts(
        decoder,
        tokenizer,
        count,
        counts,
        batch_size=batch_size,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
    )
    corpus.write_chunks(texts, out, counts)
    typer.echo(json.dumps({"out": str(out)} | counts.to_dict()))


@app.command()
def rephrase(
    count: Annotated[int, typer.Option(help="Facts to make.", min=1)] = 1000,
    out: Annotated[Path, typer.Option(help="JSON lines to write.")] = Path("facts.jsonl"),
    relations: Annotated[
        Optional[Path], typer.Option(help="YAML file of relations; those that ship by default.")
    ] = None,
    text: TextOption = None,
    exclude: Annotated[
        Optional[list[Path]], typer.Option(help="Edits whose wordings must not occur; may be given again.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
) -> None:
    """Make up facts in several wordings from relations and names (some found in the text); prints the
    wordings left out.
    """
    from larimar_editor.data.edits import load_edits
    from larimar_editor.data.relations import Names, RephrasedFacts, read_relations, without_wordings_of
    from larimar_editor.data.texts import SENTENCES, read_sentences

    every = read_relations(relations)
    allowed = without_wordings_of(every, [edit for path in exclude or () for edit in load_edits(path)])
    facts = RephrasedFacts(allowed, Names(text=read_sentences(text or SENTENCES)), seed)
    write_records(out, map(facts.__getitem__, range(count)))
    wordings = [sum(len(relation.prompts) for relation in each) for each in (every, allowed)]
    typer.echo(
        json.dumps(
            {"out": str(out), "facts": count, "wordings": wordings[1], "left_out": wordings[0] - wordings[1]}
        )
    )


@app.command()
def questions(
    count: Annotated[int, typer.Option(help="Facts to make.", min=1)] = 60_000,
    out: Annotated[Path, typer.Option(help="JSON lines to write.")] = Path("questions.jsonl"),
    knowedit: Annotated[
        Optional[list[Path]],
        typer.Option(help="A train split of KnowEdit's, to be used besides what ships; may be given again."),
    ] = None,
    held_out: Annotated[
        bool,
        typer.Option(
            "--held-out", help="Of what nothing is trained on, in place of what the detector is trained on."
        ),
    ] = False,
    exclude: Annotated[
        Optional[list[Path]], typer.Option(help="Edits whose wordings must not occur; may be given again.")
    ] = None,
    near: Annotated[
        float,
        typer.Option(
            help="Mean cosine of wordings from which a question asks nearly the same as one that is held "
            "out, and is left out.",
            min=0,
            max=1.01,
        ),
    ] = 0.85,
    by_hand: Annotated[
        Optional[float],
        typer.Option(
            help="Share of the facts that people typed, which are the hardest; by default a third.",
            min=0,
            max=0.99,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
) -> None:
    """Make the file that the scope detector is trained on: facts with all that it has to tell apart, which
    are rewordings and aliases, other questions about the subject, other and like-named subjects, inverses,
    negations, two hops. The same for the same seed.
    """
    from larimar_editor.data import question_sources as sources
    from larimar_editor.data.edits import load_edits
    from larimar_editor.data.questions.facts import AskedFacts
    from larimar_editor.data.relations import wording_of, wordings_of
    from larimar_editor.scope.detectors import ExternalScopeDetector, sentence_encoder

    seen = wordings_of(edit for path in exclude or () for edit in load_edits(path))
    without = lambda wording: wording_of(wording) in seen
    asked = sources.questions(without)
    dropped: list[tuple[str, str]] = []
    if held_out:
        made: dict[str, sources.Facts] = {"held out": AskedFacts(asked.held_out, asked.names, seed)}
    else:
        if near <= 1:
            asked, dropped = asked.unlike(ExternalScopeDetector(sentence_encoder()).embed, near)
        made = dict(asked.facts(knowedit or (), seed, without=without))
    counts: Counter[str] = Counter()

    def counted(facts):
        for fact in facts:
            counts[fact["source"]] += 1
            yield fact

    write_records(out, tqdm(counted(sources.records(made, count, seed, by_hand)), total=count, unit="fact"))
    kinds = asked.held_out if held_out else [kind for every in asked.training.values() for kind in every]
    report = {
        "out": str(out),
        "facts": counts,
        "questions": len(kinds),
        "wordings": sum(len(kind.wordings) for kind in kinds),
        "left_out_as_nearly_held_out": dropped,
    }
    typer.echo(json.dumps(report))


@app.command()
def mined(
    asked: Annotated[Path, typer.Argument(help="JSON lines made by `larimar-editor data questions`.")],
    out: Annotated[Path, typer.Option(help="JSON lines to write.")] = Path("mined.jsonl"),
    pool: Annotated[int, typer.Option(help="Facts among which a query is looked up.", min=1)] = 30_000,
    queries: Annotated[int, typer.Option(help="Queries that are looked up.", min=1)] = 60_000,
    checkpoint: CheckpointOption = None,
    device: DeviceOption = "cpu",
    seed: Annotated[int, typer.Option(help="Of the pool and of the queries.")] = 0,
) -> None:
    """Add to each fact what a checkpoint's detector takes for it, wrongly, among very many: what the second
    stage is trained on further.
    """
    from larimar_editor.model.detector import StoredDetector
    from larimar_editor.training.detector.examples import MINED
    from larimar_editor.training.detector.loop import read_facts
    from larimar_editor.training.detector.mining import mined as mine

    external = StoredDetector(checkpoint, device).detectors.external
    facts = mine(read_facts(asked), external, pool, queries, seed=seed)
    counts = {"facts": 0, "with_mined": 0, "mined": 0}

    def counted():
        for fact in facts:
            counts["with_mined"] += bool(fact[MINED])
            counts["mined"] += len(fact[MINED])
            yield fact

    counts["facts"] = write_records(out, counted())
    typer.echo(json.dumps({"out": str(out)} | counts))


@app.command()
def answers(
    asked: Annotated[Path, typer.Argument(help="JSON lines made by `larimar-editor data questions`.")],
    count: Annotated[int, typer.Option(help="Facts to make, at most.", min=1)] = 20_000,
    continued: Annotated[
        Optional[int],
        typer.Option(help="How many, the first, are continued by the decoder; all when not given.", min=0),
    ] = None,
    made_up: Annotated[
        float, typer.Option(help="Share of the answers that stand on no list.", min=0, max=1)
    ] = 0.45,
    own: Annotated[
        float, typer.Option(help="Share of the facts that keep their own answer.", min=0, max=1)
    ] = 0.35,
    out: Annotated[Path, typer.Option(help="JSON lines to write.")] = Path("answers.jsonl"),
    model: DecoderOption = DECODER,
    tokens: Annotated[int, typer.Option(help="Of what the decoder says after an answer.", min=1)] = 18,
    top_p: Annotated[
        float, typer.Option(help="Share of the probability that is drawn from.", min=0.01, max=1)
    ] = 0.9,
    batch_size: Annotated[int, typer.Option(help="Texts sampled at once.", min=1)] = 64,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "cpu",
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
) -> None:
    """Make facts that a decoder is trained on: prompts and their rewordings, answers of one to some thirty
    tokens, most of them drawn at random, and what the decoder itself says after each (ten a second on two
    cores).
    """
    from itertools import chain, islice

    from larimar_editor.data.answers import Answers, answered_facts
    from larimar_editor.model.loading import load_decoder
    from larimar_editor.training import corpus

    records = records_in(asked, needs=["prompt", "subject", "rephrase_prompt"])
    facts: Iterator[dict] = islice(answered_facts(records, Answers(), made_up, own, seed), count)
    first = list(islice(facts, 1))  # the file is there, before a decoder is loaded
    facts = chain(first, facts)
    made: Iterator[dict] = iter(())
    if first and continued != 0:
        decoder, tokenizer = load_decoder(model, dtype, device)
        given = islice(facts, count if continued is None else continued)
        made = corpus.continued_facts(
            decoder, tokenizer, given, batch_size=batch_size, tokens=tokens, top_p=top_p, seed=seed
        )
    written = write_records(out, tqdm(chain(made, facts), total=count, unit="fact"))
    typer.echo(json.dumps({"out": str(out), "facts": written}))


@app.command()
def simplequestions(
    file: Annotated[Path, typer.Argument(help="train.txt or valid.txt of SimpleQuestions on Wikidata.")],
    out: Annotated[Path, typer.Option(help="JSON to write.")] = Path("simplequestions.json"),
    fewest: Annotated[int, typer.Option(help="Wordings that a property must have.", min=1)] = 20,
    exclude: Annotated[
        Optional[list[Path]], typer.Option(help="Edits whose wordings must not occur; may be given again.")
    ] = None,
) -> None:
    """Cut wordings out of SimpleQuestions: each question with the name that it is about taken out."""
    from larimar_editor.data.edits import load_edits
    from larimar_editor.data.questions.simplequestions import ORIGIN, cut_wordings
    from larimar_editor.data.relations import wordings_of

    seen = wordings_of(edit for path in exclude or () for edit in load_edits(path))
    wordings = cut_wordings(file, fewest, seen)
    text = json.dumps({"origin": ORIGIN, "wordings": wordings}, ensure_ascii=False, indent=0)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n", encoding="utf-8")
    report = {"out": str(out), "properties": len(wordings), "wordings": sum(map(len, wordings.values()))}
    typer.echo(json.dumps(report))


@app.command("wordnet-names")
def wordnet_names(
    file: Annotated[Path, typer.Argument(help="WordNet's data.noun.")],
    out: Annotated[Path, typer.Option(help="Text to write, the names of one thing a line.")] = Path(
        "wordnet-names.txt"
    ),
) -> None:
    """Cut out of WordNet what else each thing is called that it knows by a proper noun."""
    from larimar_editor.data.other_names import write_wordnet_names

    out.parent.mkdir(parents=True, exist_ok=True)
    typer.echo(json.dumps({"out": str(out), "things": write_wordnet_names(file, out)}))


@app.command("memit-stats")
def memit_stats(
    hparams: Annotated[
        str, typer.Option(help="MEMIT's YAML file, or the name of one that ships.")
    ] = "MEMIT/smollm2-135m",
    text: TextOption = None,
) -> None:
    """Compute MEMIT's key statistics from local text, into the files that EasyEdit looks for. Files that are
    there stay; those of another text than is given are an error.
    """
    import easyeditor

    from larimar_editor.easyedit.baselines.statistics import compute_key_statistics
    from larimar_editor.hparams import find_hparams

    values = easyeditor.MEMITHyperParams.from_hparams(str(find_hparams(hparams)))
    editor = easyeditor.BaseEditor.from_hparams(values)
    computed = compute_key_statistics(editor.model, editor.tok, values, text)
    there = [layer for layer in values.layers if layer not in computed]
    for what, layers in (("computed", computed), ("there already", there)):
        if layers:
            typer.echo(f"statistics {what}: layers {', '.join(map(str, layers))}, in {values.stats_dir}")


@app.command()
def models(
    to: Annotated[
        Optional[Path], typer.Option(help="Copy the embedded decoder's folder here, for scripts of your own.")
    ] = None,
) -> None:
    """Make the embedded models' folders and print where they are."""
    from larimar_editor.pretrained.embedded import EMBEDDED, resolve

    for name in EMBEDDED:
        typer.echo(f"{name}: {resolve(name)}")
    if to is not None:
        shutil.copytree(resolve(DECODER), to / DECODER, dirs_exist_ok=True)
        typer.echo(f"copied to {to / DECODER}")


@app.command()
def hparams(
    files: Annotated[list[Path], typer.Argument(help="Larimar's YAML files, to be written anew.")],
) -> None:
    """Write hyperparameter files anew, with every key and its meaning; values stay as they are."""
    from larimar_editor.hparams import LarimarHyperParams

    if others := [path for path in files if path.suffix not in (".yaml", ".yml")]:
        raise typer.BadParameter(
            f"{others[0]} is to be overwritten with YAML, and is not named .yaml or .yml"
        )
    for path in files:
        text = path.read_text(encoding="utf-8")
        title = text.split("\n")[0].lstrip("# ") if text.startswith("#") else "Larimar"
        anew = LarimarHyperParams.from_hparams(path).to_yaml(title)
        with written_whole(path) as file:
            file.write(anew)


@app.command()
def settings() -> None:
    """Print every key of hyperparameter files, checkpoints and training files, as in docs/settings.md."""
    from larimar_editor.training.settings import documentation

    typer.echo(documentation(), nl=False)
