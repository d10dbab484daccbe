"""The viewer: one page that shows maps, comparisons and rankings, in four shells.

`payload` says what is shown as one JSON object (described in docs/viewer.md), `room` what of it
fits, `packing` writes its numbers, `text` its tokens. `page` puts the payload and the built viewer
(`built/`, made from `web/` in the repository) into one file. `widget` is the same viewer in a
notebook with a kernel.
"""
