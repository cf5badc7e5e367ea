"""Schemas that can be enforced, and those that would silently not be."""

import pytest

from composer_inference.backends.base import GenerateChunk, RejectedRequestError
from composer_inference.chat.json_guard import JsonGuard
from composer_inference.chat.schema import SchemaError, check_schema


def holding(**keywords: object) -> dict[str, object]:
    return {"type": "object", "properties": {"a": keywords}, "required": ["a"]}


@pytest.mark.parametrize("relax", [True, False])
@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": ["integer", "null"], "minimum": 3, "x-note": 1},
        holding(type="string", pattern="^(?:a|b)\\d{2,3}$", format="date", maxLength=9),
        holding(type="integer", format="int32", multipleOf=3),
        holding(type="array", items={"type": "string"}, minItems=1),
        {"anyOf": [{"const": 1}, {"enum": ["x", None]}], "additionalProperties": False},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"items": {"$ref": "#"}, "prefixItems": [True]}}},
    ],
)
def test_what_can_be_enforced_stays_as_it_is(schema, relax):
    assert check_schema(schema, relax=relax) == schema


@pytest.mark.parametrize(
    ("keywords", "name"),
    [
        ({"not": {}}, "not"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"if": {}, "then": {}}, "if"),
        ({"type": "string", "format": "uri"}, "format"),
        ({"format": "uri"}, "format"),
        ({"pattern": "(?!x)y"}, "pattern"),
        ({"pattern": r"\bx"}, "pattern"),
        ({"patternProperties": {"(?=a)": {}}}, "patternProperties"),
    ],
)
def test_what_cannot_be_enforced_is_named_or_left_out(keywords, name):
    with pytest.raises(SchemaError, match=f"/properties/a/{name} cannot be enforced"):
        check_schema(holding(**keywords), relax=False)
    relaxed = check_schema(holding(**keywords), relax=True)
    assert name not in relaxed["properties"]["a"]


def test_alternatives_that_may_overlap_are_relaxed():
    schema = {"oneOf": [{"type": "integer"}, {"type": "number"}]}
    assert check_schema(schema, relax=True) == {"anyOf": schema["oneOf"]}
    assert check_schema(schema, relax=False) == schema


@pytest.mark.parametrize("relax", [True, False])
@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "nonsense"}, "/type is 'nonsense'"),
        ({"type": []}, "/type is"),
        (holding(type="text"), "/properties/a/type is 'text'"),
        ({"properties": [1]}, "/properties is not an object of schemas"),
        ({"properties": {"a": 1}}, "/properties/a is no JSON schema"),
        ({"properties": {"a": False}}, "/properties/a allows nothing"),
        ({"items": False}, "/items allows nothing"),
        ({"anyOf": []}, "/anyOf is empty"),
        ({"anyOf": {}}, "/anyOf is not a list"),
        ({"enum": []}, "/enum is empty"),
        ({"enum": "a"}, "/enum is not a list"),
        ({"required": "a"}, "/required is not a list"),
        ({"maxItems": 2.0}, "/maxItems is 2.0"),
        ({"minLength": -1}, "/minLength is -1"),
        ({"minimum": "1"}, "/minimum is '1'"),
        ({"pattern": "("}, "/pattern is no regular expression"),
        ({"$ref": "#/$defs/X"}, "/\\$ref is '#/\\$defs/X', which is not in the schema"),
        ({"$ref": "http://x/y"}, "only references within the schema"),
        ({"$defs": {"x": {"type": "zzz"}}}, "/\\$defs/x/type"),
        ({"type": "integer", "minimum": 5, "maximum": 1}, "no number between 5 and 1"),
        ({"exclusiveMinimum": 5, "maximum": 5}, "no number between 5 and 5"),
        ({"type": "integer", "minimum": 1.2, "maximum": 1.8}, "no number between 1.2 and 1.8"),
        ({"minimum": 1, "maximum": 2, "multipleOf": 5}, "no number between 1 and 2"),
        (holding(type="string", minLength=5, maxLength=1), "/properties/a has minLength 5 above"),
        (holding(type="array", minItems=5, maxItems=1), "/properties/a has minItems 5 above"),
        ({"required": ["a"], "additionalProperties": False}, "requires 'a', which is no property"),
        (
            {"properties": {"a": {}}, "minProperties": 2, "additionalProperties": False},
            "minProperties 2 and allows 1",
        ),
        ({"type": "integer", "enum": ["a", 1.5, True]}, "no value of the type integer"),
        ({"type": ["string", "null"], "const": 1}, "no value of the type string or null"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "several types at once"),
        ({"$ref": "#"}, "leads back to itself"),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "leads back to itself"),
        (
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            },
            "leads back to itself",
        ),
    ],
)
def test_a_malformed_schema_is_told(schema, says, relax):
    with pytest.raises(SchemaError, match=says):
        check_schema(schema, relax=relax)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 5, "maximum": 5},
        {"minimum": 0.3, "maximum": 0.3, "multipleOf": 0.1},
        {"exclusiveMinimum": 1, "exclusiveMaximum": 3, "type": "integer"},
        {"minimum": -(10**400), "maximum": 10**400, "multipleOf": 3},
        {"minimum": 0, "maximum": float("inf"), "multipleOf": 1e-320},
        {"type": "integer", "enum": ["a", 2.0]},
        {"type": "number", "const": 1},
        {"allOf": [{"type": "number"}, {"type": ["integer", "null"]}]},
        {"required": ["ab"], "patternProperties": {"^a": {}}, "additionalProperties": False},
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"n": {"$ref": "#/$defs/a"}}}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {}}},
    ],
)
def test_a_schema_that_some_value_meets_passes(schema):
    assert check_schema(schema, relax=False) == schema


def nested(num_levels: int, key: str) -> dict[str, object]:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(num_levels):
        schema = holding(**schema) if key == "properties" else {key: [schema]}
    return schema


@pytest.mark.parametrize("key", ["properties", "anyOf"])
def test_a_schema_nested_too_deeply_is_told_or_relaxed(key):
    assert check_schema(nested(56, key), relax=False) == nested(56, key)
    for num_levels in (57, 200, 5000):
        with pytest.raises(SchemaError, match="nested"):
            check_schema(nested(num_levels, key), relax=False)
    relaxed = check_schema(nested(200, key), relax=True)
    assert relaxed == check_schema(relaxed, relax=False)


def test_bounds_of_older_drafts_are_relaxed():
    schema = {"type": "number", "minimum": 1, "exclusiveMinimum": True}
    assert check_schema(schema, relax=True) == {"type": "number", "minimum": 1}
    with pytest.raises(SchemaError, match="exclusiveMinimum cannot be enforced"):
        check_schema(schema, relax=False)


def feed(*texts: str, reason="stop") -> None:
    guard = JsonGuard()
    for text in texts:
        guard.check(GenerateChunk(text=text))
    guard.check(GenerateChunk(finish_reason=reason))


@pytest.mark.parametrize("texts", [("{", "}"), (" \n", "[1", "]"), ("nu", "ll"), ('"a"',)])
def test_json_passes_the_guard(texts):
    feed(*texts)


def test_json_that_max_tokens_cut_passes_the_guard():
    feed('{"a"', reason="length")


@pytest.mark.parametrize(
    "texts", [("Sure!",), (" ", "`"), ("{", "a}"), ("t", "he"), ("",), ("{}{}",)]
)
def test_text_does_not_pass_the_guard(texts):
    with pytest.raises(RejectedRequestError, match="was not enforced"):
        feed(*texts)
