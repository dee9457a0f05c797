"""The core of aipu.bench: what schedulers decide, players play and statistics say, exact in virtual time."""

import array
import heapq
import itertools
import math
import os

import numpy as np
import pytest
from aipu.bench import _machine, _measure, _play, _runner, _scenario, _scheduler, _statistics
from aipu.bench._scenario import Setting


def fixed(seconds):
    return lambda batch: seconds


def arrivals(*times):
    return array.array("d", times)


def test_poisson_arrivals():
    """Gaps are exponential and independent, counts of equal stretches have their mean as variance."""
    times = np.array(_scheduler.poisson(1000, 100, seed=3))
    gaps = np.diff(times)
    assert abs(len(times) - 100_000) < 4 * math.sqrt(100_000) and (gaps > 0).all() and times[-1] < 100
    assert gaps.mean() == pytest.approx(1e-3, rel=0.02) and gaps.std() == pytest.approx(1e-3, rel=0.02)
    # Kolmogorov and Smirnov's distance from the exponential distribution; 1.63 / sqrt(n) is the limit of 1 %.
    ranks = (np.arange(len(gaps)) + 0.5) / len(gaps)
    assert np.abs(1 - np.exp(-np.sort(gaps) / 1e-3) - ranks).max() < 1.63 / math.sqrt(len(gaps))
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 0.015
    counts = np.histogram(times, bins=2000, range=(0, 100))[0]
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.12)
    assert _scheduler.poisson(50, 2, 1) == _scheduler.poisson(50, 2, 1) != _scheduler.poisson(50, 2, 2)
    for rate, seconds in ((0, 1), (-1, 1), (0.5, 1), (1e8, 1)):
        with pytest.raises(ValueError, match="per second"):
            _scheduler.poisson(rate, seconds, 1)


@pytest.mark.parametrize(
    "scenario,sessions,batch,queries,rate",
    [("single-stream", 1, 1, 50, 500), ("multi-stream", 1, 8, 50, 4000), ("offline", 3, 4, 150, 6000)],
)
def test_closed_loops(scenario, sessions, batch, queries, rate):
    """A run of 2 ms: every latency is 2 ms, and throughput that of all sessions."""
    player = _play.VirtualPlayer(sessions, fixed(0.002))
    trial = _scenario.play(player, Setting(scenario, seconds=0.0999, batch=batch))
    assert len(trial.latencies) == queries and trial.samples == queries * batch
    np.testing.assert_allclose(trial.latencies, 0.002, rtol=1e-9)
    assert trial.samples_per_second == pytest.approx(rate) and trial.busy == pytest.approx(1)


def waiting_times(times, sessions, seconds):
    """Latencies of a queue that is served in order, by another way: the session that is free first takes the next."""
    free = [0.0] * sessions
    found = []
    for time, run in zip(times, seconds):
        end = max(time, heapq.heappop(free)) + run
        heapq.heappush(free, end)
        found.append(end - time)
    return found


@pytest.mark.parametrize("sessions", [1, 2, 5])
def test_server_is_the_queue(sessions):
    random = np.random.default_rng(sessions)
    times = _scheduler.poisson(90 * sessions, 20, seed=sessions)
    seconds = random.uniform(0.005, 0.015, len(times))
    scheduler = _scheduler.Arrivals(times, math.inf)
    record = _play.VirtualPlayer(sessions, lambda batch: seconds[batch.first]).play(scheduler)
    found = dict(zip(record.due, record.latencies))
    np.testing.assert_allclose(
        [found[time] for time in times], waiting_times(times, sessions, seconds), rtol=1e-9, atol=1e-12
    )
    assert scheduler.unfinished() == 0


def test_no_coordinated_omission():
    """A pause of a second in ten: a closed loop has one slow query, people who come at random have a tenth of them."""

    def seconds(batch):
        return 1.0 if batch.first == 1000 else 0.001

    closed = _scenario.play(_play.VirtualPlayer(1, seconds), Setting(seconds=10, percentile=99))
    assert (closed.latencies > 0.01).sum() == 1 and closed.latency(99) == pytest.approx(0.001)
    rate = 500
    open_ = _scenario.play(_play.VirtualPlayer(1, seconds), Setting("server", seconds=10, rate=rate))
    due = np.array(_scheduler.poisson(rate, 10, seed=1))
    pause = due[1000] + 1.0
    expected = ((due > due[1000]) & (due < pause)).sum()
    slow = (open_.latencies > 0.01).sum()
    assert 2.3 * expected > slow > 1.5 * expected > 600  # and those who come while the queue is not gone yet
    assert open_.latency(99) > 0.8


