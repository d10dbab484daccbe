"""Iterate over the submodules of a model, look them up by path, and copy them.

`Module.modules` and `Module.parameters` compute names and remove duplicates, which takes five times
as long. This matters because each measure iterates over the model several times.

Matrix products with bare parameters, such as XLNet's queries, values and output projection, also
count as linear modules. `torch.einsum` of activations and a parameter is a linear map, but a hook
can neither observe nor replace it. While `BareProducts` is open, such products are computed by a
linear module that uses the parameter in place. The module is not registered, so the model stays
unchanged. Its path consists of the parameter's path and the equation, such as
`rel_attn.o[ibnd,hnd->ibh]`.
"""

from __future__ import annotations

import copy
import functools
import itertools
import operator
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_modules, _parameters, _buffers = map(operator.attrgetter, ("_modules", "_parameters", "_buffers"))
_values = operator.methodcaller("values")
_is_there = functools.partial(operator.is_not, None)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def parts_of(module: nn.Module) -> list[nn.Module]:
    """Return a module and all its submodules. A shared module is returned once for each place where
    it is used.
    """
    parts, level = [module], [module]
    while level:
        level = _list_entries(_modules, level)
        parts += level
    return parts


def tensors_of(module: nn.Module, *, buffers: bool = True) -> list[Tensor]:
    """Return the parameters and, unless `buffers=False`, the buffers of a module and its
    submodules.
    """
    return tensors_in(parts_of(module), buffers=buffers)


def tensors_in(parts: Sequence[nn.Module], *, buffers: bool = True) -> list[Tensor]:
    """Return the parameters and, unless `buffers=False`, the buffers of these modules without those
    of their submodules.
    """
    return _list_entries(_parameters, parts) + (_list_entries(_buffers, parts) if buffers else [])


def configs_of(module: nn.Module) -> list[Any]:
    """Return the configs of a module and its submodules, without duplicates."""
    attributes = map(vars, parts_of(module))
    return list(
        {
            id(attributes_of_part["config"]): attributes_of_part["config"]
            for attributes_of_part in attributes
            if "config" in attributes_of_part
        }.values()
    )


def _list_entries(table_of: Callable[[nn.Module], Any], parts: Sequence[nn.Module]) -> list[Any]:
    """Return the entries of one table (such as `_parameters`) of these modules, without entries
    that are None.
    """
    each = map(_values, filter(None, map(table_of, parts)))
    return list(filter(_is_there, itertools.chain.from_iterable(each)))


def copy_module(module: nn.Module, replaced: Mapping[int, Any] | None = None) -> nn.Module:
    """Return a deep copy of a module, in which some objects are replaced. `replaced` is keyed by
    id.

    The copy shares the hooks of the module. Copying a bound method would also copy its object,
    which may be a recording with its model.
    """
    hooks = {
        id(hook): hook
        for part in parts_of(module)
        for name in _HOOKS
        for hook in getattr(part, name).values()
    }
    return copy.deepcopy(module, {**hooks, **(replaced or {})})


def as_written(called: Any) -> Any:
    """Return the original of a compiled function, or None if the function is not compiled.

    A wrapper may have copied one attribute of a compiled function, so two attributes are compared.
    """
    original = getattr(called, "_torchdynamo_orig_callable", None)
    return original if getattr(called, "__wrapped__", None) is original else None


@dataclass(frozen=True)
class _Equation:
    """An einsum equation of the form "batch axes + contracted, parameter -> batch axes +
    output".
    """

    rows: str
    contracted: str
    parameter: str
    output: str

    @classmethod
    def of(cls, text: str) -> _Equation | None:
        """Parse an einsum equation. Return None if it is not a product of vectors with a matrix."""
        operands, _, result = text.partition("->")
        inputs, _, parameter = operands.partition(",")
        if not all(part.isalpha() and len(set(part)) == len(part) for part in (inputs, parameter)):
            return None
        rows = "".join(letter for letter in inputs if letter not in parameter)
        contracted = inputs.removeprefix(rows)
        output = result.removeprefix(rows)
        in_front = inputs == rows + contracted and result == rows + output
        if not (rows and contracted and output and in_front):
            return None
        if sorted(contracted + output) != sorted(parameter):
            return None
        return cls(rows, contracted, parameter, output)


class BareProduct(nn.Module):
    """A matrix product with a parameter, as a linear module."""

    bias = None
    forward = nn.Linear.forward  # marks it as a plain matrix

    def __init__(self, owner: nn.Module, name: str, equation: _Equation) -> None:
        super().__init__()
        self.owner = weakref.ref(owner)  # its cache key
        self.name = name
        self.equation = equation
        self.training = False

    @property
    def parameter(self) -> Tensor:
        """Return the current parameter, which may have been moved."""
        parameter: Tensor = getattr(self.owner(), self.name)
        return parameter

    @property
    def weight(self) -> Float[Tensor, "d_out d_in"]:
        """Return the parameter as a matrix, in the layout of `nn.Linear.weight`."""
        order = self.equation.output + self.equation.contracted
        places = [self.equation.parameter.index(letter) for letter in order]
        ordered = self.parameter.permute(places)
        return ordered.flatten(len(self.equation.output)).flatten(0, -2)

    def product(self, vectors: Tensor) -> Tensor:
        """Compute the result of `einsum` by calling this module, so that its hooks run."""
        rows: Tensor = self(vectors.flatten(len(self.equation.rows)))
        sizes = dict(zip(self.equation.parameter, self.parameter.shape, strict=True))
        shape = [sizes[letter] for letter in self.equation.output]
        return rows.reshape(*vectors.shape[: len(self.equation.rows)], *shape)


# Names of products with a parameter, by the class whose code computes them, and their modules.
_names: weakref.WeakKeyDictionary[type, dict[str, None]] = weakref.WeakKeyDictionary()
_products: weakref.WeakKeyDictionary[nn.Module, dict[str, BareProduct]] = (
    weakref.WeakKeyDictionary()
)


def _product(owner: nn.Module, name: str) -> BareProduct:
    products = _products.setdefault(owner, {})
    if name not in products:
        parameter, _, text = name.removesuffix("]").partition("[")
        equation = _Equation.of(text)
        assert equation is not None  # it was one when the name was created
        products[name] = BareProduct(owner, parameter, equation)
    return products[name]


def part_at(module: nn.Module, path: str) -> nn.Module:
    """Return a submodule or a product with a bare parameter by its path."""
    if path.endswith("]"):
        owner, _, name = path.rpartition(".")
        return _product(part_at(module, owner), name)
    # `get_submodule` takes four times as long, and each layer of a pass needs it often
    part: nn.Module = operator.attrgetter(path)(module) if path else module
    return part


def named_parts(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield submodules with their paths, like `named_modules`, and each module's bare products."""
    for path, part in module.named_modules():
        yield path, part
        for name in _names.get(type(part), ()):
            yield f"{path}.{name}".lstrip("."), _product(part, name)


def makes_bare_products(module: nn.Module) -> bool:
    """Return whether a module or a submodule computes products with bare parameters."""
    return bool(_names) and any(type(part) in _names for part in parts_of(module))


class BareProducts(TorchFunctionMode):
    """While the context is open, compute matrix products with bare parameters by linear modules."""

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
            for name, candidate in part._parameters.items():
                if candidate is parameter:
                    return part, name
        return None
