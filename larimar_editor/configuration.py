"""What a Larimar checkpoint is made of."""

from __future__ import annotations

import inspect

from transformers import PretrainedConfig

from larimar_editor.addressing import ADDRESSINGS
from larimar_editor.checking import flag, number, one_of, text, whole

ENCODER_TYPES = ("decoder-states", "transformer")
DECODER_MODES = ("frozen", "lora", "full")
KEY_ENCODINGS = ("scope", "latent")
REFERENCES = ("prompts", "random", "prior")
SCOPES = ("external", "internal", "none")
SCOPE_INDICES = ("exact", "faiss")


class LarimarConfig(PretrainedConfig):
    """Configuration of `LarimarForCausalLM`; ``config.json`` of a checkpoint.

    Args:
        base_model_name_or_path: the decoder, a Hugging Face name or a folder.
        decoder_signature: what the decoder must be for this checkpoint to fit: model_type, layers, heads,
            head_size, vocab_size.
        encoder_type: "decoder-states" (the frozen decoder's own states through a PCA) or "transformer" (any
            Hugging Face encoder, as the paper's BERT).
        encoder_name_or_path: the encoder when its type is "transformer".
        encoder_max_length: tokens the encoder takes; of longer texts the last are kept, with a warning.
        latent_size: C. With "decoder-states" it is memory_slots times the size of one slot's code.
        memory_rows: K.
        memory_slots: P, past key/value positions that a readout fills.
        slot_position: position of the first memory slot; BOS is at 0 and the text follows the last slot.
        key_gain, value_gain: factors on what the projection adds to the mean key and the mean value, 0 or more.
        key_encoding: what addresses the memory: "scope" (the scope detector's sentence embedding) or
            "latent" (the encoder's, as in the paper).
        addressing: "gaussian" or "pseudoinverse".
        addressing_alpha: width of the Gaussian, above 0, eq. (gaussian_conv).
        reference: the reference memory: "prompts" (built from what is written), "random", "prior" (trained).
        sigma_w: standard deviation of sampled reading weights, >= 0.
        observation_noise: standard deviation of xi added to an encoding before it is written, >= 0.
        readout_norm: rescale every readout to ``latent_norm``; useful with pseudoinverse addressing, where the
            length of a readout follows the query.
        latent_norm: mean norm of an encoding, measured when the checkpoint was made.
        scope: "external", "internal" or "none" (everything is in scope).
        scope_encoder_name_or_path: sentence encoder of the external detector.
        scope_threshold: cosine similarity (external) or probability (internal) from which a prompt is in scope.
        scope_index: "exact" (a query is compared with every written prompt) or "faiss" (an index of the external detector's,
            from some ten thousand facts on; needs FAISS).
        decoder_mode: "frozen", "lora" (adapters that act on rows in scope only) or "full" (the decoder itself was trained and
            is part of the checkpoint; rows out of scope are that decoder's, not the base model's).
        tied_projection: whether ``W_M`` is the transpose of what makes the latent, as in the closed form; else the two are
            kept apart ("decoder-states" only).
        lora_rank: rank of the adapters.
        lora_targets: names of the linear layers that get one; all linear layers when None.
        merge_adapters: keep a second copy of those layers' weights, with the adapters in them: answers come as fast as the bare
            decoder's.
    """

    model_type = "larimar"

    def __init__(
        self,
        base_model_name_or_path: str = "",
        decoder_signature: dict | None = None,
        encoder_type: str = "decoder-states",
        encoder_name_or_path: str | None = None,
        encoder_max_length: int = 256,
        latent_size: int = 3072,
        memory_rows: int = 512,
        memory_slots: int = 4,
        slot_position: int = 4,
        key_gain: float = 1.0,
        value_gain: float = 1.0,
        key_encoding: str = "scope",
        addressing: str = "gaussian",
        addressing_alpha: float = 1e-3,
        reference: str = "prompts",
        sigma_w: float = 0.0,
        observation_noise: float = 0.0,
        readout_norm: bool = False,
        latent_norm: float | None = None,
        scope: str = "external",
        scope_encoder_name_or_path: str = "all-MiniLM-L6-v2",
        scope_threshold: float = 0.608,
        scope_index: str = "exact",
        decoder_mode: str = "frozen",
        tied_projection: bool = True,
        lora_rank: int = 16,
        lora_targets: list[str] | None = None,
        merge_adapters: bool = True,
        **kwargs,
    ):
        self.base_model_name_or_path = text("base_model_name_or_path", base_model_name_or_path)
        self.decoder_signature = decoder_signature
        self.encoder_type = one_of("encoder_type", encoder_type, ENCODER_TYPES)
        self.encoder_name_or_path = None if encoder_name_or_path is None else text("encoder_name_or_path", encoder_name_or_path)
        self.encoder_max_length = whole("encoder_max_length", encoder_max_length, least=1)
        self.latent_size = whole("latent_size", latent_size, least=1)
        self.memory_rows = whole("memory_rows", memory_rows, least=1)
        self.memory_slots = whole("memory_slots", memory_slots, least=1)
        self.slot_position = whole("slot_position", slot_position, least=1)
        self.key_gain = number("key_gain", key_gain, least=0)
        self.value_gain = number("value_gain", value_gain, least=0)
        self.key_encoding = one_of("key_encoding", key_encoding, KEY_ENCODINGS)
        self.addressing = one_of("addressing", addressing, ADDRESSINGS)
        self.addressing_alpha = number("addressing_alpha", addressing_alpha, above=0)
        self.reference = one_of("reference", reference, REFERENCES)
        self.sigma_w = number("sigma_w", sigma_w, least=0)
        self.observation_noise = number("observation_noise", observation_noise, least=0)
        self.readout_norm = flag("readout_norm", readout_norm)
        self.latent_norm = None if latent_norm is None else number("latent_norm", latent_norm, above=0)
        self.scope = one_of("scope", scope, SCOPES)
        self.scope_encoder_name_or_path = text("scope_encoder_name_or_path", scope_encoder_name_or_path)
        self.scope_threshold = number("scope_threshold", scope_threshold)
        self.scope_index = one_of("scope_index", scope_index, SCOPE_INDICES)
        self.decoder_mode = one_of("decoder_mode", decoder_mode, DECODER_MODES)
        self.tied_projection = flag("tied_projection", tied_projection)
        self.lora_rank = whole("lora_rank", lora_rank, least=1)
        self.lora_targets = lora_targets
        self.merge_adapters = flag("merge_adapters", merge_adapters)
        if latent_size % memory_slots and encoder_type == "decoder-states":
            raise ValueError(f"latent_size {latent_size} is not a multiple of memory_slots {memory_slots}")
        if decoder_mode == "full" and encoder_type == "decoder-states":
            raise ValueError(
                "decoder_mode: full needs encoder_type: transformer; the decoder's own states would change as it is trained"
            )
        super().__init__(**kwargs)

    @classmethod
    def settings(cls) -> frozenset[str]:
        """Names of the settings above."""
        return frozenset(inspect.signature(cls.__init__).parameters) - {"self", "kwargs"}

    @property
    def text_position(self) -> int:
        """Position of the text's first token when a memory is in front of it."""
        return self.slot_position + self.memory_slots
