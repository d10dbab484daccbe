"""Pan et al. (2026), FlashTrace: spans of targets and hops through reasoning."""
