"""POST /v1/chat/completions, through OpenAI's own client, curl and plain HTTP."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from composer_inference.backends.base import Capability, GenerateRequest
from tests.support.played import PlayedBackend, PlayedLoader

USER = {"role": "user", "content": "hi"}
GREP = {
    "type": "function",
    "function": {
        "name": "grep",
        "description": "Search",
        "parameters": {
            "type": "object",
            "properties": {"pattern": {"type": "string"}},
            "required": ["pattern"],
        },
    },
}
LS = {"type": "function", "function": {"name": "ls"}}
CALL = '{"name": "grep", "arguments": {"pattern": "TODO"}}'
PERSON = {
    "type": "json_schema",
    "json_schema": {
        "name": "person",
        "schema": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}


def calls_once(request: GenerateRequest) -> str:
    """Text, a call, and nothing behind it."""
    if request.json_schema is not None:
        return CALL
    return "" if "</tool_call>" in prompt_of(request) else "I look.\n<tool_call>\nwrong"


def prompt_of(request: GenerateRequest) -> str:
    return "".join(map(str, request.prompt)).rpartition("<|im_start|>assistant\n")[2]


Api = Callable[[PlayedBackend], openai.OpenAI]


@pytest.fixture
def api(serve: Callable[..., Path]) -> Iterator[Api]:
    """`api(backend)` is OpenAI's client of an engine with that model."""
    opened: list[openai.OpenAI] = []

    def connect(backend: PlayedBackend) -> openai.OpenAI:
        transport = httpx.HTTPTransport(uds=str(serve(loader=PlayedLoader(backend))))
        client = openai.OpenAI(
            base_url="http://engine/v1",
            api_key="none",
            http_client=httpx.Client(transport=transport),
            max_retries=0,
        )
        opened.append(client)
        return client

    yield connect
    for client in opened:
        client.close()


def test_a_whole_answer(api: Api):
    backend = PlayedBackend("Hello.")
    answer = api(backend).chat.completions.create(model="played", messages=[USER])
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == "played"
    choice = answer.choices[0]
    assert (choice.message.role, choice.message.content) == ("assistant", "Hello.")
    assert choice.message.tool_calls is None
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 6
    assert answer.usage.prompt_tokens == len(backend.requests[0].prompt[0])
    assert backend.requests[0].prompt == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    )


@pytest.mark.parametrize("include_usage", [True, False])
def test_a_stream(api: Api, include_usage: bool):
    stream = api(PlayedBackend("Hello.")).chat.completions.create(
        model="played",
        messages=[USER],
        stream=True,
        stream_options={"include_usage": include_usage},
    )
    events = list(stream)
    assert {event.object for event in events} == {"chat.completion.chunk"}
    assert len({event.id for event in events}) == 1
    if include_usage:
        last = events.pop()
        assert last.choices == []
        assert last.usage is not None
        assert last.usage.completion_tokens == 6
        assert all(event.usage is None for event in events)
    assert events[0].choices[0].delta.role == "assistant"
    assert "".join(event.choices[0].delta.content or "" for event in events) == "Hello."
    assert [event.choices[0].finish_reason for event in events][-1] == "stop"
    assert events[-1].model_extra["timings"]["num_decoded_tokens"] == 6  # type: ignore[index]


def test_tool_calls_at_once(api: Api):
    backend = PlayedBackend(calls_once)
    answer = api(backend).chat.completions.create(model="played", messages=[USER], tools=[GREP, LS])
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "I look.\n"
    [call] = choice.message.tool_calls or ()
    assert call.type == "function"
    assert call.id.startswith("call_")
    assert call.function.name == "grep"
    assert json.loads(call.function.arguments) == {"pattern": "TODO"}
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(backend.requests[0].prompt[0])
    assert '"name": "grep"' in str(backend.requests[0].prompt[0])


