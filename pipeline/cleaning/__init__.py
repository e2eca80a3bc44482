"""What nobody needs any more: the specification's garbage collector.

What is asked for, and what is told

- `policy`: what may be removed, and for how long readers are waited for.
- `garbage`: what was found, what has to wait, and why; `job`: a table looked through, and cleaned.

What readers may still ask for

- `past`: versions of the base table that are kept, and what each of them needs.
- `base`: what the newest version has merged and indexed; `history`: manifests of a region by time.
- `view`: all of it, of one region at one moment.

Rules, one kind of garbage each

- `versions`: of the base table.
- `generations`: that are merged but listed; `directories`: of generations that no manifest lists.
- `log`: entries whose rows are flushed and merged, but for those that fence off former writers.
- `manifests`: of regions, whose names stay.
- `leftovers`: drafts, records of former owners, markers of batches.

- `finding`: all rules; `removing`: what was found, looked at once more.
"""

from pipeline.cleaning.garbage import CleanReport, Found, Garbage, Kept, Kind
from pipeline.cleaning.job import clean, find, remove
from pipeline.cleaning.policy import CleanPolicy

__all__ = ["CleanPolicy", "CleanReport", "Found", "Garbage", "Kept", "Kind", "clean", "find", "remove"]
