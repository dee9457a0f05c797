"""Batches of inputs that arrive one by one."""

import numpy as np
from aipu import _batching


def feed(rows, extent=3, dtype=np.float32):
    return {"x": np.full((rows, extent), rows, dtype), "i": np.full(rows, rows, np.int64)}


def test_buckets():
    same = _batching.bucket(feed(2), True)
    assert _batching.bucket(feed(5), True) == same  # the batch axis does not count
    assert _batching.bucket(dict(reversed(feed(2).items())), True) == same
    others = [feed(2, extent=4), feed(2, dtype=np.float64), {"x": feed(2)["x"]}]
    assert all(_batching.bucket(other, True) != same for other in others)
    assert _batching.bucket(feed(2), False) != _batching.bucket(feed(5), False)
    assert _batching.bucket({"x": np.zeros((2, 3))}, True) != _batching.bucket({"x": np.zeros(3)}, False)


def test_batches_keep_the_order_and_the_size():
    def of(sizes, most):
        return list(_batching.batches(sizes, lambda size: size, most))

    assert of([1, 1, 1, 1, 1], 2) == [[1, 1], [1, 1], [1]]
    assert of([2, 1, 3, 9, 1], 4) == [[2, 1], [3], [9], [1]]
    assert of([2, 9, 1], 0) == [[2, 9, 1]] and of([], 4) == []


def test_a_full_batch_does_not_wait_for_the_next_item():
    def items():
        yield 1
        yield 1
        raise AssertionError("asked for a third")

    assert next(_batching.batches(items(), lambda size: size, 2)) == [1, 1]


def test_what_is_joined_is_divided_again():
    feeds = [feed(2), feed(1), feed(3)]
    together = _batching.joined(feeds, True, rows=8)
    assert together["x"].shape == (8, 3) and list(together["i"]) == [2, 2, 1, 3, 3, 3, 3, 3]
    for one, part in zip(feeds, _batching.divided(together, [2, 1, 3])):
        np.testing.assert_array_equal(part["x"], one["x"])
    rows = _batching.joined([{"x": np.zeros(3)}, {"x": np.ones(3)}], False)
    np.testing.assert_array_equal(rows["x"], [[0, 0, 0], [1, 1, 1]])
    alone = feed(2)
    assert _batching.joined([alone], True)["x"] is alone["x"]  # not copied
