"""Every reader of files: results, runs, alignments, corpora, CoNLL-U, tables and prompts."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

import mixlens
from mixlens import datasets as corpus
from mixlens.cli.prompting import read_prompting
from mixlens.datasets.alignments import read_alignments
from mixlens.datasets.reading import KINDS as KINDS_OF_DATA
from mixlens.datasets.rows import Columns, rows_of
from mixlens.datasets.shards import cut_into_shards
from mixlens.maps.storage import read, write
from mixlens.runs.journal import LINES, Journal
from mixlens.runs.settings import SETTINGS
from mixlens.runs.store import DATA, METADATA, schema
from mixlens.text.prompts import prompt_of
from mixlens.text.segments import token_segments
from tests.fuzz.contents import CHANGES, as_json, changed, damaged, folder_with, only_ours

SAVED = [path.read_bytes() for path in sorted((Path(__file__).parents[1] / "data").glob("*.safe*"))]
LONG_NUMBER = b"9" * 5000  # longer than Python reads as a number
KINDS = st.sampled_from([None, *KINDS_OF_DATA])
CONLLU = (
    b"# sent_id = 1\n# text = I don't know.\n1\tI\tI\tPRON\t_\t_\t2\tnsubj\t_\t_\n"
    b"2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n2\tdo\tdo\tAUX\t_\t_\t0\troot\t_\t_\n"
    b"3\tn't\tnot\tPART\t_\t_\t2\tx\t_\t_\n3.1\tso\tso\tADV\t_\t_\t_\t_\t_\t_\n"
    b"4\tknow\tknow\tVERB\t_\t_\t2\tx\t_\tSpaceAfter=No\n5\t.\t.\tPUNCT\t_\t_\t2\tx\t_\t_\n\n"
)
AGREEMENT = (
    {"text": "The dogs [MASK] old.", "target": "are", "foil": "is", "cue": "dogs"},
    {"sentence_good": "The dogs are old.", "sentence_bad": "The dogs is old.", "UID": "x"},
    {
        "sentence_good": ["The", "dogs", "are"],
        "sentence_bad": ["The", "dogs", "is"],
        "target_index": 2,
        "cue_indices": [1],
    },
    {"sentence": "The dogs are old.", "label": 1},
    {"premise": "A.", "hypothesis": "B.", "label": "x"},
)
TABLES = (
    b"text,target,foil\nThe dogs [MASK] old.,are,is\n",
    b'text,label\n"one, two",1\nthree,0\n',
    b"sentence\tlabel\nwell\t1\nbad\t0\n",
    b"sentence1\tsentence2\tlabel\na\tb\tx\n",
    b"one_prefix_prefix,target,foil,evidence\nThe dogs near the river,are,is,dogs\n",
    b"Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t2\t3\ta b\tc d\n",
)
CHATS = (
    b'[{"role": "user", "content": "What?"}, {"role": "assistant", "content": "That."}]',
    b"=== document 1 ===\nOne.\n=== question ===\nWhat?\n",
)


@cache
def _saved() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The numbers and the description of maps with all that a file can hold."""
    lens = mixlens.Lens.bundled()
    maps = lens.measure("hidden_token_attribution", "The dogs bark.", layers=[0], probes=2)
    with folder_with({}) as place:
        maps.save(place / "maps")
        return read(place / "maps", "mixing maps")


def _use(maps: mixlens.MixingMaps) -> None:
    """What is done with maps that were read."""
    assert repr(maps)
    for use in (lambda: maps.row(0).top(1), maps.words, maps.rollout):
        with only_ours():
            use()


@given(damaged(SAVED))
def results(content: bytes) -> None:
    """A file of maps with bytes changed."""
    with folder_with({"maps": content}) as place, only_ours():
        _use(mixlens.load(place / "maps"))


