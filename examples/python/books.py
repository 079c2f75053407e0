"""Two schedules in a Python program. Start it with `python books.py`."""

import json
from pathlib import Path

from fencepost import Done, Fencepost, NotDone, RunContext

HERE = Path(__file__).parent
app = Fencepost(timezone="Europe/Berlin")
app.gate("report", kind="file", path="report.json")


@app.schedule(cron="0 2 1 * *", gates=["report"], timeout="1h", on_lost="resume")
def close_books(run: RunContext) -> None:
    """Close the month: send the invoice once, whatever happens to this run, and publish a report through the gate."""
    month = str(run.payload.get("month") or (run.period[0] or run.tick or "open"))[:7]
    number = run.once(f"invoice-{month}", lambda: send_invoice(month), probe=lambda: find_invoice(month))
    run.checkpoint = {"invoice": number}
    run.gate("report").write(json.dumps({"month": month, "invoice": number}).encode())


@app.schedule(every="15m", writes=False)
async def sweep(run: RunContext) -> None:
    """Look around; async functions are awaited."""
    run.progress("swept")


def send_invoice(month: str) -> str:
    """Send it, and return its number."""
    with (HERE / "sent.txt").open("a") as sent:
        sent.write(f"{month}\n")
    return f"INV-{month}"


def find_invoice(month: str) -> Done | NotDone:
    """Look whether it was sent, when a run died half-way."""
    sent = HERE / "sent.txt"
    was_sent = sent.exists() and month in sent.read_text().split()
    return Done(f"INV-{month}") if was_sent else NotDone()


if __name__ == "__main__":
    app.up()
