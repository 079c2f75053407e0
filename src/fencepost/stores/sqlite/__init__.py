"""The embedded store."""

import _collections_abc
import sys

# apsw asks for collections.abc, which alone is loaded already; its parent would be a tenth of the start-up of `exec`.
# So the parent is named while apsw is loaded, and later imports get the real one.
if "collections" not in sys.modules:
    sys.modules["collections"] = sys.modules["collections.abc"] = _collections_abc
    try:
        import apsw  # noqa: F401  # whether it is there
    finally:
        del sys.modules["collections"], sys.modules["collections.abc"]
