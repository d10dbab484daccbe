"""Train the two bundled models: text, grammar, training, evaluation and model cards."""
