"""The public names and the import order.

And the order in which modules may import each other.
"""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

import mixlens

pytestmark = pytest.mark.smoke

SOURCE = Path(mixlens.__file__).parent

PUBLIC = {
    "Answer",
    "CannotLoad",
    "CannotWrite",
    "Comparison",
    "EmptyInput",
    "InputTooLong",
    "InvalidInput",
    "Lens",
    "MissingExtra",
    "MissingTokenizer",
    "MixingMaps",
    "MixlensError",
    "ModelChanged",
    "NonFiniteActivations",
    "OutOfMemory",
    "ProcessesDiffer",
    "Recording",
    "Report",
    "UnsupportedModel",
    "WrongKeys",
    "alternative_attention",
    "attention_bounds",
    "list_measures",
    "load",
    "measure",
}

LENS = {
    "answer",
    "bundled",
    "compare",
    "context_cite",
    "from_pretrained",
    "generate",
    "hops",
    "identifiability",
    "knockout",
    "leave_one_out",
    "measure",
    "measure_batch",
    "memory_budget",
    "model",
    "predictions",
    "processor",
    "record",
    "rollout",
    "routes",
    "tokenizer",
    "verify",
}

MAPS = {
    "data",
    "scores",
    "tokens",
    "source_tokens",
    "facts",
    "provenance",
    "normalised",
    "rollout",
    "flow",
    "words",
    "spans",
    "row",
    "to_dataframe",
    "save",
    "plot",
    "to_html",
}

# A file imports from its own part or from an earlier group, wherever in the file the import is.
ORDER = [
    {"errors", "moved_modules"},
    {"model", "schemas"},
    {"text", "datasets", "kernels"},
    {"registry", "contracts", "capture"},
    {"structure"},
    {"recording"},
    {"replay"},
    {"measures"},
    {"maps"},
    {"measuring"},
    {"answers"},
    {"views", "lens", "evaluating"},
    {"server", "testing", "evaluations", "runs", "finetuning"},
    {"benchmark", "papers"},
    {"cli"},
]


