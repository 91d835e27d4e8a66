"""Writes pictures as a video: WebP, GIF or animated PNG by Pillow, MP4 where imageio-ffmpeg is installed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fp3o.errors import UserError, optional_module
from fp3o.runs.atomic import disk_errors

KINDS = (".webp", ".gif", ".png", ".mp4")


def check_name(path: Path) -> None:
    """UserError if files of this kind cannot be written; to be called first, before time is spent on playing."""
    if path.suffix not in KINDS:
        raise UserError(f"cannot write {path}: unknown kind of file; allowed: {', '.join(KINDS)}")
    if path.suffix == ".mp4":
        _ffmpeg()


def write(path: Path, frames: Iterable[NDArray[np.uint8]], frames_per_second: float) -> int:
    """Write pictures [height, width, 3]; returns how many there were."""
    check_name(path)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".mp4":
            return _write_mp4(path, frames, frames_per_second)
        return _write_picture(path, frames, frames_per_second)


def _write_picture(path: Path, frames: Iterable[NDArray[np.uint8]], frames_per_second: float) -> int:
    from PIL import Image

    images = [Image.fromarray(frame) for frame in frames]
    options: dict[str, Any] = {"quality": 70} if path.suffix == ".webp" else {}
    duration = round(1000 / frames_per_second)
    images[0].save(path, save_all=True, append_images=images[1:], duration=duration, loop=0, **options)
    return len(images)


def _write_mp4(path: Path, frames: Iterable[NDArray[np.uint8]], frames_per_second: float) -> int:
    writer = None
    count = 0
    for frame in frames:
        if writer is None:
            height, width = frame.shape[:2]
            writer = _ffmpeg().write_frames(str(path), (width, height), fps=frames_per_second, macro_block_size=2)
            writer.send(None)
        writer.send(np.ascontiguousarray(frame))
        count += 1
    if writer is not None:
        writer.close()
    return count


def _ffmpeg() -> Any:
    advice = "MP4 needs the package imageio-ffmpeg: pip install imageio-ffmpeg, or write .webp"
    return optional_module("imageio_ffmpeg", advice)
