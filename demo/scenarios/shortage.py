"""M5 to M8: not enough room for everybody. In float64 an answer does not depend on what happened to its request."""

from __future__ import annotations

from demo.client import Answer
from demo.scenarios.stage import Running, Scenario, Stage, describe
from demo.scenes import Conversation
from ninfer.base.pools import PAGE_TOKENS, Pool
from ninfer.build.assemble import BUNDLED_MODEL_DIR
from ninfer.config.geometry import read_geometry

_CHUNK_TOKENS = 64
_NINE_PAGES = ("--max-context", "512", "--kv-capacity", "576")


def _compare_alone(stage: Stage, said: Answer, prompt: list[int]) -> None:
    """The same request with nothing beside it says the same."""
    alone = stage.run(f"{said.name} alone", prompt, said.completion_tokens)
    stage.expect(alone.text == said.text, f"{said.name} says other things alone: {alone.text!r}, not {said.text!r}")


def _begin(stage: Stage, running: Running, pieces: int = 4) -> None:
    stage.wait_for(f"{running.answer.name} to speak", lambda: len(running.answer.moments) >= pieces)


def _play_long(stage: Stage, *, by_snapshot: bool) -> None:
    chat, prompt = stage.draw_ids(100, "chat"), stage.draw_ids(330, "long")
    older = stage.start("chat", chat, 280)
    _begin(stage, older)
    running = stage.start("long input", prompt, 100)
    long, chat_said = running.wait(), older.wait()
    stage.note(describe(chat_said))
    stage.note(describe(long))
    meanwhile = sum(running.sent <= moment <= long.moments[0] for moment in chat_said.moments)
    chunks = len(prompt) // _CHUNK_TOKENS
    stage.note(f"while the long input was read in {chunks + 1} chunks, the chat said {meanwhile} pieces")
    stage.expect(meanwhile >= chunks, f"{meanwhile} pieces of the chat came between {chunks} chunks")
    captures = int(long.timings["captures"])
    stage.note(f"{captures} restore point kept of the long input")
    stage.expect(captures <= 1, f"{captures} points of an input that has only its end")
    pauses, snapshots = long.timings.get("pauses", 0), long.timings.get("snapshots", 0)
    stage.expect(pauses >= 1, "it was not paused")
    stage.expect(chat_said.timings.get("pauses", 0) == 0, "the older one was paused")
    if by_snapshot:
        stage.expect(snapshots == pauses, f"{snapshots} of {pauses} pauses by snapshot")
    else:
        stage.expect(snapshots == 0 and long.timings.get("replayed_tokens", 0) > 0, "it was not rebuilt by replay")
    _compare_alone(stage, long, prompt)
    _compare_alone(stage, chat_said, chat)


def play_snapshot(stage: Stage) -> None:
    """A host that takes the paused one."""
    _play_long(stage, by_snapshot=True)


def play_replay(stage: Stage) -> None:
    """No host."""
    _play_long(stage, by_snapshot=False)


