import json

import pytest

from projections.condensing.llm.client import json_object

WHOLE = '{"title": "a {b}", "narrative": "c"}'


@pytest.mark.parametrize(
    "reply",
    [
        WHOLE,
        f"\n  {WHOLE}\n",
        f"```json\n{WHOLE}\n```",
        f"```\n{WHOLE}\n```",
        f"Here it is:\n```JSON\n{WHOLE}\n```\nAnything else?",
        f"Here it is: {WHOLE} Anything else?",
        f"<think>The user wants {{something}}.</think>\n{WHOLE}",
    ],
)
def test_the_object_is_found_in_what_models_put_around_it(reply: str):
    assert json.loads(json_object(reply)) == json.loads(WHOLE)


@pytest.mark.parametrize("reply", ["", "no", "}{", "[1, 2]", '{"title": "cut o'])
def test_a_reply_without_an_object_stays_undecodable_as_one(reply: str):
    assert json_object(reply) == reply
