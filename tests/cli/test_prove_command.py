"""`fencepost prove`: the verdict first, the sums last, and an exit code for scripts."""

from tests.support.desk import Desk

SUMS = ("owed", "accounted", "pending", "missing", "doubled")


def test_a_sound_store_proves_itself(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")
    desk.tick("2026-03-27T20:30:00Z")

    lines = desk.text("prove").splitlines()

    assert lines == ["every owed tick is accounted for", "owed 8  accounted 8  pending 0  missing 0  doubled 0"]
    nightly, sums = desk.json("prove")
    assert nightly["schedule"] == "nightly"
    assert sums == {"owed": 8, "accounted": 8, "pending": 0, "missing": 0, "doubled": 0}
    assert tuple(sums) == SUMS


def test_what_nobody_has_decided_yet_is_pending_with_the_cursors_age(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")
    desk.clock.go_to("2026-03-27T15:30:00Z")

    text = desk.text("prove")

    assert "pending: nightly has 2 due beyond its cursor, which is 2h29m old" in text
    assert desk.json("prove")[-1]["pending"] == 2


def test_a_lost_record_is_found_and_exits_1(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")
    desk.store.dialect.write(lambda tx: tx.tables().clear("tick"))

    told = desk.cli("prove")

    assert told.code == 1
    assert told.out.decode().startswith("not every owed tick is accounted for\n")
    assert "nightly: missing" in told.out.decode()


def test_a_window_and_a_schedule_narrow_it(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T20:30:00Z")

    sums = desk.json("prove", "--schedule", "nightly", "--from", "2026-03-27T14:00", "--until", "2026-03-27T16:00")[-1]

    assert sums["owed"] == 2
    assert desk.cli("prove", "--schedule", "nigthly").code == 2
    assert desk.cli("prove", "--from", "2026-03-28", "--until", "2026-03-27").code == 2
