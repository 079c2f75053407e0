from fencepost.host.clock import SystemClock


def test_each_clock_goes_forward() -> None:
    clock = SystemClock()

    for read in (clock.awake_ns, clock.boot_ns):
        assert read() <= read()


def test_the_wall_shows_microseconds_of_this_century() -> None:
    assert 1_700_000_000_000_000 < SystemClock().wall_us() < 4_100_000_000_000_000


def test_time_since_boot_counts_at_least_the_time_awake() -> None:
    clock = SystemClock()
    awake = clock.awake_ns()

    assert awake <= clock.boot_ns()


def test_waiting_takes_the_time_it_was_given() -> None:
    clock = SystemClock()
    before = clock.awake_ns()
    clock.sleep(0.01)

    assert clock.awake_ns() - before >= 10_000_000
