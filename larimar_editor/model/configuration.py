"""The configuration of a Larimar as transformers knows it."""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from transformers import PretrainedConfig

from larimar_editor.model.settings import LarimarSettings
from larimar_editor.utils.settings import check_one

_SETTINGS = {each.name: each for each in fields(LarimarSettings)}


class LarimarConfig(PretrainedConfig, LarimarSettings):
    """``config.json`` of a checkpoint: the settings of `LarimarSettings`, each checked whenever it is set.

    Args:
        values: settings by name; others go to transformers' ``PretrainedConfig``.

    Raises:
        ValueError: a setting out of its range, or two that do not go together.
        AttributeError: a setting that is changed when it can have no effect any more, as the model is made;
            then also a name that is nearly a setting's.
    """

    model_type = "larimar"
    # Apart from the other attributes, which are what is saved, shown and iterated over.
    __slots__ = ("_decoder_config",)

    def __init__(self, **values: Any):
        self._decoder_config: PretrainedConfig | None = None
        for name, each in _SETTINGS.items():
            setattr(self, name, values.pop(name, each.default))
        if self.latent_size % self.memory_slots:
            raise ValueError(
                f"latent_size {self.latent_size} is not a multiple of memory_slots {self.memory_slots}"
            )
        if self.encoder_type == "decoder-states":
            if self.latent_in_embeddings:
                raise ValueError(
                    "latent_in_embeddings needs encoder_type: transformer, whose latents are of one size"
                )
            if self.decoder_mode == "full":
                raise ValueError(
                    "decoder_mode: full needs encoder_type: transformer; the decoder's own states would "
                    "change as it is trained"
                )
        super().__init__(**values)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _SETTINGS:
            check_one(LarimarSettings, name, value)
            changed = name in vars(self) and vars(self)[name] != value
            if changed and vars(self).get("_fixed") and not _SETTINGS[name].metadata.get("live"):
                raise AttributeError(
                    f"{name} is fixed once the model is made; give it to from_pretrained: {name}={value!r}"
                )
        elif vars(self).get("_fixed") and not hasattr(self, name) and (meant := self.meant_by(name)):
            raise AttributeError(f"no setting is called {name}: is {meant} meant?")
        super().__setattr__(name, value)

    @staticmethod
    def meant_by(name: str) -> str | None:
        """The setting whose name is nearly this one; None where none is."""
        return next(iter(get_close_matches(name, _SETTINGS, n=1, cutoff=0.85)), None)

    def changed(self, **settings: Any) -> LarimarConfig:
        """A configuration with some settings changed; None leaves one as it is."""
        values = self.to_dict() | {name: value for name, value in settings.items() if value is not None}
        values.pop("model_type", None)
        return LarimarConfig(**values)

    def live_settings(self) -> tuple[Any, ...]:
        """Values of the settings that may be changed at any time, for telling whether one was."""
        return tuple(getattr(self, name) for name, each in _SETTINGS.items() if each.metadata.get("live"))

    def threshold(self, two_stages: bool) -> float:
        """The threshold that holds where the detector that decides has two stages, or only one."""
        alone = None if two_stages or self.scope != "external" else self.scope_cosine
        return self.scope_threshold if alone is None else alone

    def fix(self, decoder: PretrainedConfig) -> None:
        """A model was made, over a decoder of this configuration: from now on only what acts at once may be
        changed.
        """
        self._decoder_config = decoder
        vars(self)["_fixed"] = True

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> PretrainedConfig:
        """The decoder's, once there is a model: what transformers makes caches by, and masks."""
        if self._decoder_config is None:
            return super().get_text_config(decoder, encoder)
        return self._decoder_config.get_text_config(decoder, encoder)

    @property
    def max_position_embeddings(self) -> int | None:
        """Of the decoder, whose default length of a generation it limits; None where none is known."""
        return getattr(self._decoder_config, "max_position_embeddings", None)

    def to_dict(self) -> dict[str, Any]:
        """As transformers' `to_dict`: what ``config.json`` is written from."""
        return {name: value for name, value in super().to_dict().items() if name != "_fixed"}

    @classmethod
    def settings(cls) -> frozenset[str]:
        """Names of Larimar's own settings."""
        return frozenset(_SETTINGS)
