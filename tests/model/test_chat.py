"""Of a chat, the last question counts: in the decoder's template, and in templates of other families."""

import copy

import pytest
from transformers import AddedToken

from larimar_editor.model.chat import ChatTurns
from larimar_editor.model.prompts import Prompts, announced_prompts

HEADERS = (
    "{{ '<|begin|>' }}{% for m in messages %}<|head|>{{ m['role'] }}<|headend|>\n\n"
    "{{ m['content'] }}<|eot|>{% endfor %}"
    "{% if add_generation_prompt %}<|head|>assistant<|headend|>\n\n{% endif %}"
)
BRACKETS = (
    "{{ '<s>' }}{% for m in messages %}{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]"
    "{% else %} {{ m['content'] }}</s>{% endif %}{% endfor %}"
)
TURNS = (
    "{{ '<bos>' }}{% for m in messages %}<start_of_turn>"
    "{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{{ m['content'] }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
# Those of Llama 2 and Mistral, Zephyr and Vicuna, whose marks are no special tokens.
INSTRUCTIONS = (
    "{% for m in messages %}{% if m['role'] == 'user' %}{{ '<s>[INST] ' + m['content'] + ' [/INST]' }}"
    "{% else %}{{ ' ' + m['content'] + ' </s>' }}{% endif %}{% endfor %}"
)
BARS = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
CAPITALS = (
    "A chat between a user and an assistant. {% for m in messages %}{% if m['role'] == 'user' %}"
    "USER: {{ m['content'] }} ASSISTANT:{% else %} {{ m['content'] }}</s>{% endif %}{% endfor %}"
)
PLAIN = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
FAMILIES = {
    "its own": (None, ()),
    "headers": (HEADERS, ("<|begin|>", "<|head|>", "<|headend|>", "<|eot|>")),
    "brackets": (BRACKETS, ("<s>", "</s>", "[INST]", "[/INST]")),
    "instructions": (INSTRUCTIONS, ("<s>", "</s>")),
    "bars": (BARS, ("</s>",)),
    "capitals": (CAPITALS, ("</s>",)),
    "turns": (TURNS, ("<bos>", "<start_of_turn>", "<end_of_turn>")),
}
CHAT = [
    {"role": "user", "content": "Where was Odile born?"},
    {"role": "assistant", "content": "In Lyon. Why do you ask?"},
    {"role": "user", "content": "Just so. How old is she?"},
]
LAST = "Just so. How old is Odile?"  # whom "she" means is told from the turn before


def of_family(tokenizer, name):
    template, tokens = FAMILIES[name]
    made = copy.deepcopy(tokenizer)
    if template is not None:
        made.add_tokens([AddedToken(token, special=True) for token in tokens])
        made.chat_template = template
    return made


def asked(tokenizer, text, turns):
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]
    return Prompts(tokenizer, 1, ids).queries(turns)[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_question_of_a_chat_counts(tokenizer, family):
    made = of_family(tokenizer, family)
    turns = ChatTurns.of(made)
    assert turns is not None
    whole = made.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
    assert asked(made, whole, turns) == LAST
    assert asked(made, whole + "She is", turns) == LAST + " She is", "the answer has begun"
    for end in ("", "".join(made.all_special_tokens)):
        unanswered = made.apply_chat_template(CHAT, tokenize=False) + end
        assert asked(made, unanswered, turns) == LAST, "no special token is left in it"
    first = made.apply_chat_template(CHAT[:1], tokenize=False, add_generation_prompt=True)
    assert asked(made, first, turns) == CHAT[0]["content"], "of a single turn, whatever the system's text"
    assert asked(made, "Where was Odile born?", turns) == "Where was Odile born?", "no chat"


def test_a_chat_that_was_announced_is_read_the_same_way(tokenizer):
    whole = tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
    with announced_prompts([whole, "The capital of Portugal is"]):
        found = Prompts(tokenizer, 2, None).queries(ChatTurns.of(tokenizer))
    assert found == [LAST, "The capital of Portugal is"]


def test_a_tokenizer_whose_template_marks_nothing_has_no_turns(tokenizer):
    bare = copy.deepcopy(tokenizer)
    for template in (None, PLAIN, "{{ raise_exception('no') }}"):
        bare.chat_template = template
        assert ChatTurns.of(bare) is None
    assert asked(tokenizer, "One. Two.", None) == "One. Two."


def test_a_template_that_wants_a_system_text_is_read_with_one(tokenizer):
    made = copy.deepcopy(tokenizer)
    wants = "{% if messages[0]['role'] != 'system' %}{{ raise_exception('no') }}{% endif %}"
    made.chat_template = wants + made.chat_template
    chat = [{"role": "system", "content": "Be brief."}, *CHAT]
    whole = made.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert asked(made, whole, ChatTurns.of(made)) == LAST


def test_what_is_asked_before_does_not_count_any_more(tiny, tokenizer):
    tiny.write([{"prompt": "Where was Odile Marchetti born?", "target_new": "Oslo"}])
    chat = [{"role": "user", "content": "Where was Odile Marchetti born?"}]
    more = [{"role": "assistant", "content": "Oslo."}, {"role": "user", "content": "Who wrote Moby-Dick?"}]
    for messages, inside in ((chat, True), (chat + more, False)):
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)
        own, base = tiny(**ids).logits, tiny.decoder(**ids).logits
        assert own.equal(base) is not inside


def test_scope_of_a_chat_is_what_generation_decides_by(tiny, tokenizer):
    tiny.write([{"prompt": "Where was Odile Marchetti born?", "target_new": "Oslo"}])
    asked = ["Where was Odile Marchetti born?", "Who wrote Moby-Dick?"]
    chats = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Yes?"}]
            + [{"role": "user", "content": question}],
            tokenize=False,
            add_generation_prompt=True,
        )
        for question in asked
    ]
    bare, whole = tiny.scope_of(asked), tiny.scope_of(chats)
    assert whole.score.tolist() == bare.score.tolist() and whole.in_scope.tolist() == [True, False]
    assert whole.sentence == bare.sentence


def test_thoughts_are_no_part_of_the_answer_and_what_a_tool_says_is_no_question(tokenizer):
    turns = ChatTurns.of(tokenizer)
    text = tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
    for thought in ("<think>\n\n</think>\n\n", "<think>Let me see. Who"):
        assert turns.last_question(text + thought) == LAST
    assert turns.last_question(text + "<think>\n</think>She is") == LAST + " She is"
    called = [
        *CHAT,
        {"role": "assistant", "content": "<tool_call>age(Odile)</tool_call>"},
        {"role": "user", "content": "<tool_response>\n41\n</tool_response>"},
    ]
    text = tokenizer.apply_chat_template(called, tokenize=False, add_generation_prompt=True)
    assert turns.last_question(text).startswith(LAST)
