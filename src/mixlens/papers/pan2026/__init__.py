"""Pan et al. (2026), FlashTrace: attribution of target spans, with hops through reasoning."""
