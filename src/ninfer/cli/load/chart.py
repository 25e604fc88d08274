"""A load as one picture: a row a request, along the time. SVG without scripts, readable by any browser."""

from __future__ import annotations

from html import escape

from .drive import Sample

_ROW, _BAR, _LEFT, _WIDTH, _TOP = 16, 10, 190, 760, 46
_QUEUED, _PREFILL, _DECODE, _FAILED = "#c9c9c9", "#e0a030", "#3a78b8", "#c03030"
_LEGEND = ((_QUEUED, "queued"), (_PREFILL, "to the first token"), (_DECODE, "output"), (_FAILED, "failed"))


def draw(samples: list[Sample], title: str) -> str:
    """The picture. Ticks in the output bar are its pieces, so a stall shows as a hole."""
    begin = min((sample.seen.begin_s for sample in samples), default=0.0)
    end = max((sample.seen.end_s for sample in samples), default=1.0)
    scale = _WIDTH / max(end - begin, 1e-9)
    height = _TOP + _ROW * len(samples) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" height="{height}" '
        'font-family="sans-serif" font-size="10">',
        f'<text x="8" y="16" font-size="12">{escape(title)}</text>',
        *_draw_legend(),
    ]
    for number, sample in enumerate(samples):
        parts.extend(_draw_row(sample, _TOP + _ROW * number, begin, scale))
    for tenth in range(0, 11, 2):
        x = _LEFT + _WIDTH * tenth / 10
        parts.append(
            f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{(end - begin) * tenth / 10:.2f} s</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _draw_legend() -> list[str]:
    parts = []
    for number, (colour, name) in enumerate(_LEGEND):
        x = _LEFT + 130 * number
        parts.append(f'<rect x="{x}" y="24" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 14}" y="33">{name}</text>')
    return parts


def _draw_row(sample: Sample, y: int, begin: float, scale: float) -> list[str]:
    seen = sample.seen
    cached = (seen.usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    reuse = "" if cached is None else f" {cached}/{seen.usage.get('prompt_tokens')}"
    parts = [f'<text x="8" y="{y + _BAR - 1}">{escape(sample.question.name + reuse)}</text>']

    def bar(start: float, stop: float, colour: str) -> None:
        x, width = _LEFT + (seen.begin_s + start - begin) * scale, max((stop - start) * scale, 0.5)
        parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>')

    if seen.error is not None or not seen.moments:
        bar(0.0, seen.total_s, _FAILED)
        return parts
    first = seen.moments[0]
    queued = min(float(seen.timings.get("queued_s") or 0.0), first)
    bar(0.0, queued, _QUEUED)
    bar(queued, first, _PREFILL)
    parts.extend(
        f'<rect x="{_LEFT + (seen.begin_s + at - begin) * scale:.1f}" y="{y}" width="1" height="{_BAR}" '
        f'fill="{_DECODE}"/>'
        for at in seen.moments
    )
    return parts
