"""A recorded model as a function of the vectors of its word embedding.

The word embedding is the module that looks up the token ids of the text. A temporary hook replaces
the output of this module. The model still applies its own scaling factors and norms to the replaced
vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.capture.layer_calls import hooks_removed
from mixlens.errors import UnsupportedModel
from mixlens.recording.recording import Recording
from mixlens.replay.intervention import input_rows, layer_input, model_output, token_input


class ModelFromWords:
    """The whole model as a function of word vectors, which replace the output of the word
    embedding.
    """

    def __init__(self, recording: Recording, site: str) -> None:
        self.recording = recording
        self.site = site
        self.name, self.ids = token_input(recording, site)
        self.embedding = self._embedding()

    def hidden(self, layer: int) -> Float[Tensor, "batch token width"]:
        """Return the word vectors of the text itself."""
        if layer != 0:
            raise UnsupportedModel(
                "A path through words replaces word embeddings, which only the first layer reads. "
                "Drop `layers`, or choose a different path."
            )
        with torch.no_grad():
            vectors: Tensor = self.embedding(self.ids)
        return vectors

    def vocabulary(self) -> Float[Tensor, "vocabulary width"]:
        """Return the vectors of all words in the vocabulary."""
        with torch.no_grad():
            rows = self.embedding.num_embeddings
            vectors: Tensor = self.embedding(torch.arange(rows, device=self.ids.device))
        return vectors

    def __call__(
        self,
        layer: int,
        vectors: Float[Tensor, "copies token width"],
        rows: Int[Tensor, " copies"],
        edits: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the model with `vectors` as word vectors, and return the model's output. `rows`
        contains, for each copy, the index of its text in the batch.
        """
        ids, handles = input_rows(self.recording, rows)[self.name], list[Any]()

        def replaced(module: nn.Module, given: tuple[Any, ...], output: Any) -> Tensor | None:
            return vectors.to(output.dtype) if _looks_up(given, ids) else None

        with hooks_removed(handles):
            handles.append(self.embedding.register_forward_hook(replaced))
            return model_output(self.recording, rows, edits or {})

    def _embedding(self) -> nn.Embedding:
        """Find the module that looks up the words, in a forward pass that stops at the first
        layer.
        """
        calls, handles = list[nn.Embedding](), list[Any]()

        def called(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
            if isinstance(module, nn.Embedding) and _looks_up(given, self.ids):
                calls.append(module)

        with hooks_removed(handles):
            for module in self.recording.model.modules():
                if isinstance(module, nn.Embedding):
                    handles.append(module.register_forward_hook(called))
            layer_input(self.recording, self.site, 0, {})
        if len(calls) != 1:
            raise UnsupportedModel(
                f"{type(self.recording.model).__name__} looks up its tokens in {len(calls)} "
                "embeddings, so words do not have a single vector. Choose a different path."
            )
        return calls[0]


def _looks_up(given: tuple[Any, ...], ids: Tensor) -> bool:
    return len(given) > 0 and isinstance(given[0], Tensor) and torch.equal(given[0], ids)
