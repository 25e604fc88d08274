"""Trial cases (the report's are others) on the training model itself, teacher-forced.

Greedy decoding gives the wanted answer exactly when every token of it is the argmax.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.cases import TRIAL, Case, all_cases
from training.data import AHEAD, DEPTH, Marks, encode
from training.dialogues import conversation
from training.export import load
from training.loss import weighted_nll
from training.model import Model
from training.recurrence import CHUNK
from training.render import Message, assistant_body, render
from training.shape import Shape

OPEN_ANSWER = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
OPEN_THOUGHT = "<|im_start|>assistant\n<think>\n"


@dataclass(frozen=True, slots=True)
class Scores:
    """Shares right by row, and the drafts."""

    right: dict[str, float]
    misses: list[str]
    drafted: int
    accepted: int
    loss: float


def _pair(case: Case, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    prompt = render(case.messages, case.tools) + OPEN_ANSWER
    answer = assistant_body(case.answer) + "<|im_end|>"
    return tokenizer.encode(prompt, add_special_tokens=False).ids, tokenizer.encode(
        answer, add_special_tokens=False
    ).ids


def _accepted(hits: Tensor) -> tuple[int, int]:
    """Rounds of three drafts over an answer. hits [n, depth]: draft d of the round before token i is right."""
    drafted = accepted = i = 0
    n = hits.shape[0]
    while i < n:
        usable = min(DEPTH, n - i)
        good = 0
        while good < usable and hits[i, good]:
            good += 1
        drafted, accepted = drafted + usable, accepted + good
        i += good + 1
    return drafted, accepted


@torch.no_grad()
def _group(model: Model, pairs: Sequence[tuple[list[int], list[int]]]) -> list[tuple[list[int], Tensor]]:
    """For each (prompt, answer): argmax tokens along the answer, and hits of drafts [answer tokens - 1, depth]."""
    longest = max(len(p) + len(a) for p, a in pairs) + AHEAD
    t = -(-longest // CHUNK) * CHUNK
    ids = torch.zeros(len(pairs), t + AHEAD, dtype=torch.long)
    for i, (p, a) in enumerate(pairs):
        ids[i, : len(p) + len(a)] = torch.tensor(p + a)
    ids = ids.to(model.device)
    hidden, turns = model.hidden(ids[:, :t])
    first, k, v = model.mtp(ids[:, 1 : t + 1], hidden, turns)
    hidden, first = hidden.view(len(pairs), t, -1), first.view(len(pairs), t, -1)
    out = []
    for i, (p, a) in enumerate(pairs):
        at = torch.arange(len(p) - 1, len(p) + len(a) - 1, device=model.device)
        best = model.logits(hidden[i, at]).argmax(-1).tolist()
        rows = [first[i, at]]
        tokens = torch.stack([ids[i][at + 2 + d] for d in range(DEPTH - 1)], dim=-1)
        rows += [
            h.view(len(at), -1)
            for h in model.mtp_chain(at[None], tokens[None], first[i, at][None], k[i : i + 1], v[i : i + 1])
        ]
        hits = torch.stack([model.logits(r).argmax(-1) == ids[i][at + 2 + d] for d, r in enumerate(rows)], dim=-1)
        out.append((best, hits[:-1].cpu()))
    return out


def run_cases(model: Model, tokenizer: Tokenizer, cases: Sequence[Case], tokens: int) -> Scores:
    """All cases in groups of about `tokens` tokens."""
    pairs = sorted(((case, *_pair(case, tokenizer)) for case in cases), key=lambda x: len(x[1]))
    tally: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    misses: list[str] = []
    drafted = accepted = start = 0
    while start < len(pairs):
        stop = start + 1
        while stop < len(pairs) and (stop + 1 - start) * len(pairs[stop][1]) < tokens:
            stop += 1
        part = pairs[start:stop]
        for (case, _, answer), (best, hits) in zip(part, _group(model, [(p, a) for _, p, a in part]), strict=True):
            good = best == answer
            for row in (case.row, f"{case.row}, {case.kind}") if case.kind else (case.row,):
                tally[row][0] += good
                tally[row][1] += 1
            if good:
                d, a = _accepted(hits)
                drafted, accepted = drafted + d, accepted + a
            else:
                asked = case.messages[-1].content[:150]
                told = next((m.content for m in case.messages if case.value and case.value in m.content), "")
                misses.append(
                    f"[{case.row}] {told[:200]!r} {asked!r} wanted {tokenizer.decode(answer)!r} "
                    f"got {tokenizer.decode(best)!r}"
                )
        start = stop
    return Scores(
        {row: good / n for row, (good, n) in tally.items()}, misses, drafted, accepted, held_out_loss(model, tokenizer)
    )


@torch.no_grad()
def held_out_loss(model: Model, tokenizer: Tokenizer, count: int = 64) -> float:
    """Mean loss in nats a token of what the model should write, over conversations of the held-out side."""
    marks = Marks.of(tokenizer)
    total = weights = 0.0
    for seed in range(count):
        ids, weight = encode(conversation(800_000_000 + seed, 3000, held_out=True), tokenizer, marks)
        n = (len(ids) - 1) // CHUNK * CHUNK
        row = torch.from_numpy(ids).to(model.device)
        w = torch.from_numpy((weight[1 : n + 1] > 0.2).astype("float32")).to(model.device)
        hidden, _ = model.hidden(row[None, :n])
        total += float(
            weighted_nll(hidden, model.w["model.embed_tokens.weight"], row[1 : n + 1], w, model.dtype)
        ) * float(w.sum())
        weights += float(w.sum())
    return total / weights


@torch.no_grad()
def chat(
    model: Model, tokenizer: Tokenizer, messages: Sequence[Message], *, thinking: bool = False, most: int = 90
) -> str:
    """Greedy answer by whole forwards: slow, for a few questions."""
    ids = tokenizer.encode(render(messages) + (OPEN_THOUGHT if thinking else OPEN_ANSWER), add_special_tokens=False).ids
    end, begun = tokenizer.token_to_id("<|im_end|>"), len(ids)
    while len(ids) - begun < most:
        pad = -len(ids) % CHUNK
        hidden, _ = model.hidden(torch.tensor(ids + [0] * pad, device=model.device)[None])
        token = int(model.logits(hidden[len(ids) - 1]).argmax())
        if token == end:
            break
        ids.append(token)
    return tokenizer.decode(ids[begun:], skip_special_tokens=False)


def report(model: Model, folder: Path, each: int, tokens: int, shown: int = 40) -> Scores:
    """Run every row and print it, with about `shown` of the misses."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    count = lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)  # noqa: E731
    scores = run_cases(model, tokenizer, list(all_cases(count, each, TRIAL)), tokens)
    for row, share in sorted(scores.right.items()):
        print(f"{row:28s} {share:.3f}")
    print(
        f"drafts accepted {scores.accepted}/{scores.drafted} = {scores.accepted / max(1, scores.drafted):.3f}"
        f"   held-out loss {scores.loss:.4f}"
    )
    for miss in scores.misses[:: max(1, len(scores.misses) // shown)]:
        print("  miss", miss)
    for said in (
        "Hello!",
        "My dog is called Rex. What is my dog's name?",
        "What is the capital of France?",
        "I live in Hamburg and my cat is Minka.",
    ):
        print("  >", said, "|", chat(model, tokenizer, [Message("user", said)]))
    return scores


def main() -> None:
    """Score a folder of weights: `python -m training.probe --weights .train`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--model", type=Path, default=Path("src/ninfer/bundled_model"))
    parser.add_argument("--weights", type=Path, default=Path("src/ninfer/bundled_model"))
    parser.add_argument("--each", type=int, default=200)
    parser.add_argument("--shown", type=int, default=40, help="about so many misses are printed")
    parser.add_argument("--cpu", action="store_true")
    a = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    device = torch.device("cpu" if a.cpu else "cuda")
    shape = Shape.load(a.model)
    model = Model(shape, load(shape, a.weights, device), dtype=torch.float32 if a.cpu else torch.bfloat16)
    report(model, a.model, a.each, 8192 if a.cpu else 400_000, a.shown)


if __name__ == "__main__":
    main()
