"""What can go wrong, as values: each error has a stable code, an exit code, and a message that says what to do.

FencepostError
├── Invalid             the caller wrote something that cannot work (exit 2)
│   ├── Unknown             it names something that is not there (exit 2)
│   └── Rollback            a file as it was before its last version: going back has to be said aloud (exit 2)
├── Unauthorised        a request without a valid signature or key (exit 77)
│   └── Unverifiable        not to be told: the secret is not usable here; only the operator hears why (exit 77)
├── Misconfigured       found at run time: a setting, a gate or a file is not usable (exit 78)
│   ├── GateUnreachable     a gate did not answer; trying again later may help (exit 78)
│   └── Withheld            it is not for this tenant; nothing was handed over (exit 78)
├── StoreUnavailable    the store cannot be reached or cannot be trusted (exit 69)
├── Busy                another holder has the resource (exit 75)
│   ├── Outdated            what was to be changed is not what the caller has seen (exit 75)
│   ├── KeyReused           its key stands for another request (exit 75)
│   └── QueueFull           as many wait as may: nothing was accepted, come back later (exit 75)
├── LeaseLost           the resource was leased again, or the lease ran out (exit 76)
│   └── LeaseMoved          another worker keeps it now: its run goes on (exit 76)
├── FenceRefused        a gate has seen a newer fence (exit 77)
├── FenceRegress        a gate has seen a fence that this store has not given out yet (exit 78)
├── AuditCut            the store has lost seals of the audit that this machine knows of (exit 78)
├── InDoubt             it is not known whether an effect took place: for a person, never blindly again (exit 77)
└── RunDiverged         a restarted run wants another effect than before, which is unexplained (exit 77)
"""


class FencepostError(Exception):
    """Anything that Fencepost says on purpose."""

    code = "error"
    exit_code = 1


class Invalid(FencepostError):
    """What was asked cannot work; the message says what, where, why and how to fix it."""

    code = "invalid"
    exit_code = 2


class Unknown(Invalid):
    """There is nothing of that name; the message says what is near, or where to look."""

    code = "unknown"


class Rollback(Invalid):
    """A later version of the file is in force; to go back, the caller has to say so."""

    code = "rollback"


class Unauthorised(FencepostError):
    """The caller has not proved who it is; nothing was changed."""

    code = "unauthorised"
    exit_code = 77


class Unverifiable(Unauthorised):
    """A signature that cannot be checked here. The caller may be a stranger, and gets the same answer as every stranger."""

    def __init__(self, message: str, *, why: str) -> None:
        super().__init__(message)
        self.why = why  # for the operator


class Misconfigured(FencepostError):
    """A setting that looked fine turned out unusable when it was needed."""

    code = "misconfigured"
    exit_code = 78


class GateUnreachable(Misconfigured):
    """A gate did not answer, or is held: until it answers, no agent starts; later one may."""

    code = "gate_unreachable"


class Withheld(Misconfigured):
    """What a reference means is not for the tenant that asks; the message says who can change that, and where."""


class StoreUnavailable(FencepostError):
    """The store did not answer, or answered in a way that we must not build on."""

    code = "store_unavailable"
    exit_code = 69


class Busy(FencepostError):
    """Another holder has it; waiting or coming back later helps."""

    code = "busy"
    exit_code = 75


class QueueFull(Busy):
    """As many wait already as may; nothing was accepted."""

    code = "queue_full"


class Outdated(Busy):
    """It was changed since; look again, then change it."""

    code = "outdated"


class KeyReused(Busy):
    """A key that stands for one request came with another."""

    code = "key_reused"


class LeaseLost(FencepostError):
    """The lease is no longer yours: stop, and write nothing more."""

    code = "lease_lost"
    exit_code = 76


class LeaseMoved(LeaseLost):
    """Another worker has adopted the lease, and its run goes on: forget it, and never end its processes."""

    code = "lease_moved"


class FenceRefused(FencepostError):
    """A gate has seen a newer fence than yours: nothing was written, and trying again cannot help."""

    code = "fence_refused"
    exit_code = 77


class SupervisorSilent(FenceRefused):
    """The supervisor of this run does not answer, so its lease may be lost: refused."""


class FenceRegress(FencepostError):
    """A gate has seen a fence above the newest one of its own store: the store went back in time."""

    code = "fence_regress"
    exit_code = 78


class AuditCut(FencepostError):
    """The store no longer has the newest seal of the audit that this machine remembers."""

    code = "audit_cut"
    exit_code = 78


class InDoubt(FencepostError):
    """The ledger has begun this effect and has no answer: a person or a probe must say whether it took place."""

    code = "ambiguous"
    exit_code = 77


class RunDiverged(FencepostError):
    """A restarted run wants an effect that it did not want before, while earlier ones were not asked for again."""

    code = "diverged"
    exit_code = 77


def error_named(code: str) -> type[FencepostError]:
    """Return the kind of error that a code stands for; one that only a newer program knows is just an error."""
    kinds = [FencepostError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return next((kind for kind in kinds if kind.code == code), FencepostError)
