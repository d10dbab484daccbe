"""Fine-tuning as the papers do it, seeded, on whatever model is given."""
