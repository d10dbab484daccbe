"""Stacks and the names of their sites."""

from __future__ import annotations

from mixlens.contracts import AttentionKind
from mixlens.structure.layer_structure import AttentionStructure, LayerStructure
from mixlens.structure.model_structure import assemble_structure


def layer(path: str, *kinds: AttentionKind) -> LayerStructure:
    sites = [
        AttentionStructure(
            kind=kind,
            heads=2,
            kv_heads=2,
            d_head=4,
            causal=False,
            projection=f"{kind}.out",
            branch=(),
            branch_norm=False,
        )
        for kind in kinds
    ]
    return LayerStructure(path, tuple(sites), None, None)


def test_two_stacks_with_cross_attention_are_two_sites() -> None:
    both = (AttentionKind.SELF, AttentionKind.CROSS)
    layers = [layer(f"vision.layers.{i}", AttentionKind.SELF) for i in range(2)]
    layers += [
        layer(f"{stack}.layers.{i}", *both) for stack in ("reader", "writer") for i in (0, 1)
    ]
    structure = assemble_structure("interface", layers, {}, whole=False)
    assert list(structure.sites) == ["vision", "reader", "reader.cross", "writer", "writer.cross"]
    for name in ("reader", "writer"):
        site = structure.site(f"{name}.cross")
        assert site.kind is AttentionKind.CROSS
        assert site.stack.name == name
    one = assemble_structure("interface", layers[:4], {}, whole=False)
    assert list(one.sites) == ["encoder", "decoder", "cross"]
