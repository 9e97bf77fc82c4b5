"""Run every benchmark: ``python -m benchmarks [name ...]``."""

import importlib
import pkgutil
import sys

import benchmarks

if __name__ == "__main__":  # processes that a benchmark starts import this file
    names = sys.argv[1:] or [
        found.name for found in pkgutil.iter_modules(benchmarks.__path__) if found.name.startswith("bench_")
    ]
    for name in names:
        module = importlib.import_module(f"benchmarks.{name if name.startswith('bench_') else f'bench_{name}'}")
        print(f"# {name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        module.main()
