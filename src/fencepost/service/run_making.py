"""From a run to its claim, and from its lease to the order that a guard gets: all that is known on this host alone.

None of it is done while the store's lock is held.
"""

import os
from collections.abc import Mapping
from threading import Thread

from fencepost.flow.run_recheck import claim_for, understood
from fencepost.host import cgroup
from fencepost.host.log_files import log_path
from fencepost.host.project_identity import merge_gate
from fencepost.model.budget import parse_usd
from fencepost.model.definition import AgentDefinition, agent_from_json, gate_targets, hash_of, timeouts_of
from fencepost.model.errors import FencepostError, Misconfigured
from fencepost.model.lease import Claim
from fencepost.model.process import ProcessId
from fencepost.model.project import Project
from fencepost.model.secret_rights import variables_in
from fencepost.model.target import is_target, parse_target
from fencepost.ports.engine import Setting
from fencepost.ports.runs import LeasedRun, RunRow
from fencepost.service.agent_environment import build_environment, checkpoint_file, payload_file
from fencepost.service.agent_secrets import given_to
from fencepost.service.git_push_route import led_to_gates
from fencepost.service.model_gate_setup import lead
from fencepost.service.run_folder import PAYLOAD, plan_run_folder
from fencepost.service.run_order import Additions, RunOrder
from fencepost.service.wire import spell
from fencepost.service.worker_tools import WorkerTools

PLAIN_ENGINES = ("command", "python")  # their output is only kept
SPELL_SECONDS = 2.0  # a gate on a dead mount is given up for this look


class OverBudgetError(FencepostError):
    """Earlier attempts have spent what one run may cost."""


