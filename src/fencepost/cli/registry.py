"""What the registry's commands share: which file, which store, which tenant, and who asks."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fencepost import wiring
from fencepost.config.find import config_path
from fencepost.config.load import Config
from fencepost.config.value_kinds import check_name
from fencepost.model.errors import Invalid
from fencepost.model.ownership import FileId
from fencepost.operations.asked_by import actor_of
from fencepost.operations.run_queries import Store
from fencepost.operations.schedule_registry import file_id
from fencepost.operations.tenants import check_tenant
from fencepost.wiring import machine_facts, store_choice


class OpenStore(NamedTuple):
    """An open store, and in whose name it is spoken to."""

    url: str
    tenant: str
    actor: str
    store: Store


def common_options() -> argparse.ArgumentParser:
    """Return the options that every command of the registry takes."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", metavar="FILE", help="default: fencepost.toml, upwards from here")
    common.add_argument("--store", metavar="URL", help="sqlite:/path or postgresql://host/db; default: the file's")
    common.add_argument("--tenant", metavar="T", help="default: the file's, else 'default'")
    common.add_argument("--json", action="store_true", help="one JSON object per line")
    return common


def file_of(args: argparse.Namespace) -> str:
    """Return the configuration that the command line means."""
    named: str | None = getattr(args, "file", None) or args.config
    if named:
        if not os.path.isfile(named):
            raise Invalid(f"{named} is not a file.")
        return os.path.abspath(named)
    found = config_path(os.environ, os.getcwd())
    if not found:
        raise Invalid("there is no fencepost.toml here or above; write one with: fencepost init")
    return found


@contextmanager
def desk(args: argparse.Namespace, config: Config | None = None, *, url: str | None = None) -> Iterator[OpenStore]:
    """Open the registry for as long as the block lasts; `config` is the file that was read already, if one was."""
    if config:
        tenant = tenant_for(args, config)
        url = url or store_choice.store_of_config(args.store, config, tenant)
    else:
        if args.config:
            os.environ["FENCEPOST_CONFIG"] = file_of(args)
        tenant = store_choice.tenant_name(args.tenant)
        check_name(tenant)
        url = store_choice.existing_store(args.store, tenant)
    store = wiring.open_runtime(url)
    try:
        for notice in store.facts().notices:
            wiring.say(notice)
        if args.tenant and config is None:  # a tenant may begin with its first apply
            check_tenant(store, args.tenant)
        yield OpenStore(store.facts().url, tenant, actor(), store)
    finally:
        store.close()


def tenant_for(args: argparse.Namespace, config: Config) -> str:
    """Return whose registry a file's definitions go to."""
    tenant = args.tenant or os.environ.get("FENCEPOST_TENANT") or config.settings.tenant
    check_name(tenant)
    return str(tenant)


def this_file(config: Config) -> FileId:
    """Say which file this is, on this machine."""
    return file_id(config, machine_facts.this_machine())


def actor() -> str:
    """Say who asks: the run that we are inside of, or a person on a machine."""
    return actor_of(os.environ)
