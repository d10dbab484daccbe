"""Small models and data for each kind of experiment."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import mixlens
from mixlens import datasets as corpus
from mixlens.datasets import Dataset
from mixlens.datasets.examples import Agreement, Aligned, Example, Labelled, Spoken, Tagged
from mixlens.datasets.speech import to_bytes
from mixlens.papers import module, names
from mixlens.papers.questions import Memory
from mixlens.papers.reproduction import reproduce
from tests.recording.audio_models import RATE, whisper_lens

BUNDLED = Path(mixlens.__file__).parent / "bundled"

TAGGED = (
    ("The old dog quickly saw a small red bird .", "DET ADJ NOUN ADV VERB DET ADJ ADJ NOUN PUNCT"),
    (
        "She has never liked the green house , and he knows it .",
        "PRON AUX ADV VERB DET ADJ NOUN PUNCT CCONJ PRON VERB PRON PUNCT",
    ),
    (
        "In the morning , two boys walked to the river .",
        "ADP DET NOUN PUNCT NUM NOUN VERB ADP DET NOUN PUNCT",
    ),
)
PAIRS = (
    ("the dog sees a cat", "ein hund sieht die katze", "0-0 1-1 2-2 3-3 4-4"),
    ("the old man walks", "der alte mann geht", "0-0 1-1 2-2 3-3"),
    ("a cat sees the man", "die katze sieht den mann", "0-0 1-1 2-2 3-3 4-4"),
)


@functools.cache
def lens_for(needs: str, seed: int = 0) -> mixlens.Lens:
    if needs == "classifier":
        torch.manual_seed(seed)
        folder = str(BUNDLED / "masked")
        model = transformers.BertForSequenceClassification.from_pretrained(
            folder, num_labels=2
        ).eval()
        return mixlens.Lens(model, transformers.AutoTokenizer.from_pretrained(folder))
    if needs == "causal":
        return mixlens.Lens.bundled("causal")
    if needs == "translation":
        return _translation()
    if needs == "speech":
        return whisper_lens()
    if needs == "speech-encoder":
        return _speech_encoder()
    return mixlens.Lens.bundled()


def _speech_encoder() -> mixlens.Lens:
    """A random Wav2Vec2 with a short convolution, at 1 kHz."""
    config = transformers.Wav2Vec2Config(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        conv_dim=(16, 16),
        conv_stride=(5, 4),
        conv_kernel=(5, 4),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        vocab_size=8,
    )
    torch.manual_seed(0)
    model = transformers.Wav2Vec2ForCTC(config).eval()
    extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=RATE)
    return mixlens.Lens(model, processor=extractor)


def _translation() -> mixlens.Lens:
    """A random encoder-decoder model over a vocabulary of whole words."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing

    words = sorted({word for pair in PAIRS for side in pair[:2] for word in side.split()})
    ids = {word: number for number, word in enumerate(["<pad>", "</s>", "<unk>", *words])}
    tokenizer = Tokenizer(WordLevel(ids, unk_token="<unk>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
    )
    config = transformers.MarianConfig(
        vocab_size=len(ids),
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        max_position_embeddings=64,
    )
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return mixlens.Lens(model, fast)


@functools.cache
def dataset_for(kind: str, count: int, needs: str = "any") -> Dataset:
    examples: list[Example] = []
    if kind == "evidence":
        return corpus.read(f"generated:fact?documents=2&count={count}")
    if needs == "causal":  # such a model sees only cues that come before their target
        examples = [each for each in corpus.bundled().examples if _is_foretold(each)]
    elif kind in ("text", "agreement"):
        return corpus.bundled().sample(count, 0)
    if kind == "classification":
        for number, example in enumerate(corpus.bundled().sample(count, 0).examples):
            examples.append(Labelled(name=example.name, text=example.text, label=str(number % 2)))
    if kind == "tagged":
        examples = [_tagged(number, *pair) for number, pair in enumerate(TAGGED)]
    if kind == "speech":
        examples = [_spoken(number) for number in range(count)]
    if kind == "alignment":
        examples = [_aligned(number, *pair) for number, pair in enumerate(PAIRS)]
    return Dataset("small", kind, tuple(examples[:count]))


def _is_foretold(example: Example) -> bool:
    assert isinstance(example, Agreement)
    return all(cue[1] <= example.place[0] for cue in example.cues)


def _spoken(number: int) -> Spoken:
    """A sentence of four tones, 0.2 s each."""
    seconds = np.arange(0, 0.8, 1 / 16_000)
    clips = [
        to_bytes(
            0.5 * np.sin(seconds * (300 + 200 * (5 * seconds // 1)) * (1 + number + other)), 16_000
        )
        for other in (0, 1)
    ]
    words = ((0, 4), (5, 9), (10, 16), (17, 21))
    return Spoken(
        name=f"tones:{number}",
        text="They will always hear.",
        audio=clips[0],
        words=words,
        times=tuple((0.2 * place, 0.2 * place + 0.2) for place in range(4)),
        cue=(1,),
        target=(3,),
        foil="here",
        other_cue="are",
        other_audio=clips[1],
    )


def _tagged(number: int, text: str, tags: str) -> Tagged:
    spans, start = [], 0
    for word in text.split(" "):
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return Tagged(name=f"tagged:{number}", text=text, words=tuple(spans), tags=tuple(tags.split()))


def _aligned(number: int, source: str, target: str, links: str) -> Aligned:
    pairs: Any = frozenset(tuple(map(int, link.split("-"))) for link in links.split())
    return Aligned(
        name=f"pair:{number}",
        text=source,
        pair=target,
        source=tuple(source.split()),
        target=tuple(target.split()),
        sure=pairs,
        possible=pairs,
    )


# Where the protocol trains probes or looks at every token exactly: the smallest setting that still
# runs.
_SHARES = {"probes": 4}
FAST: dict[str, dict[str, Any]] = {
    "brunner2020/fig2a": {"probes": ("naive", "ridge"), "folds": 2},
    "brunner2020/fig2b": {"probe": "ridge", "folds": 2},
    "brunner2020/fig7": {"probes": ("ridge",), "learner": "ridge", "folds": 2},
    "brunner2020/fig11": {"probes": ("naive", "ridge"), "folds": 2},
    "brunner2020/fig14": {"probe": "ridge", "folds": 2},
    "brunner2020/appD": {"probes": ("naive", "ridge"), "folds": 2, "attribution_probes": 4},
    **dict.fromkeys(
        (f"brunner2020/{name}" for name in ("fig3a", "fig3b", "fig4", "fig18", "fig19", "fig26")),
        _SHARES,
    ),
}
# Coarser than anyone would take them for a result.
COARSE = {"hidden_token_attribution": {"probes": 4}, "integrated_gradients": {"steps": 5}}
# What a paper measures is measured of every text. Probes need more of them than the rest.
TEXTS, TEXTS_FOR_PROBES = 3, 8
TRAINED = {"mohebbi2023/fig3", *(name for name, options in FAST.items() if "folds" in options)}


def data_of(name: str) -> Dataset | None:
    """The texts of an experiment, if it takes any."""
    spec = module(name).SPEC
    if not spec.kinds:
        return None
    count = TEXTS_FOR_PROBES if name in TRAINED else TEXTS
    return dataset_for(spec.kinds[0], count, spec.needs)


def run_paper(paper: str, out: Path) -> None:
    """Every experiment of a paper. What several of them ask of a text is computed once."""
    memory = Memory()
    for name in names():
        if name.startswith(f"{paper}/"):
            spec = module(name).SPEC
            reproduce(
                name,
                lens_for(spec.needs),
                data_of(name),
                out=out,
                other=lens_for(spec.needs, 1) if spec.compares else None,
                measure_options=COARSE,
                memory=memory,
                **FAST.get(name, {}),
            )
