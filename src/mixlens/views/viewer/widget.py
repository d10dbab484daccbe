"""The viewer as a notebook widget (anywidget), in which you can change the text and the
measures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixlens.errors import MissingExtra, MixlensError
from mixlens.measures import ready_measures
from mixlens.views.viewer.packing import LIVE_BYTES
from mixlens.views.viewer.page import built
from mixlens.views.viewer.payload import payload_of

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise MissingExtra("anywidget", "widget") from error

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps


class Viewer(anywidget.AnyWidget):
    """A notebook widget that shows a text and measures it again when you change it.

    `lens` is a `Lens`, or an object with the same `measure` method. `names` are the measures that
    are shown first.
    """

    _esm = traitlets.Unicode().tag(sync=True)
    payload = traitlets.Dict().tag(sync=True)
    choices = traitlets.Dict().tag(sync=True)
    job = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)

    def __init__(
        self, lens: Any, text: Any, names: tuple[str, ...] = ("value_zeroing", "attention")
    ) -> None:
        self._lens = lens
        about = [
            {"name": name, "summary": spec.summary, "per_head": spec.per_head}
            for name, spec in ready_measures().items()
        ]
        super().__init__(
            _esm=f"{built()}\nexport default {{ render: mixlensViewer.render }};",
            payload=self._measure(text, names, heads=False),
            choices={
                "models": [{"name": "", "pairs": not isinstance(text, str)}],
                "measures": about,
            },
        )
        self.observe(self._answer, names="job")

    def _measure(self, text: Any, names: Any, *, heads: bool) -> dict[str, Any]:
        maps: list[MixingMaps] = [self._lens.measure(name, text) for name in names]
        if heads:
            specs = ready_measures()
            able = [name for name in names if specs[name].per_head]
            maps += [self._lens.measure(name, text, per_head=True) for name in able]
        return payload_of(maps, room=LIVE_BYTES if heads else None)

    def _answer(self, change: Any) -> None:
        job = change["new"]
        second = job.get("target_text")
        text = job["text"] if second is None else (job["text"], second)
        try:
            maps = self._measure(text, job["measures"], heads=job["heads"])
            self.answer = {"number": job["number"], "payload": maps}
        except MixlensError as error:
            self.answer = {"number": job["number"], "error": str(error)}
