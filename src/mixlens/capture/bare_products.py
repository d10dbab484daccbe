"""Treat products with bare parameters as linear modules (queries, values and output projection of
XLNet).

`torch.einsum` of rows and a parameter is what a linear module computes, but no hook can see or
replace it. While `BareProducts` is open, such a product is made by a linear module that reads the
parameter where it is. The module belongs to nobody's parts, so the model stays as it was. Its path
is that of the parameter, with the equation: `rel_attn.o[ibnd,hnd->ibh]`.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mixlens.model.module_walk import parts_of


@dataclass(frozen=True)
class _Equation:
    """rows + contracted, parameter -> rows + made"""

    rows: str
    contracted: str
    parameter: str
    made: str

    @classmethod
    def of(cls, text: str) -> _Equation | None:
        """None if it is something else than the rows of a matrix times a matrix."""
        operands, _, result = text.partition("->")
        given, _, parameter = operands.partition(",")
        if not all(part.isalpha() and len(set(part)) == len(part) for part in (given, parameter)):
            return None
        rows = "".join(letter for letter in given if letter not in parameter)
        contracted = given.removeprefix(rows)
        made = result.removeprefix(rows)
        in_front = given == rows + contracted and result == rows + made
        if not (rows and contracted and made and in_front):
            return None
        if sorted(contracted + made) != sorted(parameter):
            return None
        return cls(rows, contracted, parameter, made)


class BareProduct(nn.Module):
    """The linear module that a product with a parameter is."""

    bias = None
    forward = nn.Linear.forward  # by which it is known as a plain matrix

    def __init__(self, owner: nn.Module, name: str, equation: _Equation) -> None:
        super().__init__()
        self.owner = weakref.ref(owner)  # which is the key by which it is remembered
        self.name = name
        self.equation = equation
        self.training = False

    @property
    def parameter(self) -> Tensor:
        """The parameter as it is now: it may have been moved."""
        parameter: Tensor = getattr(self.owner(), self.name)
        return parameter

    @property
    def weight(self) -> Float[Tensor, "d_out d_in"]:
        """Its matrix, as a linear module has it."""
        order = self.equation.made + self.equation.contracted
        places = [self.equation.parameter.index(letter) for letter in order]
        ordered = self.parameter.permute(places)
        return ordered.flatten(len(self.equation.made)).flatten(0, -2)

    def product(self, given: Tensor) -> Tensor:
        """What `einsum` returns, by a call that hooks can see."""
        rows: Tensor = self(given.flatten(len(self.equation.rows)))
        sizes = dict(zip(self.equation.parameter, self.parameter.shape, strict=True))
        shape = [sizes[letter] for letter in self.equation.made]
        return rows.reshape(*given.shape[: len(self.equation.rows)], *shape)


# Names of products with a parameter, by the class whose code makes them, and the modules for them.
_names: weakref.WeakKeyDictionary[type, dict[str, None]] = weakref.WeakKeyDictionary()
_products: weakref.WeakKeyDictionary[nn.Module, dict[str, BareProduct]] = (
    weakref.WeakKeyDictionary()
)


def _product(owner: nn.Module, name: str) -> BareProduct:
    known = _products.setdefault(owner, {})
    if name not in known:
        parameter, _, text = name.removesuffix("]").partition("[")
        equation = _Equation.of(text)
        assert equation is not None  # it was one when the name was made
        known[name] = BareProduct(owner, parameter, equation)
    return known[name]


def part_at(module: nn.Module, path: str) -> nn.Module:
    """A part of a module by its path: a submodule or a bare product."""
    if path.endswith("]"):
        owner, _, name = path.rpartition(".")
        return _product(part_at(module, owner), name)
    # not by `get_submodule`, which takes four times as long: each layer of a pass asks often
    part: nn.Module = operator.attrgetter(path)(module) if path else module
    return part


def named_parts(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Submodules by their paths, as `named_modules` gives them, and the bare products of each."""
    for path, part in module.named_modules():
        yield path, part
        for name in _names.get(type(part), ()):
            yield f"{path}.{name}".lstrip("."), _product(part, name)


def makes_bare_products(module: nn.Module) -> bool:
    """Was the code of one of its parts seen to do so?"""
    return bool(_names) and any(type(part) in _names for part in parts_of(module))


class BareProducts(TorchFunctionMode):
    """While open, products with bare parameters of `module` are made by modules."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._module = module

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is torch.einsum and len(args) == 3 and isinstance(args[2], nn.Parameter):
            text = args[0].replace(" ", "")
            owned = self._owner(args[2]) if _Equation.of(text) is not None else None
            if owned is not None:
                owner, parameter = owned
                name = f"{parameter}[{text}]"
                _names.setdefault(type(owner), {})[name] = None
                return _product(owner, name).product(args[1])
        return func(*args, **(kwargs or {}))

    def _owner(self, parameter: nn.Parameter) -> tuple[nn.Module, str] | None:
        for part in parts_of(self._module):
            for name, own in part._parameters.items():
                if own is parameter:
                    return part, name
        return None