def test_tool_calls_as_a_stream(api: Api):
    stream = api(PlayedBackend(calls_once)).chat.completions.create(
        model="played", messages=[USER], tools=[GREP, LS], stream=True
    )
    events = [event.choices[0] for event in stream]
    deltas = [event.delta.tool_calls[0] for event in events if event.delta.tool_calls]
    assert {delta.index for delta in deltas} == {0}
    assert deltas[0].id
    assert deltas[0].type == "function"
    assert deltas[0].function is not None
    assert deltas[0].function.name == "grep"
    assert all(delta.id is None for delta in deltas[1:])
    assert len(deltas) > 5
    arguments = "".join(delta.function.arguments for delta in deltas if delta.function)  # type: ignore[misc]
    assert arguments == '{"pattern": "TODO"}'
    assert "".join(event.delta.content or "" for event in events) == "I look.\n"
    assert events[-1].finish_reason == "tool_calls"


def test_openais_helper_puts_a_streamed_call_together(api: Api):
    client = api(PlayedBackend(calls_once))
    with client.chat.completions.stream(model="played", messages=[USER], tools=[GREP]) as stream:
        stream.until_done()
        message = stream.get_final_completion().choices[0].message
    [call] = message.tool_calls or ()
    assert json.loads(call.function.arguments) == {"pattern": "TODO"}


@pytest.mark.parametrize(
    ("choice", "num_schemas"),
    [("required", 2), ({"type": "function", "function": {"name": "grep"}}, 1)],
)
def test_a_call_that_must_come(api: Api, choice: Any, num_schemas: int):
    backend = PlayedBackend(lambda request: CALL if request.json_schema else "")
    answer = api(backend).chat.completions.create(
        model="played", messages=[USER], tools=[GREP, LS], tool_choice=choice
    )
    assert answer.choices[0].message.content is None
    assert answer.choices[0].finish_reason == "tool_calls"
    schema = backend.requests[0].json_schema or {}
    assert len(schema.get("anyOf", [schema])) == num_schemas
    assert prompt_of(backend.requests[0]) == "<tool_call>\n"


def test_tools_that_are_not_to_be_used(api: Api):
    backend = PlayedBackend(f"<tool_call>{CALL}")
    answer = api(backend).chat.completions.create(
        model="played", messages=[USER], tools=[GREP], tool_choice="none"
    )
    assert answer.choices[0].message.content == f"<tool_call>{CALL}"
    assert "grep" not in str(backend.requests[0].prompt)


