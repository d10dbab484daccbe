"""List where to get common data sets, for error messages and documentation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """A well-known data set: the words that identify it in a path, its description and its
    address.
    """

    marks: tuple[str, ...]
    title: str
    source: str


ORIGINS = (
    Origin(
        ("blimp",),
        "BLiMP, minimal pairs (Warstadt et al. 2020)",
        "https://github.com/alexwarstadt/blimp (folder data), CC-BY",
    ),
    Origin(
        ("linzen", "subj_agr", "agreement"),
        "subject-verb agreement of Linzen et al. (2016), filtered by Gulordava et al. (2018)",
        "https://github.com/facebookresearch/colorlessgreenRNNs (folder data/linzen_testset)",
    ),
    Origin(("sst",), "SST-2 of GLUE", "https://gluebenchmark.com/tasks (SST-2.zip)"),
    Origin(("cola",), "CoLA of GLUE", "https://gluebenchmark.com/tasks (CoLA.zip)"),
    Origin(
        ("mrpc", "msr_paraphrase"),
        "MRPC of GLUE",
        "https://gluebenchmark.com/tasks; the sentences come from"
        " https://www.microsoft.com/en-us/download/details.aspx?id=52398",
    ),
    Origin(("mnli", "multinli"), "MNLI of GLUE", "https://gluebenchmark.com/tasks (MNLI.zip)"),
    Origin(("glue",), "GLUE, classification sets", "https://gluebenchmark.com/tasks"),
    Origin(
        (".conllu", "ud_", "universal"),
        "Universal Dependencies, parts of speech",
        "https://universaldependencies.org (treebanks)",
    ),
    Origin(
        ("alignment_de", "talp", "vilar", "rwth"),
        "German-English gold alignments (Vilar et al. 2006)",
        "https://www-i6.informatik.rwth-aachen.de/goldAlignment",
    ),
    Origin(
        ("alignment", "hansard", "enfr", ".gold", ".naacl"),
        "English-French gold alignments (Hansards, Mihalcea and Pedersen 2003)",
        "https://web.eecs.umich.edu/~mihalcea/wpt/",
    ),
    Origin(
        ("multi30k", "flickr"),
        "Multi30k, captions in English, German, French",
        "https://github.com/multi30k/dataset",
    ),
    Origin(("wikitext",), "WikiText-2", "https://huggingface.co/datasets/Salesforce/wikitext"),
)


def advice(path: str) -> str:
    """Return where to get the data set that a path seems to name, or an empty string if it names no
    known data set.
    """
    lowered = path.lower()
    for origin in ORIGINS:
        if any(mark in lowered for mark in origin.marks):
            return f"{origin.title}: {origin.source}"
    return ""
