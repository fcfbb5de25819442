"""An edited model behind transformers' own server, which speaks OpenAI's protocol.

``transformers serve`` loads a model by an architecture that transformers itself has, so that it cannot be
given another; its parts take one that is loaded.
"""

from __future__ import annotations

import copy
from typing import Annotated, Any

import torch
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from transformers.cli.serving.chat_completion import ChatCompletionHandler
from transformers.cli.serving.completion import CompletionHandler
from transformers.cli.serving.model_manager import ModelManager
from transformers.cli.serving.response import ResponseHandler
from transformers.cli.serving.server import build_server
from transformers.cli.serving.systemone import SystemOneHandler
from transformers.cli.serving.transcription import TranscriptionHandler
from transformers.cli.serving.utils import GenerateManager, GenerationState

from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.state.fact import Fact
from larimar_editor.state.facts import UnknownFact

# What transformers' handlers take and do nothing about, and the values of it that ask for nothing.
_NOT_DONE: dict[str, tuple] = {
    "n": (None, 1),
    "best_of": (None, 1),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "echo": (None, False),
    "response_format": (None, {"type": "text"}),
    "text": (None, {}, {"format": {"type": "text"}}),
    "presence_penalty": (None, 0),
    "prediction": (None,),
    "tool_choice": (None, "auto"),
    "functions": (None, []),
    "function_call": (None, "auto", "none"),
    "previous_response_id": (None,),
    "truncation": (None, "disabled"),
}

_TOLD: tuple[type[Exception], ...] = (
    HTTPException,
    RequestValidationError,
    ValueError,
    OSError,
)

_Said = Annotated[str, Field(min_length=1)]


class _Options(BaseModel, strict=True):
    """What transformers' handlers take unseen, as far as it can be done."""

    max_tokens: int | None = Field(None, gt=0)
    max_completion_tokens: int | None = Field(None, gt=0)
    max_output_tokens: int | None = Field(None, gt=0)
    temperature: float | None = Field(None, ge=0)
    top_p: float | None = Field(None, ge=0, le=1)
    frequency_penalty: float | None = Field(None, gt=-1)  # one more is what is divided by
    seed: int | None = Field(None, ge=-(2**63), lt=2**64)
    stop: _Said | Annotated[list[_Said], Field(min_length=1)] | None = None


class _Message(BaseModel):
    role: str


class _Chat(_Options):
    messages: list[_Message] = Field(min_length=1)


class _Response(_Options):
    input: str | Annotated[list[dict[str, Any]], Field(min_length=1)]


class OneModel(ModelManager):
    """Serves one model, under one name, for as long as the server runs.

    Args:
        model: loaded, with its facts.
        name: what clients ask for.
    """

    def __init__(self, model: LarimarForCausalLM, name: str):
        self.model = model
        super().__init__(device=str(model.decoder.device), force_model=name)

    @staticmethod
    def process_model_name(model_id: str) -> str:
        """The name as it is asked for, and told: there is no revision of it."""
        return model_id

    def _load_processor(self, *args: Any, **kwargs: Any) -> Any:
        return copy.deepcopy(self.model.tokenizer)  # each thread that calls one has its own

    def _load_model(self, *args: Any, **kwargs: Any) -> LarimarForCausalLM:
        return self.model

    def get_gen_models(self, cache_dir: str | None = None) -> list[dict]:  # type: ignore[override]
        """The one."""
        return [{"id": self.force_model, "object": "model", "owned_by": "larimar_editor", "created": 0}]


class _Seeded(GenerateManager):
    """Seeds in the thread that generates, between two answers: in another it would change one being drawn."""

    def generate_streaming(
        self, model: Any, processor: Any, inputs: Any, gen_config: Any, *args: Any, **kwargs: Any
    ) -> Any:
        self._seed(gen_config)
        return super().generate_streaming(model, processor, inputs, gen_config, *args, **kwargs)

    async def generate_non_streaming(
        self, model: Any, processor: Any, inputs: Any, gen_config: Any, *args: Any, **kwargs: Any
    ) -> Any:
        self._seed(gen_config)
        return await super().generate_non_streaming(model, processor, inputs, gen_config, *args, **kwargs)

    def _seed(self, gen_config: Any) -> None:
        if gen_config.seed is not None:
            self.submit(torch.manual_seed, gen_config.seed)