def test_the_answer_of_a_tool_goes_back(api: Api):
    backend = PlayedBackend("Three.", chat_template="{{ messages | tojson }}")
    call = {"id": "c1", "type": "function", "function": {"name": "grep", "arguments": '{"a": 1}'}}
    messages: Any = [
        {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief"}]},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "3 hits"},
    ]  # fmt: skip
    api(backend).chat.completions.create(model="played", messages=messages)
    system, _, assistant, tool = _plain_messages(backend)
    assert system == {"role": "system", "content": "Be brief"}
    assert "<tool_call>" in assistant["content"]
    assert '"arguments": {"a": 1}' in assistant["content"]
    assert "3 hits" in tool["content"]


def _plain_messages(backend: PlayedBackend) -> list[dict[str, Any]]:
    return json.loads(str(backend.requests[0].prompt[0]))


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        (PERSON, PERSON["json_schema"]["schema"]),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_the_format_of_the_answer(api: Api, form: Any, schema: Any, stream: bool):
    backend = PlayedBackend('{"name": "Ann"}')
    extra = {"response_format": form} if form else {}
    answer: Any = api(backend).chat.completions.create(
        model="played", messages=[USER], stream=stream, **extra
    )
    text = (
        "".join(event.choices[0].delta.content or "" for event in answer)
        if stream
        else answer.choices[0].message.content
    )
    assert json.loads(text) == {"name": "Ann"}
    assert backend.requests[0].json_schema == schema


@pytest.mark.parametrize("stream", [True, False])
def test_a_format_that_was_not_kept_is_an_error(api: Api, stream: bool):
    with pytest.raises(openai.APIError, match="was not enforced"):
        list(
            api(PlayedBackend("Sure!")).chat.completions.create(  # type: ignore[call-overload]
                model="played", messages=[USER], response_format=PERSON, stream=stream
            )
        )


@pytest.mark.parametrize("can", [True, False])
def test_a_prediction(api: Api, can: bool):
    backend = PlayedBackend("x", capabilities=[Capability.DRAFT_TEXT] if can else [])
    answer = api(backend).chat.completions.create(
        model="played", messages=[USER], prediction={"type": "content", "content": "draft"}
    )
    assert backend.requests[0].draft_text == ("draft" if can else None)
    assert answer.usage is not None
    told = (answer.usage.model_extra or {}).get("composer")
    assert told == {"prediction": "unused" if can else "unsupported"}


@pytest.mark.parametrize("num_top", [None, 0, 2])
def test_log_probabilities(api: Api, num_top: int | None):
    extra = {} if num_top is None else {"top_logprobs": num_top}
    answer = api(PlayedBackend("aé")).chat.completions.create(
        model="played", messages=[USER], logprobs=True, **extra
    )
    assert answer.choices[0].logprobs is not None
    entries = answer.choices[0].logprobs.content or []
    assert [entry.token for entry in entries] == ["a", "é"]
    assert entries[1].bytes == [0xC3, 0xA9]
    assert entries[0].logprob == -0.5
    assert len(entries[0].top_logprobs) == (num_top or 0)
    assert [(entry.model_extra or {}).get("token_id") for entry in entries] == [ord("a"), ord("é")]


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities_of_calls_stand_apart(api: Api, stream: bool):
    """Where OpenAI's API has a place for those of the text alone."""
    done = api(PlayedBackend(calls_once)).chat.completions.create(
        model="played", messages=[USER], tools=[GREP], logprobs=True, stream=stream
    )
    answers = list(done) if stream else [done]
    logprobs = [answer.choices[0].logprobs for answer in answers if answer.choices]
    of_calls = [
        entry
        for each in logprobs
        if each is not None
        for entry in (each.model_extra or {}).get("tool_calls", ())
    ]
    assert "".join(entry["token"] for entry in of_calls) == CALL
    assert [chr(entry["token_id"]) for entry in of_calls] == list(CALL)
    of_text = [entry.token for each in logprobs if each for entry in each.content or ()]
    assert "".join(of_text) == "I look.\n"


def test_a_limit_in_either_field(api: Api):
    client = api(PlayedBackend("abcdef"))
    for extra in ({"max_tokens": 3}, {"max_completion_tokens": 3}):
        answer = client.chat.completions.create(model="played", messages=[USER], **extra)
        assert answer.choices[0].message.content == "abc"
        assert answer.choices[0].finish_reason == "length"


def past_call(arguments: object) -> dict[str, object]:
    return {
        "role": "assistant",
        "tool_calls": [{"function": {"name": "f", "arguments": arguments}}],
    }


@pytest.mark.parametrize(
    ("body", "names"),
    [
        pytest.param({}, "messages is null", id="no-messages"),
        pytest.param({"messages": []}, "messages is []", id="no-message"),
        pytest.param({"messages": ["hi"]}, 'messages[0] is "hi"', id="text"),
        pytest.param({"messages": [{"role": "bot"}]}, 'messages[0].role is "bot"', id="role"),
        pytest.param({"messages": [USER, {"role": "user", "content": 3}]}, "messages[1].content is 3", id="content"),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "list of text parts", id="image",
        ),
        pytest.param({"messages": [past_call("{")]}, "messages[0].tool_calls[0].function.arguments", id="arguments"),
        pytest.param({"messages": [past_call([1])]}, "must be a JSON object", id="arguments-list"),
        pytest.param({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "tool_calls[0]", id="call"),
        pytest.param({"messages": [USER], "tools": {}}, "tools is {}", id="tools"),
        pytest.param({"messages": [USER], "tools": [{"type": "web"}]}, "tools[0]", id="kind-of-tool"),
        pytest.param({"messages": [USER], "tools": [{"type": "function", "function": {}}]}, "tools[0].function.name", id="nameless"),
        pytest.param({"messages": [USER], "tools": [GREP, GREP]}, "grep twice", id="twice"),
        pytest.param(
            {"messages": [USER], "tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {"not": {}}}}]},
            "tools[0].function.parameters: /not cannot be enforced", id="strict",
        ),
        pytest.param({"messages": [USER], "tool_choice": "required"}, "none are given", id="required"),
        pytest.param({"messages": [USER], "tools": [GREP], "tool_choice": {"function": {"name": "rm"}}}, "one of the tools (grep)", id="unknown-tool"),
        pytest.param({"messages": [USER], "tools": [GREP], "response_format": PERSON}, "cannot be combined", id="both"),
        pytest.param({"messages": [USER], "response_format": {"type": "xml"}}, "response_format is", id="xml"),
        pytest.param({"messages": [USER], "response_format": {"type": "json_schema"}}, "with a schema", id="no-schema"),
        pytest.param({"messages": [USER], "prediction": {"type": "x"}}, "prediction is", id="prediction"),
        pytest.param({"messages": [USER], "top_logprobs": 3}, "logprobs is false", id="top-logprobs"),
        pytest.param({"messages": [USER], "max_completion_tokens": 1.5}, "max_completion_tokens is 1.5", id="limit"),
        pytest.param({"messages": [USER], "n": 17}, "n is 17 and must be a whole number from 1 to 16", id="n"),
        pytest.param({"messages": [USER], "modalities": ["audio"]}, "modalities", id="audio"),
        pytest.param({"messages": [USER], "stream": True, "stream_options": []}, "stream_options is []", id="options"),
        pytest.param({"messages": [USER], "stop": ["x"] * 17}, "17 strings", id="stops"),
    ],
)  # fmt: skip
def test_a_bad_field_is_named(serve, client, body, names):
    engine = client(serve(loader=PlayedLoader(PlayedBackend("x"))))
    answer = engine.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert names in error["message"]
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("stream", [True, False])
def test_a_template_that_refuses_is_told_before_the_stream_begins(api: Api, stream: bool):
    backend = PlayedBackend("x", chat_template="{{ raise_exception('only one user') }}")
    with pytest.raises(openai.BadRequestError, match="only one user"):
        api(backend).chat.completions.create(model="played", messages=[USER], stream=stream)


def test_a_model_without_a_grammar(serve, client):
    engine = client(
        serve(loader=PlayedLoader(PlayedBackend(f"<tool_call>{CALL}", capabilities=[])))
    )
    body = {"messages": [USER], "tools": [GREP]}
    answer = engine.post("/v1/chat/completions", json=body).json()
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "grep"
    refused = engine.post("/v1/chat/completions", json={**body, "tool_choice": "required"})
    assert refused.json()["error"]["code"] == "unsupported"
    refused = engine.post(
        "/v1/chat/completions", json={"messages": [USER], "response_format": PERSON}
    )
    assert refused.json()["error"]["code"] == "unsupported"


@pytest.mark.parametrize("stream", [True, False])
def test_curl_gets_a_tool_call(serve, stream: bool):
    path = serve(loader=PlayedLoader(PlayedBackend(calls_once)))
    body = json.dumps({"messages": [USER], "tools": [GREP], "stream": stream})
    done = subprocess.run(
        ["curl", "--silent", "--include", "--unix-socket", str(path),
         "http://engine/v1/chat/completions", "--data", body],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "200 OK" in done.stdout
    assert '"finish_reason":"tool_calls"' in done.stdout
    kind = "text/event-stream" if stream else "application/json"
    assert f"content-type: {kind}" in done.stdout
    assert done.stdout.endswith("data: [DONE]\n\n") is stream
