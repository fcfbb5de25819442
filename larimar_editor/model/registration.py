"""Makes transformers' ``AutoConfig`` know the model type, without loading the model before it is used."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from larimar_editor.utils.hooks import after_import


class LazyLarimarConfig:
    """Stands for `LarimarConfig` until a checkpoint is read; then the model is loaded."""

    model_type = "larimar"

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """As ``LarimarConfig.from_dict``."""
        config = importlib.import_module("larimar_editor.model.larimar").LarimarConfig
        return config.from_dict(config_dict, **kwargs)


def register_with_transformers() -> None:
    """Register when transformers' automatic classes are imported, or now if they are."""
    after_import("transformers.models.auto.configuration_auto", _register)


def _register(module: ModuleType) -> None:
    if LazyLarimarConfig.model_type not in module.CONFIG_MAPPING:
        module.AutoConfig.register(LazyLarimarConfig.model_type, LazyLarimarConfig)
