"""Recognises out-of-memory errors of Python, numpy, torch, its allocators, C++ and GPUs."""

_WORDS = (
    "can't allocate memory",
    "cannot allocate memory",
    "out of memory",
    "memoryerror",
    "bad_alloc",
    "_alloc_failed",  # cuBLAS, cuDNN: CUBLAS_STATUS_ALLOC_FAILED
    "erroroutofmemory",  # HIP
    "cudaerrormemoryallocation",
    "out_of_device_memory",  # Level Zero
    "out_of_host_memory",
)


def says_out_of_memory(text: str) -> bool:
    """True if the message is about running out of memory."""
    return any(words in text.lower() for words in _WORDS)


def is_out_of_memory(error: BaseException) -> bool:
    """True if an error, or its cause, is about running out of memory."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or says_out_of_memory(f"{type(cause).__name__}: {cause}"):
            return True
        cause = cause.__cause__
    return False