def test_public_names() -> None:
    assert set(mixlens.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(mixlens, name) is not None
    lens = mixlens.Lens.bundled()
    assert {name for name in dir(lens) if not name.startswith("_")} == LENS
    maps = lens.measure("attention", "The dogs bark.")
    assert {name for name in MAPS if hasattr(maps, name)} == MAPS


def test_importing_mixlens_needs_no_torch() -> None:
    program = (
        "import sys, mixlens, mixlens.cli; assert 'torch' not in sys.modules and 'transformers' not"
        " in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def _imported_by(path: Path) -> Iterator[str]:
    """Top-level parts of mixlens that a file imports, when it is loaded or when a function runs.

    Not those that only types need.
    """
    nodes: list[ast.AST] = [ast.parse(path.read_text())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            nodes += node.orelse
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("mixlens."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.ImportFrom) and node.module == "mixlens":
            yield from (alias.name for alias in node.names if alias.name != "__version__")
        elif isinstance(node, ast.Import):
            yield from (
                alias.name.split(".")[1]
                for alias in node.names
                if alias.name.startswith("mixlens.")
            )


def test_names_are_informative() -> None:
    """Not these words, which say nothing."""
    empty = {"found", "told", "flown", "pays", "together", "some", "pieces"}
    root = Path(__file__).parent.parent
    wrong = []
    for folder in ("src", "tests", "benchmarks", "training"):
        for path in sorted((root / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                name = getattr(node, "arg", None) or getattr(node, "name", None)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    name = node.id
                if name in empty:
                    wrong.append(f"{path.relative_to(root)}: {name}")
    assert not sorted(set(wrong))


def test_variables_of_functions_are_nouns() -> None:
    """A bare participle or pointer does not say what a value is."""
    pointers = {"asked", "chosen", "given", "held", "here", "known", "made", "said", "seen"}
    pointers |= {"shown", "taken", "there", "wanted"}
    public = {("lens.py", "given"), ("cli/reproduce.py", "wanted")}  # of `Lens`, of a command
    root = Path(mixlens.__file__).parent
    wrong = set()
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root).as_posix()
        if place.startswith("kernels/fused/"):  # the names of the Triton kernels
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef | ast.Lambda):
                continue
            for node in ast.walk(function):
                name = node.arg if isinstance(node, ast.arg) else None
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    name = node.id
                if name in pointers and (place, name) not in public:
                    wrong.add(f"{place}: {name}")
    assert not sorted(wrong)


def test_an_underscore_means_private() -> None:
    """Nobody imports such a name of ours."""
    root = Path(__file__).parent.parent
    wrong = []
    for folder in ("src", "tests", "benchmarks", "training", "docs", "release"):
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text()
            for names in re.findall(r"^ *from mixlens\S* import (\([^)]*\)|.*)$", text, flags=re.M):
                private = re.findall(r"(?<![\w.])_(?!_)\w+", re.sub(r" as \w+", "", names))
                wrong += [f"{path.relative_to(root)}: {name}" for name in private]
    assert not wrong


def test_a_class_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                name = node.name.removeprefix("_")
                places.setdefault(name, []).append(str(path.relative_to(SOURCE)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_kinds_of_attention_are_named_in_one_place() -> None:
    """`AttentionKind`, not a word in quotes. "cross" alone is also the name of a site."""
    wrong = []
    for path in sorted([*SOURCE.rglob("*.py"), *Path(__file__).parent.rglob("*.py")]):
        if path.parts[-2:] == ("contracts", "spec.py") or path.name == Path(__file__).name:
            continue
        text = path.read_text()
        if '"self"' not in text and "kind" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and node.value == "self":
                wrong.append(f"{path.name}:{node.lineno}")
            elif isinstance(node, ast.Compare) and "kind" in ast.unparse(node.left):
                words = [n.value for n in node.comparators if isinstance(n, ast.Constant)]
                wrong += [f"{path.name}:{node.lineno}"] * ("cross" in words)
    assert not wrong


@pytest.mark.parametrize(
    "room",
    [
        "answers",
        "benchmark",
        "capture",
        "contracts",
        "datasets",
        "evaluating",
        "finetuning",
        "kernels",
        "maps",
        "measuring",
        "model",
        "papers",
        "recording",
        "replay",
        "runs",
        "server",
        "structure",
        "text",
        "views",
        "views/viewer",
    ],
)
def test_the_docstring_of_a_folder_lists_its_files(room: str) -> None:
    """The other rooms have a file for each measure, evaluation or command."""
    files = {path.stem for path in (SOURCE / room).glob("*.py")} - {"__init__"}
    about = ast.get_docstring(ast.parse((SOURCE / room / "__init__.py").read_text())) or ""
    assert not files - set(re.findall(r"\w+", about))


def test_imports_run_one_way() -> None:
    rank = {name: place for place, names in enumerate(ORDER) for name in names}
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if own in ("__init__", "__main__", "bundled"):
            continue
        wrong += [
            f"{path.relative_to(SOURCE)} imports {other}"
            for other in _imported_by(path)
            if other != own and rank[other] >= rank[own]
        ]
    assert not wrong


def test_no_module_imports_itself_through_others() -> None:
    """Lazy imports included; `prepare` raises for a cycle and names it."""
    names = {
        ".".join(("mixlens", *path.relative_to(SOURCE).with_suffix("").parts)): path
        for path in SOURCE.rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): path for name, path in names.items()}
    graph = {name: set(_modules_imported_by(path, modules)) for name, path in modules.items()}
    graphlib.TopologicalSorter(graph).prepare()


def _modules_imported_by(path: Path, modules: Collection[str]) -> Iterator[str]:
    nodes: list[ast.AST] = [ast.parse(path.read_text())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            nodes += node.orelse
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("mixlens."):
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield inside if inside in modules else node.module
