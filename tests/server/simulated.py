"""The true engine over the simulated device, saying what a test scripts: the same face as `ScriptedEngine`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ninfer.base.pools import Pool
from ninfer.build.parts import EngineParts, make_engine
from ninfer.config.options import EngineOptions
from ninfer.engine.core import HealthFacts, RequestHandle
from ninfer.engine.report import EngineReport
from ninfer.frontend.plan import InputPlan
from ninfer.ports.output import OutputSink
from ninfer.ports.sampling import SamplingParams
from ninfer.sim.device import SimDevice, SimFaults
from ninfer.sim.script import ReplyScript, Runs, cut_every

from .scripted import MAX_CONTEXT, MODEL_DIR, Script, ScriptedEngine, ScriptedFrontend, bundled_frontend

_LANES = 2
_PAGES = 256
_RUN_TOKENS = 8
_VOCAB = 1 << 22


@dataclass(frozen=True, slots=True)
class Submitted:
    """What reached the engine."""

    plan: InputPlan
    params: SamplingParams
    max_tokens: int | None
    stop: tuple[str, ...]
    logprobs: int | None


class SimulatedEngine:
    """`script` tells what the next requests get; only its steps and `ends` count."""

    def __init__(self, faults: SimFaults | None = None, **options: Any) -> None:
        """`options`: of `EngineOptions`."""
        self.frontend: Any = ScriptedFrontend(bundled_frontend())
        self.max_context = MAX_CONTEXT
        self.default_sampling = SamplingParams()
        self.core = self
        self.script: Script = Script()
        self.requests: list[Submitted] = []
        end_token = min(self.frontend.stop_token_ids)
        device = SimDevice(
            slots=2 * _LANES,
            pages={Pool.MAIN_KV: _PAGES},
            vocab_tokens=_VOCAB,
            script=ReplyScript(self._reply, end_token),
            faults=faults,
        )
        self.before_submission: Callable[[], object] = int
        """Called by the control thread before it gives work to the device."""
        submit_unit = device.submit_unit

        def submit(*batch: Any, **more: Any) -> Any:
            self.before_submission()
            return submit_unit(*batch, **more)

        device.submit_unit = submit  # type: ignore[method-assign]
        chosen = EngineOptions(MODEL_DIR, max_concurrency=_LANES, audit_every_cycles=50, **options)
        self._engine = make_engine(EngineParts(device, self.frontend, chosen, MAX_CONTEXT, "tiny"))

    def health(self) -> HealthFacts:
        return self._engine.health()

    def report(self) -> EngineReport:
        return self._engine.report()

    def close(self) -> None:
        self._engine.close()

    def submit(
        self,
        plan: InputPlan,
        params: SamplingParams,
        *,
        max_tokens: int | None = None,
        min_tokens: int = 0,
        stop: Sequence[str] = (),
        stop_token_ids: Sequence[int] = (),
        logprobs: int | None = None,
        ignore_eos: bool = False,
        thinking_budget: int | None = None,
        sink: OutputSink,
    ) -> RequestHandle:
        self.requests.append(Submitted(plan, params, max_tokens, tuple(stop), logprobs))
        return self._engine.core.submit(
            plan,
            params,
            max_tokens=max_tokens,
            min_tokens=min_tokens,
            stop=stop,
            stop_token_ids=stop_token_ids,
            logprobs=logprobs,
            ignore_eos=ignore_eos,
            thinking_budget=thinking_budget,
            sink=sink,
        )

    def _reply(self, _prompt: tuple[int, ...]) -> Runs:
        steps = [[self.frontend.id_of(data) for data in step] for step in self.script.steps]
        return tuple(run for step in steps for run in cut_every(step, _RUN_TOKENS))


Speaker = ScriptedEngine | SimulatedEngine