def play_few_pages(stage: Stage) -> None:
    """Two chats fill the pool, a third lacks a few pages; then the first goes on."""
    geometry = read_geometry(BUNDLED_MODEL_DIR)
    page_bytes = geometry.kv_page_bytes(Pool.MAIN_KV, "float64")
    one, two, three = (Conversation(stage.client, name) for name in ("first", "second", "third"))
    for chat, sentences in ((one, 20), (two, 15), (three, 12)):
        stage.note(describe(stage.take_over(chat.say(stage.draw_talk(sentences, chat.name)))))
    demoted = int(stage.read("ninfer_to_host_bytes_total"))
    stage.note(f"left for the host: {demoted / page_bytes:g} pages")
    stage.expect(demoted > 0, "nothing left for the host")
    stage.expect(demoted % page_bytes == 0, f"{demoted} bytes are no whole pages: a state has left as well")
    again = stage.take_over(one.say("Thank you very much!"))
    stage.note(describe(again))
    restored = int(again.timings["restored_bytes"])
    held = -(-again.reused_tokens // PAGE_TOKENS)
    stage.note(f"came back for it: {restored / page_bytes:g} of its {held} pages")
    stage.expect(restored % page_bytes == 0, f"{restored} bytes came back: not pages alone")
    stage.expect(restored < held * page_bytes, "the whole history had left for a few pages")


def play_bare(stage: Stage) -> None:
    """Two requests grow over the pool; neither a snapshot nor a save beside the lanes has a place."""
    prompts = {name: stage.draw_ids(150, name) for name in ("first", "second")}
    older = stage.start("first", prompts["first"], 240)
    _begin(stage, older)
    said = [running.wait() for running in (older, stage.start("second", prompts["second"], 240))]
    for answer in said:
        stage.note(describe(answer))
    points = stage.count_points()
    stage.note(f"{points} restore points kept in 2 states; each request offered 2")
    stage.expect(points <= 2, f"{points} points in two states")
    timings = said[1].timings
    stage.expect(timings.get("pauses", 0) >= 1, "nobody was paused")
    stage.expect(timings.get("snapshots", 0) == 0, "a snapshot without a host")
    stage.expect(timings.get("replayed_tokens", 0) > 0, "nothing was replayed")
    for answer in said:
        _compare_alone(stage, answer, prompts[answer.name])
    stage.expect(stage.read("ninfer_transfers_total") == 0, "something was copied to a host that is not there")


def play_waits_alone(stage: Stage) -> None:
    """While a long one is paused, short ones come and go; it resumes when the older one has ended."""
    prompts = {"older": stage.draw_ids(100, "older"), "long": stage.draw_ids(260, "long")}
    older = stage.start("older", prompts["older"], 380)
    _begin(stage, older)
    long = stage.start("long", prompts["long"], 200)
    stage.wait_for("the long one to be paused", lambda: stage.count_paused() == 1 or long.has_ended)
    for number in range(4):
        short = stage.run(f"short {number + 1}", stage.draw_ids(20, f"short {number}"), 6)
        stage.note(describe(short))
        stage.expect(not older.has_ended, f"{short.name} ended after the older one")
        stage.expect(not long.has_ended, f"{short.name} ended after the long one")
    stage.expect(stage.count_paused() == 1, "the long one did not stay paused")
    older_said, long_said = older.wait(), long.wait()
    stage.note(describe(older_said))
    stage.note(describe(long_said))
    stage.expect(older_said.timings.get("pauses", 0) == 0, "the older one was paused")
    stage.expect(long_said.timings.get("pauses", 0) >= 1, "the long one was not paused")
    late = sum(moment > older_said.moments[-1] for moment in long_said.moments)
    stage.note(f"{late} of its {len(long_said.moments)} pieces came after the older one's last")
    stage.expect(late > 0, "the long one ended first")
    for answer in (older_said, long_said):
        _compare_alone(stage, answer, prompts[answer.name])


SCENARIOS = (
    Scenario(
        "M5, snapshot",
        "a long input without semantic points yields by chunk and saves nothing by chunk; pressure uses Snapshot",
        (*_NINE_PAGES, "--max-concurrency", "2", "--host-capacity-bytes", "32MiB", "--prefill-chunk", "64"),
        play_snapshot,
    ),
    Scenario(
        "M5, replay",
        "the same without a host: pressure uses Replay",
        (*_NINE_PAGES, "--max-concurrency", "2", "--host-capacity-bytes", "0", "--prefill-chunk", "64"),
        play_replay,
    ),
    Scenario(
        "M6",
        "only a few Main pages short: the page groups needed are chosen, states and other pages are not moved along",
        (
            *("--max-context", "512", "--kv-capacity", "512", "--max-concurrency", "1"),
            *("--device-state-slots", "7", "--host-capacity-bytes", "32MiB"),
        ),
        play_few_pages,
    ),
    Scenario(
        "M7",
        "host zero and no state to spare: optional saves fail, necessary work reclaims, Replay proceeds",
        (*_NINE_PAGES, "--max-concurrency", "2", "--device-state-slots", "0", "--host-capacity-bytes", "0"),
        play_bare,
    ),
    Scenario(
        "M8",
        "a long request paused behind an older one waits alone: short ones keep entering; it resumes by ticket",
        (*_NINE_PAGES, "--max-concurrency", "3", "--host-capacity-bytes", "0"),
        play_waits_alone,
    ),
)
