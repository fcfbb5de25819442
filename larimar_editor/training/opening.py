"""A training run from its settings: decoder, model, data, and whether they fit together. For the training of
a Larimar alone; one that is used is opened by `larimar_editor.tools.opening`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from accelerate import Accelerator, DistributedType
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from larimar_editor.model.encoders import LatentEncoder, TransformerEncoder
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.loading import load_decoder
from larimar_editor.training.chats import answered
from larimar_editor.training.objective import LarimarObjective
from larimar_editor.training.rows import RowMaker, Rows
from larimar_editor.training.run import Run
from larimar_editor.training.settings import Optimisation, TrainingSettings
from larimar_editor.training.sources import Stream, open_sources
from larimar_editor.training.starts import check_projection, decoder_mode, start


def open_run(settings: TrainingSettings, out: Path, device: str = "auto", dtype: str = "auto") -> Run:
    """Load the decoder and build the run.

    Args:
        settings: the run's settings.
        out: its folder.
        device: "auto", what accelerate finds, or "cpu".
        dtype: of a frozen decoder; see `larimar_editor.model.loading.decoder_dtype`.

    Raises:
        As `prepare`.
    """
    # DeepSpeed would turn every weight into bfloat16; the loop keeps those that are trained in float32, and
    # uses autocast.
    deepspeed = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"
    accelerator = Accelerator(
        cpu=device == "cpu",
        mixed_precision="no" if deepspeed else settings.optimisation.precision,
        gradient_accumulation_steps=1,  # the loop adds passes up itself
    )
    full = decoder_mode(settings) == "full"
    decoder, tokenizer = load_decoder(settings.decoder, "float32" if full else dtype, str(accelerator.device))
    return prepare(settings, out, decoder, tokenizer, accelerator)


def prepare(
    settings: TrainingSettings,
    out: Path,
    decoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    accelerator: Accelerator,
) -> Run:
    """Build the run.

    Raises:
        ValueError: settings that do not fit together, or texts too few for them.
        FileNotFoundError: a text or a checkpoint that is not there.
    """
    optimisation = settings.optimisation
    _check_passes(settings, optimisation.accumulation, accelerator.num_processes)
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        _configure_deepspeed(accelerator, optimisation)
    if settings.rows.chat_share and answered(tokenizer, [{"role": "user", "content": "Who?"}], "Ada") is None:
        raise ValueError(
            "rows: chat_share wants chats, and the tokenizer has no chat template, or none in which an "
            "answer stands behind its question: set it to 0"
        )
    larimar = start(settings, decoder.to(accelerator.device), tokenizer)
    _check_encoder(settings, larimar)
    records, text = open_sources(settings.sources, settings.seed)
    stream = Stream(settings.sources, records, optimisation.texts_per_step, settings.held_out, settings.seed)
    config, layout = larimar.config, larimar.latent_encoder.layout
    most = min(config.answer_tokens, config.encoder_max_length - 1)  # as `EpisodicMemory.to_encode` has it
    needed = layout.needed if layout and most else lambda tokens: config.memory_slots
    maker = RowMaker(tokenizer, settings.rows, text, needed, most if layout else 0)
    if accelerator.device.type == "cpu":
        # Fused attention's backward pass is the slowest part of a step there.
        decoder.set_attn_implementation("eager")
    objective = LarimarObjective(
        larimar,
        settings.objective,
        _latents(settings, larimar.latent_encoder),
        optimisation.gradient_checkpointing,
        optimisation.bucket_tokens,
    )
    return Run(settings, out, objective, stream, maker, accelerator)


def _check_passes(settings: TrainingSettings, accumulation: int, processes: int) -> None:
    """Each pass of each process has texts, and as many as an episode is of."""
    texts, sources = settings.optimisation.texts_per_step, len(settings.sources)
    passes = f"{accumulation} passes of {processes} processes"
    fewest = texts - sources + 1  # a source's share may be no whole number
    if fewest < accumulation * processes:
        raise ValueError(
            f"texts_per_step {texts}, of which {sources} sources give {fewest} at least, is too few for "
            f"{passes}"
        )
    a_pass, episode = texts // (accumulation * processes), settings.objective.episode_length
    if a_pass < min(episode, texts):
        raise ValueError(
            f"texts_per_step {texts} over {passes} leaves {a_pass} texts for an episode, which is of one "
            f"pass of one process, and episode_length is {episode}: take more texts_per_step, or fewer of "
            "the others"
        )


def _configure_deepspeed(accelerator: Accelerator, optimisation: Optimisation) -> None:
    if optimisation.precision == "fp16":
        raise ValueError("precision: fp16 does not go with DeepSpeed here; use bf16 or no")
    passes = accelerator.num_processes * optimisation.accumulation
    accelerator.state.deepspeed_plugin.deepspeed_config |= {
        "train_micro_batch_size_per_gpu": optimisation.texts_per_step // passes,
        "gradient_accumulation_steps": optimisation.accumulation,
        "gradient_clipping": optimisation.clip,
    }


def _check_encoder(settings: TrainingSettings, larimar: LarimarForCausalLM) -> None:
    """No encoder changes unasked, and nothing is kept that hangs on one that changes.

    Raises:
        ValueError: W_M is trained and is the encoder as well, or the internal detector is of another encoder.
    """
    check_projection(settings, larimar.config.to_dict())
    if settings.start == "trained" and not settings.optimisation.encoder_learning_rate:
        return
    if larimar.config.scope == "internal":
        raise ValueError(
            "scope: internal is of the encoder as it was: set scope: none under `model`, and make another "
            "detector for the checkpoint that is trained (`larimar-editor calibrate --detector internal`)"
        )
    larimar.detectors.weights = larimar.detectors.external_weights


def _latents(settings: TrainingSettings, encoder: LatentEncoder) -> Callable[[Rows], Tensor]:
    if settings.optimisation.encoder_learning_rate:
        if not isinstance(encoder, TransformerEncoder):
            raise ValueError(
                "encoder_learning_rate must be 0 with decoder states, which have nothing to train; or use "
                "encoder_type: transformer"
            )
        return lambda rows: encoder.with_gradients(rows.texts)
    return lambda rows: encoder.encode(rows.texts, rows.slots)
