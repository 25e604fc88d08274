"""How the bundled model is made: seeded text generators, a small tokenizer, a trainer and an evaluation."""
