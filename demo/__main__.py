"""`python -m demo --seed N`: start the server, play the scenes, print text and table, exit 1 if anything is wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from openai import OpenAI
from rich.console import Console
from rich.table import Table

from demo.client import Answer
from demo.scenes import play_agent, play_chat, play_interleaved
from demo.server import running_server
from demo.words import draw_words


def play_all(url: str, seed: int) -> Iterator[Answer]:
    """Every request of the demo, in order."""
    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    words = draw_words(seed)
    yield from play_chat(client, words)
    yield from play_agent(client, seed)
    yield from play_interleaved(client, words)


def tabulate(answers: list[Answer]) -> Table:
    """One row per request."""
    table = Table(title="What was reused", title_justify="left")
    table.add_column("request")
    for heading in ("prompt", "reused", "restore path", "TTFT ms", "tokens/s", "gap ms", ""):
        table.add_column(heading, justify="left" if heading in ("restore path", "") else "right")
    for each in answers:
        table.add_row(
            each.name,
            str(each.prompt_tokens),
            str(each.reused_tokens),
            each.restore_path.replace("_", " "),
            f"{each.ttft_s * 1000:.0f}",
            f"{each.tokens_per_s:.0f}",
            f"{each.longest_gap_s * 1000:.0f}",
            "wrong" if each.problems else "ok",
        )
    return table


def main() -> int:
    """Exit status 0 when every fact, call and reuse was as expected."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="Checked conversations with the bundled model.")
    parser.add_argument("--seed", type=int, default=1, help="draws names, numbers and the tool")
    seed = parser.parse_args().seed
    console = Console(width=110, highlight=False)
    answers: list[Answer] = []
    # Twelve slots hold both restore points of every conversation here. With the default of four, the conversations
    # that take turns would push each other out, and a turn would begin anew.
    with running_server("--device-state-slots", "12") as url:
        console.print(f"server: {url}, bundled model on the CPU; seed {seed}\n")
        for answer in play_all(url, seed):
            answers.append(answer)
            said = answer.text or "; ".join(f"{call['name']}({call['arguments']})" for call in answer.calls)
            console.print(f"{answer.name:<20} {said}", markup=False)
    console.print()
    console.print(tabulate(answers))
    problems = [f"{answer.name}: {problem}" for answer in answers for problem in answer.problems]
    for problem in problems:
        console.print(problem, markup=False)
    console.print(f"{len(answers)} requests, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
