"""POST /v1/completions and the routes around it, over a real socket."""

import json
import subprocess
import time

import openai
import pytest

RULES = [
    {"match": "fail", "error": "the weights are sulking"},
    {"match": "slow", "text": "one two three four five six", "token_delay_ms": 5_000},
    {"match": "", "text": "return a + b"},
]


def test_the_whole_answer_at_once(serve, client):
    answer = client(serve(RULES)).post(
        "/v1/completions", json={"model": "m", "prompt": "def add(a, b):", "max_tokens": 16}
    )
    assert answer.status_code == 200
    body = answer.json()
    assert body["choices"][0]["text"] == "return a + b"
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["completion_tokens"] == 4
    assert body["timings"]["num_decoded_tokens"] == 4


def test_a_stream_of_events(serve, client):
    with client(serve(RULES)).stream(
        "POST", "/v1/completions", json={"prompt": "x", "stream": True, "max_tokens": 3}
    ) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert "".join(event["choices"][0]["text"] for event in events) == "return a +"
    assert events[-1]["choices"][0]["finish_reason"] == "length"
    assert events[-1]["usage"]["completion_tokens"] == 3
    assert [event["timings"]["num_decoded_tokens"] for event in events][:3] == [1, 2, 3]
    assert all("num_prefill_tokens" in event["timings"] for event in events)
    assert not any("usage" in event for event in events[:-1])


@pytest.mark.parametrize(
    ("body", "names"),
    [
        pytest.param({}, "prompt", id="no-prompt"),
        pytest.param({"prompt": ""}, "prompt", id="empty-prompt"),
        pytest.param({"prompt": [True]}, "prompt", id="bool-in-prompt"),
        pytest.param({"prompt": "x", "max_tokens": -1}, "max_tokens", id="negative"),
        pytest.param({"prompt": "x", "temperature": "hot"}, "temperature", id="word-for-number"),
        pytest.param({"prompt": "x", "stop": [""]}, "stop", id="empty-stop"),
        pytest.param({"prompt": "x", "n": 0}, "n is 0", id="no-answers"),
        pytest.param({"prompt": "x", "presence_penalty": 2.5}, "from -2 to 2", id="penalty"),
        pytest.param(
            {"prompt": "x", "frequency_penalty": -1}, "no count_penalties", id="no-penalty-here"
        ),
        pytest.param(
            {"prompt": "x", "return_router_choices": True}, "no router_choices", id="no-router-here"
        ),
        pytest.param({"prompt": "x", "prediction": "old"}, "prediction is", id="prediction"),
        pytest.param({"prompt": "x", "suffix": "y"}, "suffix", id="suffix"),
        pytest.param(
            {"prompt": "x", "grammar": "(" * 1000}, "grammar is nested", id="deep-grammar"
        ),
        pytest.param({"prompt": "x", "grammar": "#" * 10**6}, "grammar has", id="long-grammar"),
        pytest.param(
            {"prompt": "x", "json_schema": {"minLength": 2, "maxLength": 1}},
            "json_schema: ",
            id="unsatisfiable",
        ),
        pytest.param({"prompt": "x", "grammar": "root ::= x"}, "grammar", id="no-grammar-here"),
    ],
)
def test_a_bad_field_is_named(serve, client, body, names):
    answer = client(serve(RULES)).post("/v1/completions", json=body)
    assert answer.status_code == 400
    assert names in answer.json()["error"]["message"]


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"], ids=["cut", "list", "no-utf8"])
def test_a_body_that_is_no_object(serve, client, content):
    answer = client(serve(RULES)).post("/v1/completions", content=content)
    assert answer.status_code == 400
    assert "JSON" in answer.json()["error"]["message"]


def test_a_body_that_is_too_large(serve, client):
    answer = client(serve(RULES)).post("/v1/completions", json={"prompt": "x" * (17 * 2**20)})
    assert answer.status_code == 413


def test_the_backends_own_error(serve, client):
    answer = client(serve(RULES)).post("/v1/completions", json={"prompt": "fail"})
    assert answer.status_code == 500
    assert "sulking" in answer.json()["error"]["message"]


def test_unknown_paths_and_priorities(serve, client):
    engine = client(serve(RULES))
    assert engine.get("/v2/nothing").status_code == 404
    refused = engine.post(
        "/v1/completions", json={"prompt": "x"}, headers={"X-Composer-Priority": "royal"}
    )
    assert "royal" in refused.json()["error"]["message"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_client_that_leaves_ends_the_work(serve, client, stream):
    socket = serve(RULES)
    engine = client(socket)
    with pytest.raises(Exception, match="timed out"):
        engine.post("/v1/completions", json={"prompt": "slow", "stream": stream}, timeout=0.5)
    deadline = time.monotonic() + 4  # Less than one scripted word takes.
    while "composer_running_requests 0" not in engine.get("/metrics").text:
        assert time.monotonic() < deadline, "the engine works for nobody"
    assert 'composer_requests_cancelled_total{priority="agent"} 1' in engine.get("/metrics").text


def test_the_token_is_asked_for(serve, client):
    engine = client(serve(RULES, token="secret"))
    assert engine.get("/health").status_code == 401
    authorized = {"Authorization": "Bearer secret"}
    assert engine.get("/health", headers=authorized).json()["status"] == "ok"


def test_draining_refuses_new_work(serve, client):
    engine = client(serve(RULES))
    assert engine.post("/composer/drain").status_code == 202
    refused = engine.post("/v1/completions", json={"prompt": "x"})
    assert refused.status_code == 503
    assert engine.get("/health").json()["status"] == "draining"


def test_models_are_listed_and_loaded(serve, client):
    engine = client(serve(RULES))
    assert engine.get("/v1/models").json()["data"][0]["composer"]["state"] == "unloaded"
    assert engine.post("/composer/load", json={"model": "auto"}).status_code == 200
    assert engine.get("/health").json()["models"][0]["state"] == "ready"


def test_the_openai_client(serve):
    import httpx

    http = httpx.Client(transport=httpx.HTTPTransport(uds=str(serve(RULES))))
    with openai.OpenAI(base_url="http://engine/v1", api_key="none", http_client=http) as api:
        whole = api.completions.create(model="m", prompt="x")
        assert whole.choices[0].text == "return a + b"
        parts = api.completions.create(model="m", prompt="x", stream=True)
        assert "".join(part.choices[0].text for part in parts) == "return a + b"
        chat = api.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "add"}], stream=True
        )
        assert "".join(part.choices[0].delta.content or "" for part in chat) == "return a + b"
        with pytest.raises(openai.BadRequestError, match="n is 17"):
            api.completions.create(model="m", prompt="x", n=17)
        assert [model.id for model in api.models.list()] == ["scripted"]


def test_curl(serve):
    command = ["curl", "--silent", "--unix-socket", str(serve(RULES))]
    body = json.dumps({"prompt": "x", "stream": True})
    done = subprocess.run(
        [*command, "http://engine/v1/completions", "--data", body],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.rstrip().endswith("data: [DONE]")