class _OneThread(GenerationState):
    def __init__(self) -> None:
        super().__init__()
        self._manager = _Seeded()

    def get_manager(self, model_id: str, use_cb: bool = False) -> _Seeded:
        return self._manager


class _AsAsked:
    """Before a handler of transformers': a temperature draws, and what is not done, or cannot be, is
    refused.
    """

    _options: type[_Options] = _Options

    def _validate_request(self, body: dict) -> None:
        super()._validate_request(body)  # type: ignore[misc]
        if refused := sorted(name for name, nothing in _NOT_DONE.items() if body.get(name) not in nothing):
            raise HTTPException(400, f"this server does nothing about {', '.join(refused)}: leave it out")
        try:
            self._options.model_validate(body)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise HTTPException(400, wrong) from error

    def _build_generation_config(self, body: dict, *args: Any, **kwargs: Any) -> Any:
        config = super()._build_generation_config(body | {"seed": None}, *args, **kwargs)  # type: ignore[misc]
        config.seed = body.get("seed")  # see `_Seeded`
        draws = bool(body.get("temperature"))
        if draws or not body.get("generation_config"):  # whatever the decoder's own says
            config.do_sample = draws
        return config


class _Chats(_AsAsked, ChatCompletionHandler):
    _options = _Chat


class _Completions(_AsAsked, CompletionHandler):
    pass


class _Responses(_AsAsked, ResponseHandler):
    _options = _Response

    async def handle_request(self, body: dict, request_id: str) -> Any:
        # OpenAI's client says nothing of a stream where it wants none.
        return await super().handle_request({"stream": False} | body, request_id)


def application(model: LarimarForCausalLM, name: str, edits: bool = False) -> FastAPI:
    """A FastAPI application with transformers' routes, ``/v1/chat/completions`` and others.

    Edits of the model while it runs act from the next request on.

    Args:
        model: loaded, with its facts.
        name: what clients ask for.
        edits: whether clients may list, write and forget facts, by ``/v1/facts``.
    """
    manager, state = OneModel(model, name), _OneThread()
    app = build_server(
        manager,
        _Chats(manager, state),
        completion_handler=_Completions(manager, state),
        response_handler=_Responses(manager, state),
        transcription_handler=TranscriptionHandler(manager, state),
        systemone_handler=SystemOneHandler(manager, state),
        generation_state=state,
    )
    for kind in _TOLD:
        app.add_exception_handler(kind, _as_openai_says)
    if edits:
        _add_edits(app, model)
    return app


def _add_edits(app: FastAPI, model: LarimarForCausalLM) -> None:
    @app.get("/v1/facts")
    def written(start: int = Query(0, ge=0), limit: int = Query(100, ge=1)) -> dict:
        store = model.edited_state.store
        rows = store.alive_rows()[start : start + limit]  # of a file no others are read
        return {"facts": [_shown(fact) for fact in store.entries.facts(rows)], "count": len(store)}

    @app.post("/v1/facts", status_code=201)
    def write(facts: list[dict[str, Any]]) -> dict:
        return {"facts": [_shown(fact) for fact in model.write(facts)]}

    @app.delete("/v1/facts/{number}")
    def forget(number: int) -> dict:
        try:
            model.forget(number)
        except UnknownFact as error:
            raise HTTPException(404, str(error)) from error
        return {"forgotten": number}

    @app.post("/v1/facts/undo")
    def undo() -> dict:
        try:
            model.undo()
        except RuntimeError as error:
            raise HTTPException(409, str(error)) from error
        return {"count": len(model.edited_state.store)}


def _shown(fact: Fact) -> dict[str, Any]:
    return {"id": fact.id, "prompt": fact.prompt, "target_new": fact.target_new, "subject": fact.subject}


async def _as_openai_says(request: Request, error: Exception) -> JSONResponse:
    """What is wrong, in the form in which OpenAI's client finds the message: with a request, unless the
    state's file could not be read or written.
    """
    status, message, kind = 400, str(error), "invalid_request_error"
    if isinstance(error, HTTPException):
        status, message = error.status_code, str(error.detail)
    elif isinstance(error, RequestValidationError):
        status = 422
    elif isinstance(error, OSError):
        status, kind = 503, "server_error"
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": None}}, status)
