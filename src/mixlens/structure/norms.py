"""Find the linear part of a norm by evaluating the module: N(u) = gain * centred(u) / sigma(u) +
shift.

This form covers layer norms, RMS norms (with gain or 1 + gain), norms without bias, and per-channel
scales. mixlens evaluates a module on a few chosen vectors to find out which of these it is. Class
names are not used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.model.module_walk import copy_module
from mixlens.model.placement import raise_if_out_of_memory
from mixlens.model.session import ModuleCache


@dataclass(frozen=True)
class LinearisedNorm:
    """Computes a norm whose sigma can be fixed, or a per-channel scale (`scaled=False`)."""

    gain: Float[Tensor, " d_model"]
    shift: Float[Tensor, " d_model"]
    centred: bool
    scaled: bool
    epsilon: float = 0.0
    shifted: bool = True  # False if the shift is zero and is not added

    def linear(self, vectors: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """Return gain * centred(u): the norm without the division by sigma and without the
        shift.
        """
        if self.centred:
            return (vectors - vectors.mean(-1, keepdim=True)).mul_(self.gain)
        return vectors * self.gain

    def inverse_sigma(self, vectors: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows"]:
        """Return 1 / sigma of each vector, including epsilon."""
        if not self.scaled:
            return torch.ones_like(vectors[..., 0])
        if self.centred:
            vectors = vectors - vectors.mean(-1, keepdim=True)
        return torch.rsqrt(vectors.square().mean(-1) + self.epsilon)

    def __call__(self, vectors: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """Apply the norm to vectors, each with its own sigma."""
        if not self.scaled:
            return self._shift(self.linear(vectors))
        width = [vectors.shape[-1]]
        if self.centred:
            return F.layer_norm(vectors, width, self.gain, self.shift, self.epsilon)
        return self._shift(F.rms_norm(vectors, width, self.gain, self.epsilon))

    def with_inverse(
        self, vectors: Float[Tensor, "*rows d_model"], inverse: Float[Tensor, "*rows"]
    ) -> Float[Tensor, "*rows d_model"]:
        """Apply the norm with a fixed 1 / sigma."""
        return self._shift(self.linear(vectors) * inverse[..., None])

    def apply(
        self, vectors: Float[Tensor, "*rows d_model"]
    ) -> tuple[Float[Tensor, "*rows d_model"], Float[Tensor, "*rows"]]:
        """Return the result for each vector, and its 1 / sigma."""
        if self.scaled and self.centred:  # one operation instead of a dozen
            width = [vectors.shape[-1]]
            normed, _, inverse = torch.native_layer_norm(
                vectors, width, self.gain, self.shift, self.epsilon
            )
            return normed, inverse[..., 0]
        inverse = self.inverse_sigma(vectors)
        return self.with_inverse(vectors, inverse), inverse

    def _shift(self, vectors: Tensor) -> Tensor:
        return vectors + self.shift if self.shifted else vectors

    def to(self, like: Tensor) -> LinearisedNorm:
        """Convert the norm to the dtype and device of a tensor."""
        return replace(self, gain=self.gain.to(like), shift=self.shift.to(like))


def linearise_norm(module: nn.Module, d_model: int, like: Tensor) -> LinearisedNorm | None:
    """Return the linear form of a module, or None if it is neither a norm nor a per-channel
    scale.
    """
    device = like.device
    if sum(parameter.numel() for parameter in module.parameters()) > 4 * d_model:
        # a norm has a few numbers per channel; do not copy whole MLPs to test them
        return None
    wide = copy_module(module).to(
        torch.float64
    )  # half-precision weights are exact in float64, their outputs are not
    for hooks in (wide._forward_hooks, wide._forward_pre_hooks):
        hooks.clear()
    generator = torch.Generator().manual_seed(0)
    signs = torch.ones(d_model, dtype=torch.float64)
    signs[torch.randperm(d_model, generator=generator)[: d_model // 2]] = -1
    noise = torch.randn(4, d_model, generator=generator, dtype=torch.float64)
    if d_model % 2:  # an exact zero mean separates the centred from the plain form
        signs = signs - signs.mean()
    signs, noise = signs.to(device), noise.to(device)

    def run(vectors: Tensor) -> Tensor | None:
        try:
            result = wide(vectors.reshape(1, -1, d_model))
        except Exception as error:  # a module that raises on one tensor is not a norm
            raise_if_out_of_memory(error)
            return None
        if (
            not isinstance(result, Tensor)
            or result.numel() != vectors.numel()
            or not result.isfinite().all()
        ):
            return None
        return result.reshape(vectors.shape).to(torch.float64)

    with torch.no_grad():
        large, small = 1e5, 1e-6  # epsilon is negligible for the first and dominates the second
        probes = torch.stack(
            [torch.zeros_like(signs), large * signs, 2 * large * signs, small * signs]
        )
        answers, noisy, lifted = run(probes), run(noise), run(noise + 3.0)
        if answers is None or noisy is None or lifted is None:
            return None
        shift = answers[0]
        once, twice, tiny = answers[1] - shift, answers[2] - shift, answers[3] - shift
        size = once.abs().max().clamp_min(1e-30)
        if torch.allclose(twice, 2 * once, rtol=1e-4, atol=float(size) * 1e-5):
            form = LinearisedNorm(once / (large * signs), shift, centred=False, scaled=False)
        elif torch.allclose(twice, once, rtol=1e-4, atol=float(size) * 1e-5):
            power = signs.square().mean()
            gain = once / signs * power.sqrt()
            centred = torch.allclose(lifted, noisy, rtol=1e-3, atol=float(noisy.abs().max()) * 1e-4)
            linear = gain * small * signs
            inverse_sigma = (tiny * linear).sum() / linear.square().sum()
            epsilon = float(inverse_sigma**-2 - small**2 * power)
            form = LinearisedNorm(gain, shift, centred, scaled=True, epsilon=max(epsilon, 0.0))
        else:
            return None
        if (form(noise) - noisy).abs().max() > 1e-4 * noisy.abs().max().clamp_min(1e-30):
            return None
    return replace(form, shifted=bool(form.shift.any()))


_forms: ModuleCache[LinearisedNorm | None] = ModuleCache()
_casts: ModuleCache[LinearisedNorm | None] = ModuleCache()


def norm_of(module: nn.Module, like: Tensor) -> LinearisedNorm | None:
    """Return the result of `linearise_norm` in the dtype and on the device of `like`.

    It is cached until the weights of the module change.
    """

    def cast() -> LinearisedNorm | None:
        form = _forms.of(module, None, lambda: linearise_norm(module, int(like.shape[-1]), like))
        return None if form is None else form.to(like)

    return _casts.of(module, (like.dtype, like.device), cast)