class Making:
    """Makes claims and orders."""

    def __init__(self, bench: WorkerTools) -> None:
        self._bench, self._tools = bench, bench.tools
        self._spelled: dict[tuple[str, str], str] = {}  # by target and tenant

    def claim(self, run: RunRow, guard: ProcessId, *, keeper: str, adopt_key: str, socket: str) -> Claim | None:
        """Claim what the run wants and its project; None if it works in one that is not here, or speaks of news."""
        if not understood(run):
            return None
        agent = agent_from_json(run.manifest)
        project = self._project(run, agent)
        gates = self._gates(agent, run.tenant)
        if gates is None or (agent.project and project is None) or not self._is_led(agent):
            return None
        lease_id = os.urandom(16).hex()
        shared = project if project and not project.isolates(run.trigger) else None
        return claim_for(
            run,
            lease_id=lease_id,
            supervisor=guard,
            guard=guard,
            cgroup=cgroup.plan(run.id, lease_id),
            ttl_seconds=self._bench.ttl_seconds,
            gates=(*gates, *_merge_gates(project, run.trigger)),
            label=run.schedule or run.agent,
            also=(shared.resource,) if shared else (),
            slots=shared.slots if shared else 1,
        )._replace(keeper=keeper, adopt_key=adopt_key, keeper_socket=socket)

    def is_plain(self, run: RunRow) -> bool:
        """Tell whether a guard without skills can carry a run out, by what is known before it is leased."""
        agent = agent_from_json(run.manifest)
        project = self._project(run, agent)
        apart = project is not None and project.isolates(run.trigger)
        tried = run.attempt > 0  # something of an earlier attempt may be left to be ended first
        return agent.engine in PLAIN_ENGINES and not (gate_targets(agent) or agent.model_gate or apart or tried)

    def order(self, leased: LeasedRun) -> RunOrder:
        """Return what a guard needs to carry a run out, or raise why it cannot be."""
        run, agent = leased.run, agent_from_json(leased.run.manifest)
        if hash_of(run.manifest) != run.manifest_hash:
            raise Misconfigured("the manifest is not the one that was applied.")
        left_micro = _left_micro(run, agent)
        if run.cost_micro and left_micro == 0:
            raise OverBudgetError(f"run {run.id} has spent what it may cost.")
        given = given_to(agent, run.tenant, self._bench.rights, os.environ)
        folder, key = plan_run_folder(run.id, leased.lease.fence), os.urandom(24).hex()
        led = lead(agent, run, self._bench.model_gate, key=given.model_key, budget_micro=left_micro, folder=folder.path)
        launch = self._bench.engine_of(agent.engine).launch(led.agent, run, Setting(folder.path, leased.session))
        project = self._project(run, agent)
        gates = dict(zip(agent.gates, self._gates(agent, run.tenant) or (), strict=False))
        env = led.applied(build_environment(os.environ, agent, given, run, leased.lease, folder=folder, key=key))
        preset = str(agent.options.get("preset", ""))
        added = Additions(
            launch.manner,
            predecessors=leased.predecessors,
            apart=project if project and project.isolates(run.trigger) else None,
            gate_env=_referenced((*leased.lease.gates, *gates.values()), os.environ),
            so_far=leased.so_far,
            budget_micro=left_micro,
            model=led.order,
        )
        is_plain = not (added.manner or leased.lease.gates or added.predecessors or added.apart or added.model)
        return RunOrder(
            leased.lease,
            launch.argv,
            {**led_to_gates(env, leased.lease.gates, run.tenant, self._tools, preset), **launch.env},
            folder=folder.path,
            workdir=project.path if project else self._bench.folder,
            files={PAYLOAD: payload_file(run), **checkpoint_file(leased), **dict(launch.files), **led.files},
            stdin=run.payload if launch.stdin is None else launch.stdin,
            log=log_path(self._bench.log_folder, run.id, leased.lease.fence),
            log_max=agent.log_max,
            key=key,
            limits=timeouts_of(agent).in_seconds(),
            secrets=(*given.secrets.values(), *([given.model_key] if given.model_key else [])),
            cgroup=cgroup.plan(run.id, leased.lease.id),
            gates=gates,
            checkpoint=leased.checkpoint,
            session=launch.session,
            additions=None if is_plain else spell(added),
        )

    def _is_led(self, agent: AgentDefinition) -> bool:
        """Tell whether the model gate is there, if the agent needs it; it is started, and the run waits a little."""
        gate = self._bench.model_gate
        return not agent.model_gate or gate is None or gate.port() is not None or bool(gate.trouble)

    def _project(self, run: RunRow, agent: AgentDefinition) -> Project | None:
        return self._bench.grounds.find(run.tenant, agent.project) if agent.project else None

    def _gates(self, agent: AgentDefinition, tenant: str) -> tuple[str, ...] | None:
        """Spell each gate the one canonical way; None while one of them cannot be looked at.

        A gate that this worker does not know is refused at its raise.
        """
        targets = gate_targets(agent)
        for target in targets:
            if (target, tenant) not in self._spelled and not self._spell(target, tenant):
                return None
        return tuple(self._spelled[target, tenant] for target in targets)

    def _spell(self, target: str, tenant: str) -> bool:
        """Look where a gate leads, which may hang on a dead mount: then not we hang, but a thread."""

        def look() -> None:
            try:
                self._spelled[target, tenant] = self._tools.open_gate(target, tenant).target
            except FencepostError:
                self._spelled[target, tenant] = target

        looking = Thread(target=look, daemon=True)
        looking.start()
        looking.join(SPELL_SECONDS)
        return (target, tenant) in self._spelled

    def forget_spellings(self) -> None:
        """Look again where gates lead: files move."""
        self._spelled.clear()


def _merge_gates(project: Project | None, trigger: str) -> tuple[str, ...]:
    """Keep an earlier attempt from merging once this one has started, whether this one will merge or not."""
    if project is None or not project.isolates(trigger) or project.merge == "keep":
        return ()
    gate = merge_gate(project.path)
    return (gate,) if gate else ()


def _left_micro(run: RunRow, agent: AgentDefinition) -> int | None:
    """Return what the run may still cost; None: any amount."""
    if not agent.budget_usd:
        return None
    return max(0, parse_usd(agent.budget_usd) - (run.cost_micro or 0))


def _referenced(gates: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that gates refer to: a guard has none of the worker's, and opens gates by the same rules."""
    names = {name for gate in gates if is_target(gate) for name in variables_in(parse_target(gate))}
    return {name: environ[name] for name in names if name in environ}
