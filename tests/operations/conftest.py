from tests.support.desk import desk

__all__ = ["desk"]
