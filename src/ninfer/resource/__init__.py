"""Choices about content: continuations, the prefix index, sources, reclaim. Never sees a page or a tensor."""
