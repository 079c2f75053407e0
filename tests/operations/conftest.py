from tests.support.desk import desk
from tests.support.runtimes import any_runtime as runtime
from tests.support.runtimes import url

__all__ = ["desk", "runtime", "url"]
