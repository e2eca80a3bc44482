"""Manifests of a region by which nobody reads any more.

Their contents go, and their names stay. Writers commit by "create the next version, if it is absent", and
Lance looks for the newest from `version_hint.json` on, or from the first if it can't read that, until a
version is absent. So a name that is gone could be committed anew by whoever was stopped just before, and
whoever is led there by an old hint would take it for the newest.
"""

from __future__ import annotations

from collections.abc import Iterator

from memwal.regions.manifest import manifest_directory
from pipeline.cleaning.garbage import Garbage, Kept, Kind
from pipeline.cleaning.view import RegionView


def old_manifests(view: RegionView) -> Iterator[Garbage | Kept]:
    """Manifests that were not the newest at any time which can be asked for, nor follow one that was.

    The one that follows tells until when the one before was the newest.
    """
    history = view.history
    path = manifest_directory(view.region_id)
    run: list[int] = []
    shown = 0
    kept_for = ""
    # Whoever reads a time before all of them has to know that it is one.
    is_needed_before = view.base.past.showing(0, history.written[0]) is not None
    for at, version in enumerate(history.versions[:-1]):
        until = history.superseded_at(at)
        past = view.base.past.showing(history.written[at], until)
        is_needed = past is not None or until > view.now - view.policy.grace
        if past is not None and past != view.base.past.newest:
            shown, kept_for = shown + 1, past.described
        if is_needed or is_needed_before:
            yield from _garbage(view, path, run)
            run = []
        elif run and history.versions[run[-1]] != version - 1:
            yield from _garbage(view, path, run)
            run = [at]
        else:
            run.append(at)
        is_needed_before = is_needed
    yield from _garbage(view, path, run)
    if shown:
        why = f"{shown} manifests tell what was flushed when {kept_for} or an earlier one was the newest"
        yield Kept(Kind.MANIFESTS, path, why)


def _garbage(view: RegionView, path: str, run: list[int]) -> Iterator[Garbage]:
    if run:
        history = view.history
        size = sum(history.sizes[at] for at in run)
        first, last = history.versions[run[0]], history.versions[run[-1]]
        reason = "no version that is kept is read by it; its name stays"
        yield Garbage(Kind.MANIFESTS, path, size, reason, view.region_id, len(run), first, last)
