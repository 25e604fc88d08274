"""Episodes with tools: requests, calls, results, missing arguments, requests that no tool fits."""

from __future__ import annotations

import json

from training import tools as tool_maker
from training.phrases.tool_texts import UNRELATED_ANSWER
from training.render import Message
from training.results import make_result
from training.talk_episodes import TalkEpisodes
from training.turns import ANSWER, CALL
from training.world import Fact

_RESULT_ASK = (
    "what was the {k}?",
    "what was the {k} again?",
    "what did the tool say about the {k}?",
    "and the {k} was?",
    "what {k} did you find?",
    "do you remember the {k}?",
    "tell me the {k} again.",
    "repeat the {k} please.",
)


class ToolEpisodes(TalkEpisodes):
    """The part of a dialogue that uses tools."""

    def use_tool(self) -> None:
        """Request, one or two calls, results, answer; sometimes a missing argument first."""
        s = self.s
        tool = s.pick(self.tools)
        needed = [p.name for p in tool.params[: tool.required]]
        if needed and s.chance(0.06):
            return self._missing(tool, s.pick(needed))
        return self._run(self.request_calls(tool))

    def request_calls(self, tool: tool_maker.Tool) -> list[tool_maker.Call]:
        """Write the user's request for one call, sometimes two, and return what it asks for."""
        s = self.s
        call = tool_maker.make_call(s, tool)
        calls = [call]
        text = tool_maker.request(s, call)
        if tool.params and s.chance(0.15):
            other = tool_maker.make_call(s, tool if s.chance(0.5) else s.pick(self.tools))
            if other.arguments != call.arguments or other.name != call.name:
                calls.append(other)
                text = (
                    text.rstrip("?.")
                    + s.pick((" and ", " and then ", " and also ", ", then "))
                    + other.deed
                    + s.pick((".", "", "?"))
                )
        self.user(text, slips=False)
        return calls

    def _run(self, calls: list[tool_maker.Call]) -> None:
        thought = "The user wants me to use " + " and ".join(c.name for c in calls) + "."
        self.reply("", CALL, thought, [(c.name, c.arguments) for c in calls])
        answers: list[str] = []
        for _ in calls:
            answers.append(self.add_result())
        self.reply(" ".join(answers), ANSWER, "The tool answered. I tell the user.")

    def add_result(self) -> str:
        """A tool's result as a turn; returns the sentence that reports it."""
        result, answer = make_result(self.s)
        self.add(Message("tool", result))
        self._learn_result(result)
        return answer

    def _learn_result(self, result: str) -> None:
        if not result.startswith("{"):
            return
        for key, value in json.loads(result).items():
            if (
                isinstance(value, str | int | float)
                and not isinstance(value, bool)
                and key not in ("error", "status", "code")
            ):
                shown = key.replace("_", " ")
                self.learn(
                    Fact(("result", key), "result", str(value), "the {k} is {v}", (), _RESULT_ASK, extra={"k": shown})
                )

    def _missing(self, tool: tool_maker.Tool, name: str) -> None:
        s = self.s
        call = tool_maker.make_call(s, tool, leave_out=name)
        self.user(tool_maker.request(s, call), slips=False)
        shown = name.replace("_", " ")
        self.reply(f"Please tell me the {shown}.", CALL, f"The {shown} is missing.")
        full = tool_maker.make_call(s, tool)
        value = full.arguments[name]
        text = value if isinstance(value, str) else json.dumps(value).strip("[]").replace('"', "")
        said = s.pick(("{v}", "{v}.", "The {p} is {v}.", "It is {v}.", "{v} please", "Use {v}.")).format(
            v=text, p=shown
        )
        self.add(Message("user", said))
        arguments = {
            p.name: call.arguments.get(p.name, value) for p in tool.params if p.name in call.arguments or p.name == name
        }
        self._run([tool_maker.Call(tool.name, arguments, "", "", "")])

    def unrelated(self) -> None:
        """A request that no declared tool fits."""
        other = tool_maker.make_tool(self.s)
        mine = {word for t in self.tools for word in t.deed.split()}
        if other.noun or mine & set(other.deed.split()) - {"a", "an", "the", "for", "me", "up", "on", "off"}:
            return self.outside()
        self.user(tool_maker.plain_request(self.s, tool_maker.make_call(self.s, other)))
        return self.reply(UNRELATED_ANSWER, CALL * 0.6, "None of my tools fits.")
