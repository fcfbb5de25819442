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


def test_the_model_has_one_name(client):
    assert [model.id for model in client.models.list()] == ["larimar"]
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="another", prompt="x")
