"""Each map the way the authors' code computes it, from one recorded BERT layer.

Nothing here uses the fast algebra of `mixlens`.
"""

from benchmarks.naive import jacobian
from benchmarks.naive.alti import alti
from benchmarks.naive.layer import RecordedLayer, relative_error
from benchmarks.naive.norms import (
    attention_norm,
    attention_norm_res,
    attention_norm_res_ln,
    globenc,
)
from benchmarks.naive.projection import effective_attention
from benchmarks.naive.zeroing import second_products, value_zeroing

MAPS = {
    "attention_norm": attention_norm,
    "attention_norm_res": attention_norm_res,
    "attention_norm_res_ln": attention_norm_res_ln,
    "globenc": globenc,
    "effective_attention": effective_attention,
    "alti": alti,
    "value_zeroing": value_zeroing,
}

__all__ = ["MAPS", "RecordedLayer", "jacobian", "relative_error", "second_products"]
