"""An edited model behind transformers' server, asked by OpenAI's own client."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from typer.testing import CliRunner

from larimar_editor import cli

openai = pytest.importorskip("openai")
TestClient = pytest.importorskip("fastapi.testclient").TestClient
pytest.importorskip("uvicorn")
application = pytest.importorskip("larimar_editor.tools.server").application

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


def test_a_seed_repeats_an_answer_whatever_is_asked_meanwhile(client):
    say = lambda seed: (
        asked(client, "Tell me a story about a boat.", seed=seed, max_tokens=12, temperature=1.5)
        .choices[0]
        .message.content
    )
    alone = [say(seed) for seed in (1, 2, 3)]
    with ThreadPoolExecutor(3) as several:
        assert [*several.map(say, (1, 2, 3))] == alone


@pytest.mark.parametrize(
    "option",
    [
        {"n": 2},
        {"logprobs": True},
        {"response_format": {"type": "json_object"}},
        {"presence_penalty": 0.5},
        {"tool_choice": "required"},
        {"functions": [{"name": "f"}]},
        {"function_call": {"name": "f"}},
        {"prediction": {"type": "content", "content": "x"}},
    ],
    ids=str,
)
def test_what_is_not_done_is_refused(client, option):
    with pytest.raises(openai.BadRequestError, match=f"does nothing about {next(iter(option))}"):
        asked(client, "What is the capital of Portugal?", **option)


@pytest.mark.parametrize(
    "option",
    [
        {"previous_response_id": "resp_1"},
        {"text": {"format": {"type": "json_object"}}},
        {"truncation": "auto"},
    ],
    ids=str,
)
def test_what_is_not_done_for_a_response_is_refused(client, option):
    with pytest.raises(openai.BadRequestError, match=f"does nothing about {next(iter(option))}"):
        client.responses.create(model="larimar", input="Hello", **option)


CHAT = {"messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.parametrize(
    ("route", "asked", "wrong"),
    [
        ("chat/completions", {}, "messages"),
        ("chat/completions", {"messages": []}, "messages"),
        ("chat/completions", {"messages": [{"content": "Hello"}]}, "messages.0.role"),
        ("chat/completions", CHAT | {"temperature": -1}, "temperature"),
        ("chat/completions", CHAT | {"temperature": "warm"}, "temperature"),
        ("chat/completions", CHAT | {"frequency_penalty": -1}, "frequency_penalty"),
        ("chat/completions", CHAT | {"stop": []}, "stop"),
        ("chat/completions", CHAT | {"seed": "a"}, "seed"),
        ("chat/completions", CHAT | {"max_completion_tokens": 0}, "max_completion_tokens"),
        ("chat/completions", CHAT | {"generation_config": "{"}, "Expecting"),
        ("completions", {"prompt": "x", "max_tokens": -1}, "max_tokens"),
        ("responses", {"input": []}, "input"),
        ("responses", {"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_done_is_refused_as_openai_does(tiny, route, asked, wrong):
    """OpenAI's client asks again after a 500."""
    refused = TestClient(application(tiny, "larimar")).post(f"/v1/{route}", json=asked)
    assert refused.status_code == 400 and wrong in refused.json()["error"]["message"]


def test_a_file_that_cannot_be_written_is_no_fault_of_the_request(tiny, tmp_path):
    tiny.open_state(tmp_path / "facts.db")
    tiny.close_state()
    tiny.open_state(tmp_path / "facts.db", read_only=True)
    failed = TestClient(application(tiny, "larimar", edits=True)).post("/v1/facts", json=[FACT])
    assert failed.status_code == 503 and "read only" in failed.json()["error"]["message"]
    tiny.close_state()


def test_a_server_that_is_ended_closes_its_file(tiny, tmp_path, monkeypatch):
    """uvicorn shuts down, and raises the signal again that told it to."""
    path, before = tmp_path / "facts.db", signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def run(*args, **options):
        tiny.write([FACT])
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
            raise AssertionError("went on")

    monkeypatch.setattr("larimar_editor.tools.opening.open_larimar", lambda *args, **settings: tiny)
    monkeypatch.setattr("uvicorn.run", run)
    try:
        ended = CliRunner().invoke(cli.app, ["serve", "--file", str(path)])
        assert ended.exit_code == 0 and signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not path.with_name("facts.db-wal").exists() and b"Portugal" in path.read_bytes()


def test_facts_are_edited_while_the_server_runs_and_are_in_the_file(tiny, tmp_path):
    tiny.open_state(tmp_path / "facts.db")
    client = TestClient(application(tiny, "larimar", edits=True))
    prague = {"prompt": "The mayor of Prague is", "target_new": "Ada Lund", "subject": "Prague"}
    written = client.post("/v1/facts", json=[FACT, prague])
    assert written.status_code == 201 and [each["id"] for each in written.json()["facts"]] == [1, 2]
    refused = client.post("/v1/facts", json=[{"prompt": "x"}])
    assert refused.status_code == 400 and "target_new" in refused.json()["error"]["message"]
    for one in (client.post("/v1/facts", json=FACT), client.get("/v1/facts", params={"start": -1})):
        assert one.status_code == 422 and one.json()["error"]["message"]
    assert client.delete("/v1/facts/1").json() == {"forgotten": 1}
    assert client.delete("/v1/facts/1").status_code == 404
    listed = client.get("/v1/facts", params={"limit": 1}).json()
    assert listed == {"facts": [prague | {"id": 2}], "count": 1} and len(tiny.facts()) == 1
    assert client.post("/v1/facts/undo").json() == {"count": 2}
    assert [client.post("/v1/facts/undo").status_code for _ in range(2)] == [200, 409]
    tiny.close_state()
    untold = TestClient(application(tiny, "larimar"))
    assert untold.get("/v1/facts").status_code == 404, "a server that is not told to edits nothing"


def test_the_model_has_one_name(client):
    assert [model.id for model in client.models.list()] == ["larimar"]
    assert asked(client, "What is the capital of Portugal?", max_tokens=1).model == "larimar"
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="another", prompt="x")
