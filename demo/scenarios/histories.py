"""M1 to M4 and M9: what is kept of histories, who begins there, and what counts as heat."""

from __future__ import annotations

from typing import Any

from demo.client import Answer, arguments_of, ask
from demo.scenarios.stage import Scenario, Stage, describe
from demo.scenes import INPUT_POINT, Conversation, play_agent
from demo.tools import draw_errand

SHARED = "shared_entry"
_CLOSING_TOKENS = 24
"""A prompt behind its last content: the closing of the message and the header of the answer, with room to spare."""
_ROOMY = ("--max-context", "1024", "--max-concurrency", "1", "--device-state-slots", "7", "--host-capacity-bytes", "0")
_MARKER = {"cache_control": {"type": "ephemeral"}}


def _part(text: str, *, is_marked: bool = False) -> dict[str, Any]:
    return {"type": "text", "text": text, **(_MARKER if is_marked else {})}


def _ask_parts(stage: Stage, name: str, *parts: dict[str, Any], max_tokens: int = 8) -> Answer:
    answer = ask(stage.client, name, [{"role": "user", "content": list(parts)}], max_tokens=max_tokens)
    stage.note(describe(answer))
    return answer


def play_rewritten_call(stage: Stage) -> None:
    """One agent echoes what it got; another one writes its call back in other words."""
    for answer in play_agent(stage.client, stage.seed):
        stage.note(describe(stage.take_over(answer)))
    errand = draw_errand(stage.seed + 1)
    messages: list[dict[str, Any]] = [{"role": "user", "content": errand.request}]
    call = ask(stage.client, "other agent, call", messages, tools=errand.tools)
    stage.note(describe(call))
    stage.expect(len(call.calls) == 1, f"{len(call.calls)} calls instead of one: {call.text!r}")
    if not call.calls:
        return
    made = call.message()
    arguments = arguments_of(call.calls[0])
    made["tool_calls"][0]["function"]["arguments"] = str({key: f"{value}!" for key, value in arguments.items()})
    result = {"role": "tool", "tool_call_id": call.calls[0]["id"], "content": str(errand.result)}
    rewritten = ask(stage.client, "other agent, rewritten", [*messages, made, result], tools=errand.tools)
    stage.note(describe(rewritten))
    stage.expect(rewritten.restore_path == INPUT_POINT, f"it began at {rewritten.restore_path}")
    known = call.prompt_tokens - _CLOSING_TOKENS
    stage.expect(rewritten.reused_tokens >= known, f"it reused {rewritten.reused_tokens}, not {known} tokens")


def play_two_uses(stage: Stage) -> None:
    """The end of a question is the conversation's own recovery point and a public marker."""
    talk = stage.draw_talk(8, "talk")
    question = {"role": "user", "content": [_part(talk, is_marked=True)]}
    chat = Conversation(stage.client, "chat")
    chat.messages.append(question)
    chat.last = first = ask(stage.client, "chat, turn 1", chat.messages)
    chat.turns = 1
    chat.messages.append(first.message())
    stage.note(describe(first))
    held = stage.read('ninfer_pool{pool="state",use="held"}')
    stage.note(f"{held:.0f} states: one before the answer for both uses, one behind it")
    stage.expect(held == 2, f"{held:.0f} states instead of two")
    for text in ("Thank you very much!", "What is your name?"):
        stage.note(describe(stage.take_over(chat.say(text))))
    known = first.prompt_tokens - _CLOSING_TOKENS
    for name in ("a stranger", "another stranger"):
        stranger = ask(stage.client, name, [question])
        stage.note(describe(stranger))
        stage.expect(stranger.reused_tokens >= known, f"{name} reused {stranger.reused_tokens}, not {known} tokens")
        stage.expect(name == "another stranger" or stranger.restore_path == SHARED, "the public entry did not serve")
        stage.expect(stranger.text == first.text, f"{name} hears {stranger.text!r}, not {first.text!r}")
    stage.note(describe(stage.take_over(chat.say("Good bye!"))))