def test_dynamic_batching():
    """A batch begins when it is full, when its first query has waited for the delay, or when no more come."""
    times = arrivals(0.0, 0.001, 0.002, 0.004, 0.0041, 0.0042, 0.0043, 0.02, 0.021)
    scheduler = _scheduler.Arrivals(times, 1.0, most=4, delay=0.003)
    record = _play.VirtualPlayer(2, fixed(0.01)).play(scheduler)
    np.testing.assert_allclose(record.begins, [0.003, 0.0043, 0.021])
    assert list(record.samples) == [3, 4, 2]
    np.testing.assert_allclose(
        record.latencies, [0.013, 0.012, 0.011, 0.0103, 0.0102, 0.0101, 0.01, 0.011, 0.01], rtol=1e-9
    )
    # Without a delay whoever is there goes, and those who came meanwhile go together.
    record = _play.VirtualPlayer(1, fixed(0.01)).play(_scheduler.Arrivals(times, 1.0, most=4))
    assert list(record.samples) == [1, 4, 3, 1]  # who comes in the moment in which it is free is there


def test_an_overloaded_server_stops_at_its_time():
    setting = Setting("server", seconds=2, rate=1000)
    trial = _scenario.play(_play.VirtualPlayer(1, fixed(0.01)), setting)
    assert trial.seconds <= 2.1 + 0.01 and len(trial.latencies) == 210
    assert trial.unfinished == len(_scheduler.poisson(1000, 2, 1)) - 210
    assert trial.latency(99) == trial.latency(50) == math.inf and trial.latency(5) < 2.1
    measured = _measure.measure(_play.VirtualPlayer(1, fixed(0.01)), setting)
    assert len(measured.trials) == 1 and measured.notes[0].startswith("OVERLOADED: 1,")
    assert measured.figure.high == math.inf and measured.keeps_bound is None
    assert len(_play.VirtualPlayer(1, fixed(0.01)).play(setting.scheduler()).ends) == 210


def test_bounds_of_latency():
    player = _play.VirtualPlayer(1, fixed(0.01))
    kept = _measure.measure(player, Setting("server", seconds=5, rate=20, bound=0.05))
    assert kept.keeps_bound and not kept.unfinished
    assert not _measure.measure(player, Setting("server", seconds=5, rate=90, bound=0.02)).keeps_bound
    assert not _measure.measure(player, Setting("server", seconds=5, rate=900, bound=0.02)).keeps_bound


@pytest.mark.parametrize("sessions,batch", [(1, 1), (2, 1), (1, 8)])
def test_find_peak(sessions, batch):
    """The rate that is found keeps the bound, with other arrivals too, and 5 % more does not."""
    player = _play.VirtualPlayer(sessions, lambda one: 0.008 + 0.002 * one.samples)
    setting = Setting("server", seconds=30, bound=0.05, batch=batch)
    peak = _scenario.find_peak(player, setting)

    def latency(rate, repetition):
        return _scenario.play(player, Setting("server", seconds=30, batch=batch, rate=rate), repetition).latency(99)

    assert all(latency(peak.rate, repetition) <= 0.05 for repetition in range(1, 4))
    assert not all(latency(1.05 * peak.rate, repetition) <= 0.05 for repetition in range(4))
    assert len(peak.steps) < 40
    most = sessions * batch / (0.008 + 0.002 * batch)
    assert 0.5 * most < peak.rate < most
    with pytest.raises(ValueError, match="no rate keeps 5 ms at 99 %: a run of"):
        _scenario.find_peak(player, Setting("server", seconds=1, bound=0.005, batch=batch))


