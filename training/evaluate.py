"""Measure the bundled model through `ninfer.Engine` on the CPU and write `training/REPORT.md`.

    python -m training.evaluate --each 200 --threads 2

Every row greedy, held-out cases only (`training/cases.py`). Finished rows are kept in `--work`, so a run that was
stopped goes on where it ended; with `--rows` several processes share the work, and one without it writes the report.
Drafts and held-out loss come from the training code, which holds the MTP layer.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from ninfer import Engine
from training.cases import (
    DISTANCES,
    Case,
    call_case,
    change_case,
    persona_case,
    recall_case,
    result_case,
    unknown_case,
)
from training.export import load
from training.model import Model
from training.probe import held_out_loss, run_cases
from training.shape import Shape

HERE = Path(__file__).resolve().parent
QUESTIONS = HERE / "free_questions.jsonl"
REPORT = HERE / "REPORT.md"
GOALS = {"recall at 2048": 0.97, "recall at 4096": 0.90, "tool call": 0.97, "answer from result": 0.97}
DRAFT_GOAL = 0.70
_CALL = re.compile(r"<tool_call>\n<function=(.*?)>\n(.*?)</function>\n</tool_call>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=(.*?)>\n(.*?)\n</parameter>\n", re.DOTALL)
Calls = list[tuple[str, dict[str, Any]]]


def read_answer(text: str, tools: Sequence[dict[str, Any]]) -> tuple[str, Calls]:
    """Split an output into its text and its calls; arguments by their declared type."""
    types = {
        t["function"]["name"]: {k: p.get("type") for k, p in t["function"]["parameters"]["properties"].items()}
        for t in tools
    }
    calls: Calls = []
    for name, body in _CALL.findall(text):
        arguments: dict[str, Any] = {}
        for key, value in _PARAMETER.findall(body):
            if types.get(name, {}).get(key) != "string":
                try:
                    arguments[key] = json.loads(value)
                    continue
                except ValueError:
                    pass
            arguments[key] = value
        calls.append((name, arguments))
    return _CALL.sub("", text).split("</think>")[-1].strip(), calls


def rows_of(each: int, tokenizer: Tokenizer) -> dict[str, list[Case]]:
    """The rows in the order of the report."""
    count = lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)  # noqa: E731
    rows = {f"recall at {d}": [recall_case(i, d, count) for i in range(each)] for d in DISTANCES}
    for make in (call_case, result_case, unknown_case, persona_case, change_case):
        cases = [make(i) for i in range(each)]
        rows[cases[0].row] = cases
    return rows


def run_row(engine: Engine, cases: Iterable[Case]) -> dict[str, Any]:
    """Greedy answers to one row, a few requests in flight."""
    begun, right, exact, n, misses = time.monotonic(), 0, 0, 0, []
    waiting = [(case, engine.submit(case.dicts(), tools=case.tools, temperature=0.0, max_tokens=200)) for case in cases]
    for case, stream in waiting:
        content, calls = read_answer(stream.text(), case.tools)
        good = case.passes(content, calls)
        right, exact, n = right + good, exact + case.exact(content, calls), n + 1
        if not case.exact(content, calls) and len(misses) < 12:
            wanted = case.answer.content or str(case.answer.calls)
            asked = case.messages[-1].content[:120]
            misses.append({"asked": asked, "wanted": wanted[:160], "got": (content or str(calls))[:160]})
    return {"right": right, "exact": exact, "n": n, "seconds": time.monotonic() - begun, "misses": misses}


def run_questions(engine: Engine) -> list[dict[str, Any]]:
    """The free questions and the greedy answers."""
    out = []
    for line in QUESTIONS.read_text().splitlines():
        q = json.loads(line)
        thought = {"enable_thinking": bool(q.get("thinking"))}
        stream = engine.submit(
            q["messages"], tools=q.get("tools", ()), template_kwargs=thought, temperature=0.0, max_tokens=160
        )
        asked = q["messages"][-1].get("content") or ""
        out.append({"id": q["id"], "asked": asked, "answer": stream.text().strip(), "looks_for": q["looks_for"]})
    return out


def run_drafts(folder: Path, tokenizer: Tokenizer, cases: Sequence[Case]) -> dict[str, Any]:
    """Accepted and drafted tokens at three greedy drafts over right answers, and the held-out loss."""
    shape = Shape.load(folder)
    model = Model(shape, load(shape, folder), dtype=torch.float32)
    scores = run_cases(model, tokenizer, cases, 8192)
    loss = held_out_loss(model, tokenizer)
    return {
        "accepted": scores.accepted,
        "drafted": scores.drafted,
        "loss": loss,
        "answers": len(cases) - len(scores.misses),
    }


def _mark(share: float, goal: float | None) -> str:
    return "" if goal is None else f"{goal:.0%} {'met' if share >= goal else 'MISSED'}"


def write_report(results: dict[str, Any], questions: list[dict[str, Any]], drafts: dict[str, Any], threads: int) -> str:
    """The text of REPORT.md."""
    lines = [
        "# The bundled model, measured",
        "",
        "Written by `python -m training.evaluate`; every number comes from that command. Greedy decoding through",
        f"`ninfer.Engine` on a CPU ({platform.machine()}, {threads} threads). All names, values, nouns, tools and",
        "phrasings are held out from training. *exact*: word for word the canonical answer, or the same calls with the",
        "same JSON arguments; goals are judged by this column. *right*: the value stands in the answer as a whole word",
        "(recall, persona, correction), otherwise the same as exact.",
        "",
        "| row | cases | exact | right | goal |",
        "|---|---|---|---|---|",
    ]
    for name, row in results.items():
        share = row["exact"] / row["n"]
        lines.append(
            f"| {name} | {row['n']} | {share:.1%} | {row['right'] / row['n']:.1%} | {_mark(share, GOALS.get(name))} |"
        )
    share = drafts["accepted"] / max(1, drafts["drafted"])
    lines += [
        f"| MTP, 3 greedy drafts: accepted / drafted | {drafts['answers']} answers | {share:.1%} "
        f"({drafts['accepted']} / {drafts['drafted']}) | | {_mark(share, DRAFT_GOAL)} |",
        f"| held-out loss, nats a written token | 64 conversations | {drafts['loss']:.4f} | | |",
        "",
        "## Forty free questions",
        "",
        "Typed by someone who had not seen the generators. Last message, the model's answer, what a good answer has.",
        "",
        "| # | question | answer | looked for |",
        "|---|---|---|---|",
    ]
    cell = lambda text: " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")  # noqa: E731
    lines += [f"| {q['id']} | {cell(q['asked'])} | {cell(q['answer'])} | {cell(q['looks_for'])} |" for q in questions]
    lines += ["", "## Some misses", ""]
    for name, row in results.items():
        lines += [
            f'- {name}: "{cell(m["asked"])}" wanted "{cell(m["wanted"])}" got "{cell(m["got"])}"'
            for m in row["misses"][:3]
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is not yet in the work folder, print and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=HERE.parent / "src" / "ninfer" / "bundled_model")
    parser.add_argument("--each", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path(".train/evaluation"))
    parser.add_argument("--rows", nargs="+", help="only these rows, by name, and no report")
    parser.add_argument("--report", type=Path, default=REPORT)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    a.work.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(a.model / "tokenizer.json"))
    rows = rows_of(a.each, tokenizer)
    results: dict[str, Any] = {}
    with Engine(a.model, threads=a.threads, max_queue=a.each + 8, queue_timeout_s=36000.0) as engine:
        questions = [] if a.rows else run_questions(engine)
        for name, cases in rows.items():
            if a.rows and name not in a.rows:
                continue
            kept = a.work / (name.replace(" ", "_") + ".json")
            if not kept.exists():
                kept.write_text(json.dumps(run_row(engine, cases)))
            results[name] = json.loads(kept.read_text())
            row = results[name]
            print(
                f"{name:24s} {row['right']}/{row['n']} right, {row['exact']} exact, {row['seconds']:.0f}s", flush=True
            )
    if a.rows:
        return
    kept = a.work / "drafts.json"
    if not kept.exists():
        short = [c for name, cases in rows.items() if name not in ("recall at 2048", "recall at 4096") for c in cases]
        kept.write_text(json.dumps(run_drafts(a.model, tokenizer, short)))
    drafts = json.loads(kept.read_text())
    print(f"drafts {drafts['accepted']}/{drafts['drafted']}, held-out loss {drafts['loss']:.4f}")
    a.report.write_text(write_report(results, questions, drafts, a.threads))


if __name__ == "__main__":
    main()
