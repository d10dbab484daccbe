"""The settings of a run, which can be sent to another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from mixlens.datasets.rows import Columns
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.maps.provenance import plain, versions
from mixlens.measures import spec_of
from mixlens.runs.store import KEEP, SCHEMA_VERSION

if TYPE_CHECKING:
    from mixlens.lens import Lens

SHARD_ROWS = 512
SHARD_ROWS_ELSEWHERE = 2048  # no batch is larger than its shard, and a GPU is slow on small ones
TARGETS = ("all", "mask", "first", "last", "generated", "column")


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """The model that a worker loads, and the settings for loading it.

    `name` is a hub name or a folder, or None for the bundled model.
    """

    name: str | None = None
    dtype: str = "float32"
    device: str = "cpu"
    trust_remote_code: bool = False
    threads: int | None = None  # threads of one process; None: torch's default
    processes: int = 1  # processes over which the model is spread

    def load(self) -> Lens:
        """Load the model in this process.

        If it is spread over several processes, call this method in each of them.
        """
        import torch

        from mixlens.lens import Lens
        from mixlens.model.distributed import processes_of, spread_options
        from mixlens.model.loading import quiet_loading

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        options: dict[str, Any] = {"dtype": getattr(torch, self.dtype)}
        if self.trust_remote_code:
            options["trust_remote_code"] = True
        options |= spread_options(self.processes)
        with quiet_loading():
            lens = (
                Lens.bundled(**options)
                if self.name is None
                else Lens.from_pretrained(self.name, **options)
            )
        if self.processes == 1:
            lens.model.to(torch.device(self.device))
        elif processes_of(lens.model) is None:
            raise UnsupportedModel(
                f"{type(lens.model).__name__} has no tensor-parallel plan in transformers. Run it "
                "without --group-size."
            )
        return lens


@dataclass(frozen=True, kw_only=True)
class Job:
    """The settings of a corpus run: the corpus, the measures and the output folder."""

    corpus: str
    out: str
    measures: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # options by measure
    columns: Columns = field(default_factory=Columns)
    targets: str = "all"
    site: str | None = None
    keep: str = "summary"
    by_head: bool = False  # whether to aggregate single heads too
    shard_rows: int = SHARD_ROWS
    memory: int | None = None  # estimated bytes of a batch; see `batching`
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if not self.measures:
            raise InvalidInput("No measure was passed. Pass at least one.")
        for name in (*self.measures, *self.options):
            spec_of(name)
        if self.keep not in KEEP:
            raise InvalidInput(f"keep={self.keep!r} is unknown. Choose one of: {', '.join(KEEP)}.")
        if self.targets not in TARGETS:
            raise InvalidInput(
                f"Unknown targets {self.targets!r}. Choose one of: {', '.join(TARGETS)}."
            )
        if (self.targets == "column") != (self.columns.target is not None):
            raise InvalidInput("--targets column and --target-column belong together. Pass both.")

    def settings(self) -> dict[str, Any]:
        """Return all settings that affect the numbers, except the model and the corpus."""
        about: dict[str, Any] = plain(asdict(self))
        del about["out"], about["corpus"]
        return {**about, "result schema": SCHEMA_VERSION, "versions": versions()}
