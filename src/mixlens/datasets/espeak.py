"""Speak texts with the eSpeak NG library, which also reports when each word begins.

The library keeps internal state, so the audio of a text depends slightly on the texts spoken before
it. Each call therefore speaks its texts in a new process, so that the same call always returns the
same samples.
"""

from __future__ import annotations

import base64
import ctypes
import ctypes.util
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixlens.errors import InvalidInput

_LIMIT = 300  # seconds for all texts of a call; each takes a few milliseconds
_SYNCHRONOUS, _UTF8, _SENTENCE_END, _WORD, _RATE, _CHARACTERS = 2, 1, 5, 1, 1, 1


class _SpeechEvent(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),  # in characters, from 1; 0 for a pause
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_uint64),
    ]


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_SpeechEvent)
)


@dataclass(frozen=True)
class Utterance:
    """A spoken text."""

    samples: np.ndarray  # from -1 to 1
    rate: int  # samples per second
    starts: Sequence[tuple[int, float]]  # of each word: its first character, and its time in s
    end: float  # of the last word, in seconds
    phonemes: str  # in the notation of eSpeak NG


def speak(texts: Sequence[str], voice: str, words_per_minute: int) -> list[Utterance]:
    """Speak each text with a voice such as `en-us`, and return the audio with the times of the
    words.
    """
    if ctypes.util.find_library("espeak-ng") is None:
        raise InvalidInput(
            "Spoken sentences need the eSpeak NG library, which was not found. Install it, for"
            " example with `apt install espeak-ng`, or pass your own audio."
        )
    command = [sys.executable, "-m", "mixlens.datasets.espeak", voice, str(words_per_minute)]
    try:
        process = subprocess.run(
            command,
            input=json.dumps(list(texts)),
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=True,
        )
    except (subprocess.SubprocessError, OSError) as error:
        reason = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
        raise InvalidInput(
            f"eSpeak NG failed ({reason}). Run `espeak-ng --voices` to list the voices."
        ) from error
    return [
        Utterance(
            samples=np.frombuffer(base64.b64decode(each.pop("samples")), "<i2") / 2**15,
            starts=tuple(map(tuple, each.pop("starts"))),
            **each,
        )
        for each in json.loads(process.stdout)
    ]


class _Voice:
    """A voice of eSpeak NG, whose library is loaded into the current process."""

    def __init__(self, voice: str, words_per_minute: int) -> None:
        self._library: Any = ctypes.CDLL(ctypes.util.find_library("espeak-ng"))
        self._rate = self._library.espeak_Initialize(_SYNCHRONOUS, 0, None, 0)
        if self._rate <= 0:
            raise SystemExit(f"it cannot start: {self._rate}")
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise SystemExit(f"it has no voice {voice!r}")
        self._library.espeak_SetParameter(_RATE, words_per_minute, 0)
        self._library.espeak_TextToPhonemes.restype = ctypes.c_char_p

    def say(self, text: str) -> dict[str, Any]:
        """Speak a text, and return its audio samples with the start time of each word."""
        parts: list[bytes] = []
        starts: list[tuple[int, float]] = []
        ends: list[float] = []

        def collect(samples: Any, count: int, events: Any) -> int:
            if count > 0:
                parts.append(ctypes.string_at(samples, 2 * count))
            number = 0
            while events[number].type:
                event = events[number]
                time = event.sample / self._rate
                if event.type == _WORD and event.text_position > 0:
                    starts.append((event.text_position - 1, time))
                elif event.type == _SENTENCE_END:
                    ends.append(time)
                number += 1
            return 0

        content = text.encode()
        callback = _Callback(collect)
        self._library.espeak_SetSynthCallback(callback)
        self._library.espeak_Synth(content, len(content) + 1, 0, _CHARACTERS, 0, _UTF8, None, None)
        self._library.espeak_Synchronize()
        place = ctypes.c_char_p(content)
        phonemes = self._library.espeak_TextToPhonemes(ctypes.byref(place), _UTF8, 0)
        samples = np.frombuffer(b"".join(parts), np.int16).astype("<i2")
        return {
            "samples": base64.b64encode(samples.tobytes()).decode(),
            "rate": self._rate,
            "starts": starts,
            "end": max(ends, default=len(samples) / self._rate),
            "phonemes": phonemes.decode(),
        }


if __name__ == "__main__":
    speaker = _Voice(sys.argv[1], int(sys.argv[2]))
    json.dump([speaker.say(text) for text in json.load(sys.stdin)], sys.stdout)