@given(CHANGES)
@example([([0], None)])
@example([([1, 0, 0], None)])
@example([([1, 1], [])])
@example([([3], [99, 1, 2, 3, 4])])
@example([([3, 0], 99)])
@example([([5], None)])
@example([([5], {"steps": [None]})])
@example([([7], None)])
@example([([1, 1], "")])
@example([([1, 1], "0")])
@example([([1, 2, 0, 1], 15)])
@example([([2, 15], "\0")])
def descriptions(changes: list[tuple[list[int], Any]]) -> None:
    """A file of maps, whole, whose description is not what mixlens would write."""
    arrays, about = _saved()
    for path, value in changes:
        about = changed(about, path, value)
    with folder_with({}) as place, only_ours():
        write(place / "maps", "mixing maps", arrays, about if isinstance(about, dict) else {})
        _use(mixlens.load(place / "maps"))


@cache
def _part(about: bytes = b"{}") -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = {
        "id": "1",
        "line": 1,
        "measure": "attention",
        "layer": 0,
        "tokens": ["a", "b"],
        "special": [False, False],
        "targets": [0, 1],
        "target_tokens": ["a", "b"],
        "shape": [2, 2],
        "scores": [1.0, 0.0, 0.5, 0.5],
    }
    table = pa.Table.from_pylist([row], schema().with_metadata({METADATA: about}))
    content = io.BytesIO()
    pq.write_table(table, content)
    return content.getvalue()


ABOUT = {
    "schema": 1,
    "measures": {"attention": {"facts": {}, "provenance": {"steps": []}, "rollout": [0.5, True]}},
}


@given(CHANGES, st.none() | damaged([b""]))
@example([], b"\0")
@example([([0], "1")], None)
@example([([1], [])], None)
def run_results(changes: list[tuple[list[int], Any]], broken: bytes | None) -> None:
    """A folder of `mixlens run` with a part that is damaged or from elsewhere."""
    about: Any = ABOUT
    for path, value in changes:
        about = changed(about, path, value)
    part = _part(as_json(about)) if broken is None else _part()[:200] + broken + _part()[200:]
    with folder_with({f"{DATA}/part-00000.parquet": part}) as place, only_ours():
        loaded: Any = mixlens.load(place)
        assert repr(loaded)
        for use in (loaded.to_dataframe, lambda: list(loaded)):
            with only_ours():
                use()


@given(
    damaged(
        [
            b'{"piece": "0", "value": 1}\n{"piece": "1", "value": {"array": "AA==", "dtype":'
            b' "|u1", "shape": [1]}}\n'
        ]
    ),
    damaged([b'{"a": 1}']),
)
@example(b'{"piece": "0"}\n', b"0")
@example(b"[" * 100_000 + b"\n", b"{}")
def journals(lines: bytes, settings: bytes) -> None:
    """The journal and the settings of a run that goes on."""
    files = {LINES: lines, SETTINGS: settings}
    with folder_with(files) as place, only_ours(), Journal.open(place, {"a": 1}) as journal:
        list(journal.entries(list(journal.finished)))
        journal.add("2", {"value": 2})


@given(
    damaged([b"1-1 2p2\n1-2\n", b"0-0 1?1\n0-1p\n", b"0001 1 1 S\n0001 2 2 P\n0002 1 0\n"]),
    damaged([b"das Haus ||| the house\nes ||| it is\n", b"das Haus\tthe house\nes\tit is\n"]),
    st.sampled_from([".talp", ".gold", ".pharaoh", ".naacl"]),
    st.sampled_from([None, 0, 1]),
)
@example(LONG_NUMBER + b"-1\n", b"a ||| b\n", ".talp", None)
@example(b"0001 " + LONG_NUMBER + b" 1\n", b"a ||| b\n", ".naacl", None)
@example(b"1-1\n", b"<s snum=" + LONG_NUMBER + b"> a ||| b </s>\n", ".talp", None)
def alignments(links: bytes, text: bytes, ending: str, base: int | None) -> None:
    """Links and the text that they link."""
    with folder_with({f"a{ending}": links, "a.src-tgt": text}) as place, only_ours():
        read_alignments(place, base=base)


@given(damaged([CONLLU]), KINDS)
@example(b"1-" + LONG_NUMBER + b"\ta" + b"\t_" * 8 + b"\n\n", None)
@example(b"\xef\xbb\xbf\xef\xbb\xbf1-2\ta" + b"\t_" * 8 + b"\n\n", None)
def conllu(content: bytes, kind: str | None) -> None:
    """Universal Dependencies."""
    with folder_with({"a.conllu": content}) as place, only_ours():
        corpus.read(place / "a.conllu", kind)


