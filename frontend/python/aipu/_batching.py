"""Batches of inputs that arrive one by one: which may run together, how they are joined, and whose the results are.

Arrays by name either have the first axis of the model, which is that of the batch, or are one row without it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple, TypeVar

import numpy as np

T = TypeVar("T")
Feed = Mapping[str, np.ndarray]


def bucket(feed: Feed, has_batch_axis: bool) -> Tuple[Any, ...]:
    """What feeds that can be in one batch have in common: names, dtypes, and shapes but for the batch axis."""
    skip = int(has_batch_axis)
    return (skip, *((name, feed[name].dtype.str, feed[name].shape[skip:]) for name in sorted(feed)))


def batches(items: Iterable[T], rows: Callable[[T], int], most: int) -> Iterator[List[T]]:
    """The items in their order, in lists of at most ``most`` rows (0: any number); one that has more is alone."""
    batch: List[T] = []
    count = 0
    for item in items:
        more = rows(item)
        if batch and most and count + more > most:
            yield batch
            batch, count = [], 0
        batch.append(item)
        count += more
        if count == most:
            yield batch
            batch, count = [], 0
    if batch:
        yield batch


def joined(feeds: Sequence[Feed], has_batch_axis: bool, rows: int = 0) -> Dict[str, np.ndarray]:
    """One feed of those of a bucket, filled up with its last row to ``rows``."""
    found: Dict[str, np.ndarray] = {}
    for name in feeds[0]:
        parts = [feed[name] if has_batch_axis else feed[name][None] for feed in feeds]
        missing = rows - sum(map(len, parts))
        if missing > 0:
            parts += [parts[-1][-1:]] * missing
        found[name] = np.concatenate(parts) if len(parts) > 1 else parts[0]
    return found


def divided(results: Feed, counts: Sequence[int]) -> Iterator[Dict[str, np.ndarray]]:
    """The results of a batch by feed, of ``counts`` rows each; views."""
    at = 0
    for count in counts:
        yield {name: array[at : at + count] for name, array in results.items()}
        at += count
