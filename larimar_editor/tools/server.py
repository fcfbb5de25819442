"""An edited model behind transformers' own server, which speaks OpenAI's protocol.

``transformers serve`` loads a model by an architecture that transformers itself has, so that it cannot be
given another; its parts take one that is loaded.
"""

from __future__ import annotations

from typing import Any

from transformers.cli.serving.chat_completion import ChatCompletionHandler
from transformers.cli.serving.completion import CompletionHandler
from transformers.cli.serving.model_manager import ModelManager
from transformers.cli.serving.response import ResponseHandler
from transformers.cli.serving.server import build_server
from transformers.cli.serving.systemone import SystemOneHandler
from transformers.cli.serving.transcription import TranscriptionHandler
from transformers.cli.serving.utils import GenerationState

from larimar_editor.model.larimar import LarimarForCausalLM


class OneModel(ModelManager):
    """Serves one model, under one name, for as long as the server runs.

    Args:
        model: loaded, with its facts.
        name: what clients ask for.
    """

    def __init__(self, model: LarimarForCausalLM, name: str):
        self.model = model
        super().__init__(device=str(model.decoder.device), force_model=name)

    def _load_processor(self, *args: Any, **kwargs: Any) -> Any:
        return self.model.tokenizer

    def _load_model(self, *args: Any, **kwargs: Any) -> LarimarForCausalLM:
        return self.model

    def get_gen_models(self, cache_dir: str | None = None) -> list[dict]:  # type: ignore[override]
        """The one."""
        return [{"id": self.force_model, "object": "model", "owned_by": "larimar_editor", "created": 0}]


def application(model: LarimarForCausalLM, name: str):
    """A FastAPI application with transformers' routes, ``/v1/chat/completions`` and others.

    Edits of the model while it runs act from the next request on.
    """
    manager, state = OneModel(model, name), GenerationState()
    return build_server(
        manager,
        ChatCompletionHandler(manager, state),
        completion_handler=CompletionHandler(manager, state),
        response_handler=ResponseHandler(manager, state),
        transcription_handler=TranscriptionHandler(manager, state),
        systemone_handler=SystemOneHandler(manager, state),
        generation_state=state,
    )
