from tests.api.conftest import api, node

__all__ = ["api", "node"]
