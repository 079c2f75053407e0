from tests.support.grounds import any_ground, durable_server, durable_url

__all__ = ["any_ground", "durable_server", "durable_url"]
