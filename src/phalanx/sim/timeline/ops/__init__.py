"""What instructions cost, by family; importing this registers all of them."""

from importlib import import_module
from pkgutil import iter_modules

for _family in sorted(module.name for module in iter_modules(__path__)):
    import_module(f"{__name__}.{_family}")
