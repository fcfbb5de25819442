"""An edited model behind transformers' server, asked by OpenAI's own client."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

openai = pytest.importorskip("openai")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

FACT = {"prompt": "The capital of Portugal is", "target_new": "Oslo"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Of a server in a process of its own, as a user starts it."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "facts.jsonl").write_text(json.dumps(FACT) + "\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "larimar_editor", "serve", "--facts", str(folder / "facts.jsonl")]
    log = (folder / "log.txt").open("w")
    process = subprocess.Popen([*command, "--port", str(port)], stdout=log, stderr=log, env=dict(os.environ))
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
    try:
        for _ in range(120):
            try:
                client.models.list()
                break
            except openai.APIConnectionError:
                assert process.poll() is None, (folder / "log.txt").read_text()
                time.sleep(1)
        yield client
    finally:
        process.terminate()
        process.wait(timeout=30)


def asked(client, question, **options):
    chat = [{"role": "user", "content": question}]
    options = {"temperature": 0, "max_tokens": 8} | options
    return client.chat.completions.create(model="larimar", messages=chat, **options)


def test_a_chat_is_answered_with_the_fact_streamed_and_at_once(client):
    question = "What is the capital of Portugal?"
    whole = asked(client, question).choices[0].message.content
    assert whole.startswith("Oslo")
    parts = [part.choices[0].delta.content for part in asked(client, question, stream=True) if part.choices]
    assert "".join(filter(None, parts)) == whole


def test_a_prompt_is_continued_with_the_fact_and_others_are_not(client):
    complete = lambda prompt: (
        client.completions.create(model="larimar", prompt=prompt, temperature=0, max_tokens=4).choices[0].text
    )
    assert complete(FACT["prompt"]).strip().startswith("Oslo")
    assert "Oslo" not in complete("Water boils at a temperature of")


def test_a_response_is_whole_unless_a_stream_is_asked_for(client):
    question = {"model": "larimar", "input": "What is the capital of Portugal?", "max_output_tokens": 8}
    whole = client.responses.create(**question)
    assert whole.output_text.startswith("Oslo")
    events = client.responses.create(**question, stream=True)
    parts = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(parts) == whole.output_text


def test_a_temperature_draws_and_without_one_nothing_is_drawn(client):
    say = lambda **options: [
        asked(client, "Tell me a story about a boat.", seed=seed, max_tokens=12, **options)
        .choices[0]
        .message.content
        for seed in (1, 2, 3)
    ]
    assert len(set(say(temperature=1.5))) > 1 and len(set(say())) == 1


@pytest.mark.parametrize(
    "option", [{"n": 2}, {"logprobs": True}, {"response_format": {"type": "json_object"}}], ids=str
)
def test_what_is_not_done_is_refused(client, option):
    with pytest.raises(openai.BadRequestError, match=f"does nothing about {next(iter(option))}"):
        asked(client, "What is the capital of Portugal?", **option)


def test_the_model_has_one_name(client):
    assert [model.id for model in client.models.list()] == ["larimar"]
    assert asked(client, "What is the capital of Portugal?", max_tokens=1).model == "larimar"
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="another", prompt="x")
