from tests.support.grounds import ground

__all__ = ["ground"]