class Clock:
    """Time that passes when somebody sleeps or runs."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += max(seconds, 1e-6)  # a clock that stood still would be waited for for ever


@pytest.mark.parametrize(
    "setting",
    [
        Setting(seconds=0.5),
        Setting("server", seconds=3, rate=60),
        Setting("server", seconds=3, rate=200, batch=4, delay=0.01),
        Setting("server", seconds=1, rate=1000),
    ],
)
def test_real_players_do_what_virtual_ones_do(setting):
    """With a clock that is ours, sessions in real time give the same record."""
    random = np.random.default_rng(1)
    seconds = random.uniform(0.005, 0.02, 5000)
    clock = Clock()

    def run(batch):
        clock.now += seconds[batch.first]

    real = _play.RealPlayer([run], clock, clock.sleep).play(setting.scheduler())
    virtual = _play.VirtualPlayer(1, lambda batch: seconds[batch.first]).play(setting.scheduler())
    assert list(real.samples) == list(virtual.samples)
    np.testing.assert_allclose(real.latencies, virtual.latencies, atol=3e-6)
    np.testing.assert_allclose(real.begins, virtual.begins, atol=3e-6)


def test_sessions_play_side_by_side():
    """All sessions take part, each query is answered once, and an error of one ends it."""
    import threading

    together = threading.Barrier(3, timeout=60)
    played = [[], [], []]

    def session(number):
        def run(batch):
            if len(played[number]) == 0:
                together.wait()  # none ends before each has begun
            played[number].append(batch.first)

        return run

    player = _play.RealPlayer([session(number) for number in range(3)])
    record = player.play(_scheduler.OneAfterTheOther(60, samples=2, most=300))
    assert sorted(itertools.chain(*played)) == list(range(300)) and all(played)
    assert len(record.ends) == 300 and sum(record.samples) == 600

    def fails(batch):
        raise ValueError("broken sample")

    with pytest.raises(ValueError, match="broken sample"):
        _play.RealPlayer([fails, fails]).play(_scheduler.OneAfterTheOther(60))


def test_warm_up_ends_when_it_is_steady():
    """A run takes 10 ms longer at first, and less and less."""
    runs = itertools.count()
    player = _play.VirtualPlayer(1, lambda batch: 0.001 + 0.01 * 0.99 ** next(runs))
    warm = _measure.warm_up(player, Setting())
    assert warm.is_steady and warm.run_seconds < 0.0013 and warm.seconds < 4
    assert 0.01 * 0.99**warm.runs < 2e-4
    steady = _measure.warm_up(_play.VirtualPlayer(1, fixed(0.001)), Setting())
    assert steady.is_steady and steady.seconds == pytest.approx(0.3, abs=0.01)
    random = np.random.default_rng(2)
    wild = _play.VirtualPlayer(1, lambda batch: 0.05 * random.lognormal(0, 1.5))
    assert not _measure.warm_up(wild, Setting()).is_steady
    measured = _measure.measure(wild, Setting(), most=6)
    assert any("not steady" in note for note in measured.notes) and len(measured.trials) == 6
    assert any("wider than asked for" in note for note in measured.notes)


def test_repetitions_until_it_is_precise():
    random = np.random.default_rng(4)

    def noisy(sigma):
        return _play.VirtualPlayer(1, lambda batch: 0.001 * random.lognormal(0, sigma))

    exact = _measure.measure(_play.VirtualPlayer(1, fixed(0.001)), Setting(seconds=0.1))
    assert len(exact.trials) == 5 and exact.figure.low == exact.figure.high == pytest.approx(0.001)
    assert exact.throughput.value == pytest.approx(1000) and exact.notes == []
    rough = _measure.measure(noisy(0.3), Setting(seconds=0.05), precision=0.5)
    fine = _measure.measure(noisy(0.3), Setting(seconds=0.05), precision=0.01, most=25)
    assert len(rough.trials) == 5 and 5 < len(fine.trials) <= 25
    assert fine.figure.low <= 0.001 * math.exp(0.3 * 1.2816) <= fine.figure.high  # the 90th percentile of the noise


def test_percentiles_are_nearest_ranks():
    values = np.arange(1, 101) / 1000
    trial = _scenario.Trial(1, 100, values, values, 1.0)
    assert [trial.latency(p) for p in (0, 1, 50, 99, 100)] == [0.001, 0.001, 0.05, 0.099, 0.1]
    trial.unfinished = 100  # as many again never came
    assert trial.latency(50) == 0.1 and trial.latency(25) == 0.05 and trial.latency(50.1) == math.inf
    assert math.isnan(_scenario.Trial(1, 0, np.zeros(0), np.zeros(0), 1.0).latency(50))


def test_histograms_add_up():
    random = np.random.default_rng(1)
    first, second = random.lognormal(-7, 1, 5000), random.lognormal(-6, 0.2, 3000)
    both = _statistics.Histogram()
    both.add(first)
    other = _statistics.Histogram()
    other.add(second, unfinished=80)
    both.join(_statistics.Histogram.of(other.told()))
    values = np.concatenate([first, second, np.full(80, math.inf)])
    for p in (1, 50, 90, 98):
        assert both.percentile(p) == pytest.approx(_statistics.percentile(values, p), rel=0.01)
    assert both.percentile(99.5) == math.inf and sum(both.counts.values()) == 8000
    assert math.isnan(_statistics.Histogram().percentile(50))


def test_rank_sums_are_exact():
    """The numbers of orders, counted; and intervals against the test turned around."""
    for first, second in ((2, 3), (4, 4), (1, 5)):
        counts = [0] * (first * second + 1)
        for chosen in itertools.combinations(range(first + second), first):
            others = [place for place in range(first + second) if place not in chosen]
            counts[sum(a > b for a in chosen for b in others)] += 1
        assert list(_statistics._rank_sum_counts(first, second)) == counts
    assert [_statistics.fewest_processes(alpha) for alpha in (0.05, 0.01, 0.001)] == [4, 5, 7]
    found = _statistics.shift([1, 2, 4, 8, 16], [1.5, 3, 6, 12, 24])
    assert found.ratio == pytest.approx(1.5) and not found.is_different
    assert _statistics.shift([1, 1.01, 1.02, 1.03, 1.04], [2, 2.01, 2.02, 2.03, 2.04]).is_different
    assert _statistics.shift([1] * 5, [1] * 5) == (1, 1, 1) and not _statistics.shift([1] * 5, [1] * 5).is_different
    with pytest.raises(ValueError, match="--processes 5 or more"):
        _statistics.shift([1, 2, 3], [1, 2, 3])


def test_intervals_of_shifts_hold_what_they_say():
    random = np.random.default_rng(6)
    inside = 0
    for _ in range(1000):
        before, after = random.lognormal(0, 0.1, 8), 1.2 * random.lognormal(0, 0.1, 8)
        found = _statistics.shift(before, after, alpha=0.05)
        inside += found.low <= 1.2 <= found.high
    assert 0.94 <= inside / 1000 <= 0.985  # the test has steps: 95.0 % at least, here 95.8


def machine_files(root, steal, throttled, khz, load):
    texts = {
        "proc/stat": f"cpu  1000 0 500 {8000 + 10 * steal} 0 0 0 {steal}\n",
        "proc/loadavg": f"{load} 0 0 1/100 1\n",
        "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": f"{throttled}\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": f"{khz}\n",
    }
    for name, text in texts.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)


def test_what_disturbs_is_noticed(tmp_path):
    root = str(tmp_path)
    machine_files(root, 0, 3, 3_000_000, 0.5)
    quiet = _machine.Quiet(root)
    assert quiet.notes() == []
    machine_files(root, 100, 5, 2_000_000, 99.0)
    steal, throttled, clock, load = quiet.notes()
    assert "9.1 % of the CPUs' time (steal)" in steal and "throttled 2 times" in throttled
    assert "from 3.00 to 2.00 GHz" in clock and "load average 99.0" in load
    assert _machine.Quiet(str(tmp_path / "nothing")).notes() == []


def test_cores():
    assert _machine.cores_of("0,2-4\n") == [0, 2, 3, 4]
    with pytest.raises(ValueError, match="expected cores such as"):
        _machine.cores_of("all")
    with pytest.raises(ValueError, match="no NUMA node 4711"):
        _machine.pin(node=4711)
    with pytest.raises(ValueError, match="cores 4000"):
        _machine.pin("4000")


def test_samples_lie_side_by_side():
    """A batch is a view of what is in memory; batches go around; the same place is bound once."""
    feeds = [{"x": np.full((1, 2), float(number))} for number in range(5)]
    samples = _runner.Samples(feeds, 3)
    closed, open_ = _scheduler.Batch(3, (0.0,), 3), _scheduler.Batch(4, (0.0, 0.1), 2)
    assert samples.place(closed) == (4, 3) and samples.place(open_) == (4, 2)
    np.testing.assert_array_equal(samples.feed((4, 3))["x"][:, 0], [4, 0, 1])
    assert np.shares_memory(samples.feed((4, 3))["x"], samples.feed((0, 2))["x"]) is False
    assert np.shares_memory(samples.feed((1, 3))["x"], samples.feed((2, 1))["x"])
    assert samples.shapes == [("x", "float64", [3, 2])]
    random = _runner.Samples([{"x": np.zeros((4, 2))}], 4, is_random=True)
    assert random.place(closed) == (0, 3) and random.feed((0, 3))["x"].shape == (3, 2)
    with pytest.raises(ValueError, match="give --batch 1"):
        _runner.Samples([{"x": np.zeros((1, 2))}, {"x": np.zeros((1, 3))}], 2)
    _runner.Samples([{"x": np.zeros((1, 2))}, {"x": np.zeros((1, 3))}], 1)