@given(damaged(TABLES), st.sampled_from(["a.csv", "a.tsv", "a.txt", "dev.tsv", "a.csv.gz"]), KINDS)
def tables(content: bytes, name: str, kind: str | None) -> None:
    """CSV and TSV, with header and without."""
    with folder_with({name: content}) as place, only_ours():
        corpus.read(place / name, kind)


OBJECTS = st.builds(
    lambda rows: b"\n".join(as_json(row) for row in rows),
    st.lists(
        st.builds(
            lambda row, changes: (changes and changed(row, *changes[0])) or row,
            st.sampled_from(AGREEMENT),
            CHANGES,
        ),
        max_size=3,
    ),
)


@given(
    damaged([as_json(row) + b"\n" for row in AGREEMENT]) | OBJECTS,
    st.sampled_from(["a.jsonl", "a.txt", "a", "a.text", "a.json"]),
    KINDS,
    st.none() | st.integers(-1, 3),
)
@example(b'{"text": ' + b"[" * 100_000, "a.jsonl", None, None)
@example(b'{"text": "a", "label": ' + LONG_NUMBER + b"}", "a.jsonl", None, None)
@example(as_json({**AGREEMENT[2], "cue_indices": None}), "a.jsonl", None, None)
@example(as_json({**AGREEMENT[2], "cue_indices": 1}), "a.jsonl", None, None)
def corpora(content: bytes, name: str, kind: str | None, sample: int | None) -> None:
    """JSONL and plain text, as a file and as a folder."""
    gold = {"a.gold": b"1\tare\tis\t0\t4\n"} if name == "a.text" else {}
    with folder_with({name: content, **gold}) as place:
        for path in (place / name, place):
            with only_ours():
                corpus.read(path, kind, sample=sample)


@given(
    damaged([*(as_json(row) + b"\n" for row in AGREEMENT), *TABLES]) | OBJECTS,
    st.sampled_from(["a.jsonl", "a.csv", "a.tsv", "a.txt", "a.parquet"]),
    st.sampled_from([None, "text", "label", "target_index", "cue_indices", "none"]),
    st.integers(0, 3),
)
@example(b'{"text": ' + b"[" * 100_000, "a.jsonl", None, 1)
@example(b'{"text": "a", "target": "b", "target_index": 3}\n', "a.jsonl", "target_index", 1)
@example(b"text,target,label\na,b," + LONG_NUMBER + b"\n", "a.csv", "label", 1)
def shards(content: bytes, name: str, column: str | None, rows: int) -> None:
    """A corpus as `mixlens run` reads it, in shards."""
    columns = Columns(id=column, explain={"word": "target"}, target=column, tags=column)
    with folder_with({name: content}) as place, only_ours():
        for shard in cut_into_shards(str(place / name), rows):
            for chosen in (Columns(), columns):
                with only_ours():
                    list(rows_of(shard, chosen))


@cache
def _tokenizer() -> Any:
    tokenizer = mixlens.Lens.bundled("causal").tokenizer
    tokenizer.chat_template = (
        "{% for message in messages %}<{{ message.role }}> {{ message.content }}\n{% endfor %}"
    )
    return tokenizer


CHAT = st.builds(
    lambda changes: as_json(changed(json.loads(CHATS[0]), *changes[0]) if changes else []), CHANGES
)


@given(damaged(CHATS) | CHAT, st.sampled_from(["a.json", "a.txt"]))
@example(b"[" * 100_000, "a.json")
def prompts(content: bytes, name: str) -> None:
    """Prompt files: a text with marks, and the messages of a chat."""
    options: Any = {"generate": 1, "answer": None, "segments": "own", "sink": True}
    with folder_with({name: content}) as place, only_ours():
        prompting = read_prompting(None, None, place / name, None, **options)
        prompt = prompt_of(_tokenizer(), prompting.inputs)
        token_segments(prompt.row, prompting.marks)
