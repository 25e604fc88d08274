"""The Qwen3.5 family as torch modules over paged KV and state slots."""
