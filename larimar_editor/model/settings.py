"""Every setting of a Larimar, declared once. Free of torch, so that files can be read and checked in no
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from larimar_editor.utils.settings import setting

# Gains of what `fit` makes, chosen on SmolLM2-135M with the project's own edits.
FIT_KEY_GAIN, FIT_VALUE_GAIN = 2.0, 0.4
# Chosen on typed facts that nothing is trained on, and on made-up answers. With more for the first token no
# answer has an article that was not written, wherever it is asked; with less, names begin with other letters.
FIT_COPYING = {"copying": 0.9, "copying_first": 0.49}
# Settings that belong to an external scope detector's weights, and go with them into another checkpoint.
DETECTOR_SETTINGS = (
    "scope_threshold",
    "scope_cosine",
    "scope_candidates",
    "scope_least_cosine",
    "scope_sure",
    "scope_other_names",
    "scope_encoder_name_or_path",
    "scope_reader_name_or_path",
)

Dtype = Literal["auto", "float32", "bfloat16", "float16"]


@dataclass
class LarimarSettings:
    """What a checkpoint's ``config.json`` holds.

    A setting marked ``edit`` may stand in a hyperparameter file; one marked ``live`` may be changed on a
    model's ``config`` at any time, and every other is fixed once the model is made.
    """

    base_model_name_or_path: str = setting(
        "", "decoder: a Hugging Face name, a folder, or an embedded model", live=True
    )
    decoder_signature: dict | None = setting(
        None,
        "what a decoder must be for the checkpoint to fit: model_type, layers, heads, head_size, vocab_size",
    )
    encoder_type: Literal["decoder-states", "transformer"] = setting(
        "decoder-states",
        "the frozen decoder's own states through a PCA, or any Hugging Face encoder, as the paper's BERT",
    )
    encoder_name_or_path: str | None = setting(None, "the encoder, when its type is transformer")
    encoder_max_length: int = setting(
        256, "tokens the encoder takes; of longer texts the last, with a warning", at_least=1
    )
    encoder_pooling: Literal["queries", "first"] = setting(
        "queries",
        "what a transformer encoder makes the latent of: its last states by learned queries, or its own "
        "pooled output of the first token, as in the original implementation",
    )
    latent_size: int = setting(
        3072, "C; with decoder-states memory_slots times the size of a slot's code", at_least=1
    )
    memory_slots: int = setting(
        4, "P: past key/value positions that a readout fills; more where an answer is longer", at_least=1
    )
    answer_tokens: int = setting(
        200,
        "most tokens of an answer that are kept, each in a slot of its own (decoder-states only); of longer "
        "ones the first so many, with a warning. 0: P slots whatever the answer, which lose the start of one "
        "of more tokens",
        at_least=0,
        edit=True,
        live=True,
    )
    after_answer: Literal["base", "ended", "stop", "memory"] = setting(
        "base",
        "base: once `generate` has said a fact's answer, the text goes on as the base model's: in the middle "
        "of a sentence at once; behind a question, in a chat, or where the tokenizer has no chat template, "
        "when what ends the answer is said; ended: always then; stop: there it ends, so that the base model "
        "adds nothing; memory: the readout stays. Where the detector chooses the fact (`addressed_by: fact`, "
        "`sigma_w: 0`)",
        edit=True,
        live=True,
    )
    copying: float = setting(
        0.0,
        "share of the probability that goes to the next token of an answer whose first are said, as the "
        "readout spells it (decoder-states whose first layer counts for more, with a detector); 0: none",
        at_least=0,
        at_most=0.999,
        edit=True,
        live=True,
    )
    copying_first: float = setting(
        0.0,
        "the same for the answer's first token, right behind the prompt; nothing where copying is 0",
        at_least=0,
        at_most=0.999,
        edit=True,
        live=True,
    )
    spellings: Literal["both", "spaced"] = setting(
        "both",
        "both: slots for how an answer begins behind a space and at the start of a line, as in a chat, where "
        "the tokens differ (decoder-states with pages only); spaced: behind a space only",
        edit=True,
        live=True,
    )
    slot_position: int = setting(
        4,
        "position of the first memory slot; BOS is at 0 and the text follows the last slot. 0: no BOS is put "
        "in front of it, as in the original implementation, where the text begins with one",
        at_least=0,
    )
    latent_in_embeddings: bool = setting(
        False,
        "whether a linear map of the readout is also added to the embeddings of the text's tokens, as in the "
        "original implementation (a transformer encoder only)",
    )
    decoder_mode: Literal["frozen", "lora", "full"] = setting(
        "frozen",
        "lora: adapters that act on rows in scope only; full: the decoder was trained and is part of the "
        "checkpoint",
    )
    tied_projection: bool = setting(
        True,
        "whether W_M is the transpose of what makes the latent, as in the closed form (decoder-states only)",
    )
    lora_rank: int = setting(16, "rank of the adapters", at_least=1)
    lora_targets: list[str] | tuple[str, ...] | str | None = setting(
        None, "names of the linear layers that get an adapter; null: all linear layers"
    )
    latent_norm: float | None = setting(
        None, "mean norm of an encoding, measured when the checkpoint was made", above=0, live=True
    )
    memory: Literal["pages", "fixed"] = setting(
        "pages",
        "pages: as many as the facts need, K rows each, and no fact changes another; fixed: K rows in all, "
        "as in the paper, which more than K facts share. It is fixed with another reference than prompts, "
        "pseudoinverse addressing or keys of latents",
        edit=True,
    )
    memory_rows: int = setting(
        512,
        "K, rows of a page; with a fixed memory rows in all: up to K facts are read back exactly, beyond K "
        "they share rows (the paper: 512, 1000 for 1000 edits)",
        at_least=1,
        edit=True,
    )
    rest_dtype: Literal["int8", "float16", "float32"] = setting(
        "int8",
        "how latents are kept in pages; int8 has a scale for every 64 numbers",
        edit=True,
    )
    addressing: Literal["gaussian", "pseudoinverse"] = setting(
        "gaussian", "eq. (gaussian_conv), or W = Z M_ref^+", edit=True
    )
    addressing_alpha: float = setting(
        1e-3, "width of the Gaussian; towards 0 the nearest row takes all", above=0, edit=True
    )
    reference: Literal["prompts", "random", "prior"] = setting(
        "prompts", "reference memory: built from what is written, random, or trained", edit=True
    )
    key_encoding: Literal["scope", "latent"] = setting(
        "scope",
        "what addresses the memory: the scope detector's sentence embedding, or the encoder's, as "
        "in the paper",
        edit=True,
    )
    addressed_by: Literal["fact", "query"] = setting(
        "fact",
        "whose key addresses the memory: that of the fact which the detector decided for, or the query's "
        "own, as in the paper and wherever there is no detector",
        edit=True,
        live=True,
    )
    key_gain: float = setting(
        1.0,
        "factor on what a readout adds to the mean key; higher: the answer is surer",
        at_least=0,
        edit=True,
    )
    value_gain: float = setting(1.0, "factor on what a readout adds to the mean value", at_least=0, edit=True)
    sigma_w: float = setting(
        0.0,
        "standard deviation of sampled reading weights; 0 reads deterministically",
        at_least=0,
        edit=True,
        live=True,
    )
    observation_noise: float = setting(
        0.0,
        "standard deviation of xi, added to an encoding before it is written",
        at_least=0,
        edit=True,
        live=True,
    )
    readout_norm: bool = setting(
        False,
        "rescale readouts to latent_norm; of use with pseudoinverse addressing, whose readouts "
        "follow the query's length",
        edit=True,
        live=True,
    )
    merge_adapters: bool = setting(
        True,
        "keep a second copy of the adapted weights: answers come as fast as the bare decoder's",
        edit=True,
    )
    scope: Literal["external", "internal", "none"] = setting(
        "external",
        "detector: a sentence encoder, a classifier on Larimar's encodings, or none (everything is in scope)",
        edit=True,
        live=True,
    )
    scope_threshold: float = setting(
        0.608,
        "score from which a prompt is in scope: a probability, or a cosine where the external detector's "
        "first stage decides alone",
        edit=True,
        live=True,
    )
    scope_candidates: int = setting(
        8,
        "written prompts that the external detector's second stage looks at; 0: the first stage decides "
        "alone, by scope_cosine",
        at_least=0,
        edit=True,
        live=True,
    )
    scope_least_cosine: float = setting(
        0.4,
        "written prompts that the first stage finds less similar than this to a query get no closer look",
        at_least=-1,
        at_most=1,
        edit=True,
        live=True,
    )
    scope_cosine: float | None = setting(
        None,
        "the threshold where scope_candidates is 0; null: scope_threshold",
        edit=True,
        live=True,
    )
    chained_reads: int = setting(
        0,
        "answers of written facts that may take the place of what a prompt names them by, one after another, "
        'until it asks something written: "the mayor of the capital of X", where both are. Of prompts out of '
        "scope whose last sentence has at most 40 words, which then take longer to decide; 0: none",
        at_least=0,
        at_most=4,
        edit=True,
        live=True,
    )
    scope_index: Literal["exact", "faiss"] = setting(
        "exact",
        "compare with every written prompt, or an index, from 20,000 facts on (pip install faiss-cpu)",
        edit=True,
        live=True,
    )
    scope_encoder_name_or_path: str = setting("all-MiniLM-L6-v2", "sentence encoder of the external detector")
    scope_reader_name_or_path: str | None = setting(
        "all-mpnet-base-v2",
        "sentence encoder of the external detector's third stage, where the checkpoint has one; none: the "
        "second stage has the last word",
        edit=True,
    )
    scope_sure: float = setting(
        0.99,
        "probability from which the second stage's word is taken, and up to one minus which: between them "
        "the third stage reads",
        at_least=0.5,
        at_most=1,
        edit=True,
        live=True,
    )
    scope_other_names: bool = setting(
        True,
        "the external detector looks up what else known things are called, in a list that ships: a question "
        "about wolfram finds what was written of tungsten; initials are read as what they stand for",
        edit=True,
    )

    @property
    def has_pages(self) -> bool:
        """Whether the memory has pages: where every fact can have a row of its own."""
        return (
            self.memory == "pages"
            and self.reference == "prompts"
            and self.addressing == "gaussian"
            and self.key_encoding == "scope"
        )
