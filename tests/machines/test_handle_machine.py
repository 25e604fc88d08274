"""HandleTable against a dict: valid handles reach their entry, ended ones never anything (V-13)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from machine_profile import machine_settings

from ninfer.base.ids import Handle
from ninfer.store.handles import HandleTable


class HandleMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table: HandleTable[int] = HandleTable()
        self.model: dict[Handle, int] = {}
        self.ended: set[Handle] = set()

    @rule(value=st.integers())
    def insert(self, value: int) -> None:
        handle = self.table.insert(value)
        assert handle not in self.model
        assert handle not in self.ended
        self.model[handle] = value

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        handle = data.draw(st.sampled_from(sorted(self.model)))
        assert self.table.remove(handle) == self.model.pop(handle)
        self.ended.add(handle)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), value=st.integers())
    def replace(self, data: st.DataObject, value: int) -> None:
        handle = data.draw(st.sampled_from(sorted(self.model)))
        self.table.replace(handle, value)
        self.model[handle] = value

    @precondition(lambda self: self.ended)
    @rule(data=st.data())
    def use_a_stale_handle(self, data: st.DataObject) -> None:
        """V-13"""
        handle = data.draw(st.sampled_from(sorted(self.ended)))
        assert handle not in self.table
        for act in (self.table.__getitem__, self.table.remove, lambda h: self.table.replace(h, 0)):
            with pytest.raises(AssertionError, match="V-13"):
                act(handle)

    @invariant()
    def table_equals_model(self) -> None:
        self.table.audit()
        assert dict(self.table.items()) == self.model
        assert len(self.table) == len(self.model)


HandleMachine.TestCase.settings = machine_settings(40, 30)
test_handles = HandleMachine.TestCase
