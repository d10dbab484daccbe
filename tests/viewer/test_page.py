"""The page is self-contained, and the built viewer is up to date."""

from __future__ import annotations

import hashlib
import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from mixlens import MixingMaps
from mixlens.views.viewer.page import built, frame, page
from mixlens.views.viewer.payload import payload_of

WEB = Path(__file__).resolve().parents[2] / "web"


def _maps(*tokens: str) -> MixingMaps:
    return MixingMaps.of(np.full((2, len(tokens), len(tokens)), 0.5), tokens)


def test_no_token_can_leave_the_payload() -> None:
    text = page(payload_of(_maps("</script><script>alert(1)</script>", "<!--", "\u2028\ud800")))
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    inside = re.search(r'id="payload">(.*?)</script>', text, re.S)
    assert inside is not None
    labels = json.loads(inside[1])["texts"][0]["labels"]
    assert labels == ["</script><script>alert(1)</script>", "<!--", "\u2028?"]
    text.encode("utf-8")


def test_the_page_forbids_outside_requests() -> None:
    text = page(payload_of(_maps("a", "b")))
    assert "default-src 'none'" in text
    assert "connect-src 'none'" in text
    assert "connect-src 'self'" in page(payload_of(_maps("a", "b")), live={"api": "/api"})
    assert not re.search(r'(src|href)="(https?:)?//', text)


def test_a_frame_holds_the_whole_page() -> None:
    payload = payload_of(_maps("a", 'quo"te'))
    shown = frame(payload)
    inside = re.search(r'srcdoc="([^"]*)"', shown)
    assert inside is not None
    assert unescape(inside[1]) == page(payload)


@pytest.mark.skipif(not WEB.is_dir(), reason="NOT RUN: the viewer's source is not here")
def test_the_built_viewer_is_not_stale() -> None:
    names = [str(file.relative_to(WEB)) for file in (WEB / "src").rglob("*") if file.is_file()]
    digest = hashlib.sha256()
    for name in sorted([*names, "build.mjs", "package.json"]):
        digest.update(f"{name}\n".encode() + (WEB / name).read_bytes())
    assert digest.hexdigest() in built()[:200], "web/ changed: run `make web` and commit the result"
