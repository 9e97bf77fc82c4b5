"""Threads of the linear algebra library under NumPy."""

from contextlib import AbstractContextManager


def one_blas_thread() -> AbstractContextManager[object]:
    """Keep BLAS to one thread: the threads of small products spend their time waiting for one another."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415  looks through all libraries that are loaded

    return threadpool_limits(1, user_api="blas")