def play_nested(stage: Stage) -> None:
    """a+b with both marked; then the same beginning with something else behind."""
    begin, middle, other = (stage.draw_talk(5, name) for name in "abc")
    both = _ask_parts(stage, "a+b", _part(begin, is_marked=True), _part(f" {middle}", is_marked=True))
    changed = _ask_parts(stage, "a+c", _part(begin, is_marked=True), _part(f" {other}", is_marked=True))
    longer = _ask_parts(stage, "a+b+c", _part(begin), _part(f" {middle}"), _part(f" {other}"))
    alone = _ask_parts(stage, "a", _part(begin))
    stage.expect(changed.restore_path == SHARED, f"a+c began at {changed.restore_path}")
    for answer, known in ((changed, alone), (longer, both)):
        least = known.prompt_tokens - _CLOSING_TOKENS
        stage.expect(answer.reused_tokens >= least, f"{answer.name} reused {answer.reused_tokens} tokens, not {least}")


def play_many_branches(stage: Stage) -> None:
    """A marked beginning, and one-off questions behind it."""
    begin = stage.draw_talk(8, "hot")
    first = _ask_parts(stage, "first", _part(begin, is_marked=True), _part(" Where does my friend live?"))
    least = first.prompt_tokens - _CLOSING_TOKENS - 8
    for number in range(10):
        text = f" {stage.draw_talk(2, f'branch {number}')}"
        branch = _ask_parts(stage, f"branch {number + 1}", _part(begin, is_marked=True), _part(text))
        stage.expect(branch.reused_tokens >= least, f"{branch.name} reused {branch.reused_tokens} tokens, not {least}")
    reused, ordinary = stage.count_points("reused"), stage.count_points("ordinary")
    slots = int(stage.read('ninfer_pool_capacity{pool="state"}'))
    stage.note(f"{reused} points reused, {ordinary} ordinary, in {slots} states")
    most = (slots - 1) * 3 // 4  # the lane's own state is no room for standing
    stage.expect(0 < reused <= most, f"{reused} points reused, at most {most} may be")
    stage.expect(ordinary > 0, "no older branch fell back to ordinary")


def play_proven_demand(stage: Stage) -> None:
    """Two requests compute a marked beginning while longer ones hold all states; for the third one there is one."""
    holders = [stage.start(name, stage.draw_ids(300, name), 200) for name in ("holder 1", "holder 2")]
    stage.wait_for("both holders to speak", lambda: all(len(holder.answer.moments) >= 4 for holder in holders))
    begin = stage.draw_talk(8, "candidate")

    def ask_one(number: int) -> Answer:
        tail = f" {stage.draw_talk(1, f'tail {number}')}"
        return _ask_parts(stage, f"request {number}", _part(begin, is_marked=True), _part(tail), max_tokens=4)

    early = [ask_one(number) for number in (1, 2)]
    stage.expect(not any(holder.has_ended for holder in holders), "the holders ended too early")
    stage.expect(not any(answer.reused_tokens for answer in early), "there was a point although no state was to spare")
    for holder in holders:
        holder.wait()
    third = ask_one(3)
    stage.expect(third.reused_tokens == 0, "the third found something")
    reused, cached = stage.count_points("reused"), stage.read("ninfer_cached_tokens_total")
    stage.note(f"after three computations: {reused} points reused, {cached:.0f} tokens counted as hits")
    stage.expect(reused >= 1, "the proven demand gave the save no standing")
    stage.expect(cached == 0, f"{cached:.0f} tokens counted as hits")
    fourth = ask_one(4)
    stage.expect(fourth.restore_path == SHARED, f"the fourth began at {fourth.restore_path}")
    cached = stage.read("ninfer_cached_tokens_total")
    stage.expect(cached == fourth.reused_tokens, f"{cached:.0f} tokens counted as hits")


SCENARIOS = (
    Scenario(
        "M1",
        "an agent continues from E; when the client has rewritten its call, from the recovery point of typed R",
        _ROOMY,
        play_rewritten_call,
    ),
    Scenario(
        "M2",
        "private recovery point and public marker at one place: one state, two uses; the public one lives on alone",
        _ROOMY,
        play_two_uses,
    ),
    Scenario(
        "M3",
        "prefixes a and a+b both marked, later a+c: both positions had their chance; a is a complete source",
        _ROOMY,
        play_nested,
    ),
    Scenario(
        "M4",
        "a hot predecessor spawns many one-off branches: past the soft target the older ones fall back to ordinary",
        _ROOMY,
        play_many_branches,
    ),
    Scenario(
        "M9",
        "requests recompute one candidate that was never kept: that proves demand, a later save is reused, no hit yet",
        (
            *("--max-context", "512", "--kv-capacity", "1536", "--max-concurrency", "3"),
            *("--device-state-slots", "2", "--host-capacity-bytes", "0"),
        ),
        play_proven_demand,
    ),
)
