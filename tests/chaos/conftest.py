from tests.support.grounds import any_ground, durable_server, durable_url, ground

__all__ = ["any_ground", "durable_server", "durable_url", "ground"]
