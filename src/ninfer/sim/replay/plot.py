"""`--plot FILE`: occupancy by class over time and hit rate by turn, as an SVG of plain shapes. No library."""

from __future__ import annotations

from collections.abc import Sequence

from .run import Replay, Sample
from .world import Ran

_WIDTH, _HEIGHT, _LEFT, _TOP = 860, 200, 70, 46
_CLASSES = (("running", "#4e79a7"), ("reused", "#59a14f"), ("ordinary", "#f1ce63"))
_MOST_TURNS = 60


def draw_plot(replay: Replay) -> str:
    """Both pictures one below the other."""
    report = replay.report
    title = (
        f"{report.trace}: {report.geometry}, {report.device_bytes / 2**30:.0f} GiB, {report.policy}, "
        f"hit {100 * report.hit_rate:.1f} %"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 2 * _LEFT}" height="{2 * _HEIGHT + 170}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="15">{title}</text>',
        *_draw_occupancy(replay.samples),
        *_draw_turns(replay.ran, _TOP + _HEIGHT + 70),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def hit_rate_by_turn(ran: Sequence[Ran]) -> list[float]:
    """Share of prompt tokens reused, for the first turns of all sessions."""
    prompt: dict[int, int] = {}
    reused: dict[int, int] = {}
    for one in ran:
        turn = min(one.request.turn, _MOST_TURNS - 1)
        prompt[turn] = prompt.get(turn, 0) + one.request.prompt_tokens
        reused[turn] = reused.get(turn, 0) + one.reused_tokens
    return [reused[turn] / prompt[turn] if turn in prompt else 0.0 for turn in range(max(prompt) + 1)]


def _draw_occupancy(samples: Sequence[Sample]) -> list[str]:
    parts = _frame(_TOP, "device bytes by class; x: requests that have ended")
    if len(samples) < 2:
        return parts
    whole = max(_whole(sample) for sample in samples)
    step = _WIDTH / (len(samples) - 1)
    below = [0] * len(samples)
    for name, colour in _CLASSES:
        values = [getattr(sample, f"{name}_bytes") for sample in samples]
        above = [low + value for low, value in zip(below, values, strict=True)]
        edge = [*enumerate(above), *reversed(list(enumerate(below)))]
        points = " ".join(f"{_LEFT + at * step:.1f},{_TOP + _HEIGHT * (1 - level / whole):.1f}" for at, level in edge)
        parts.append(f'<polygon points="{points}" fill="{colour}"/>')
        below = above
    for place, (name, colour) in enumerate(_CLASSES):
        at = _LEFT + 90 * place
        parts.append(f'<rect x="{at}" y="{_TOP + _HEIGHT + 24}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{at + 16}" y="{_TOP + _HEIGHT + 34}">{name}</text>')
    parts.append(f'<text x="6" y="{_TOP + 10}">{whole / 2**30:.1f} GiB</text>')
    parts.append(f'<text x="{_LEFT + _WIDTH - 40}" y="{_TOP + _HEIGHT + 16}">{samples[-1].ended}</text>')
    return parts


def _draw_turns(ran: Sequence[Ran], top: int) -> list[str]:
    parts = _frame(top, "hit rate by turn of the session")
    rates = hit_rate_by_turn(ran)
    step = _WIDTH / len(rates)
    for turn, rate in enumerate(rates):
        height = _HEIGHT * rate
        parts.append(
            f'<rect x="{_LEFT + turn * step:.1f}" y="{top + _HEIGHT - height:.1f}" width="{max(1.0, step - 2):.1f}" '
            f'height="{height:.1f}" fill="#4e79a7"/>'
        )
    parts.append(f'<text x="30" y="{top + 10}">100 %</text>')
    parts.append(f'<text x="{_LEFT}" y="{top + _HEIGHT + 16}">0</text>')
    parts.append(f'<text x="{_LEFT + _WIDTH - 20}" y="{top + _HEIGHT + 16}">{len(rates) - 1}</text>')
    return parts


def _frame(top: int, caption: str) -> list[str]:
    return [
        f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#999"/>',
        f'<text x="{_LEFT}" y="{top - 6}">{caption}</text>',
    ]


def _whole(sample: Sample) -> int:
    return sample.running_bytes + sample.reused_bytes + sample.ordinary_bytes + sample.free_bytes
