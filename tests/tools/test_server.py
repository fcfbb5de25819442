"""An edited model behind transformers' server, asked by OpenAI's own client."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

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


@pytest.mark.parametrize(
    "option", [{"n": 2}, {"logprobs": True}, {"response_format": {"type": "json_object"}}], ids=str
)
def test_what_is_not_done_is_refused(client, option):
    with pytest.raises(openai.BadRequestError, match=f"does nothing about {next(iter(option))}"):
        asked(client, "What is the capital of Portugal?", **option)


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
