"""Threads of a worker that report its death at once, and end it with its parent.

The kernel frees the memory of a killed process, which takes tens of milliseconds with a model loaded, and only then
closes its descriptors. A thread with a descriptor table of its own closes it as soon as that thread has ended. The last
thread to end is the one that frees the memory, so there are two sentinels: at least one of them isn't the last.
"""

import ctypes
import os
import select
import threading

SENTINELS = 2
_CLONE_FILES = 0x400
_MOST_DESCRIPTORS = 1 << 20


def post_sentinels(connection: int, held: tuple[int, ...]) -> None:
    """Start a thread for each descriptor in ``held``; the other end sees it closed when the thread ends.

    All of them end this process when the parent closes ``connection``, whatever a model is doing.
    """
    for one in held:
        apart = threading.Event()
        threading.Thread(target=_stand, args=(connection, one, apart), daemon=True).start()
        apart.wait()
        os.close(one)


def _stand(connection: int, held: int, apart: threading.Event) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_FILES) == 0:
        low, high = sorted((connection, held))
        os.closerange(0, low)
        os.closerange(low + 1, high)
        os.closerange(high + 1, _MOST_DESCRIPTORS)
    else:  # forbidden here: deaths are noticed when the connection closes
        held = os.dup(held)
    apart.set()
    hung_up = select.poll()
    hung_up.register(connection, 0)
    hung_up.poll()
    os._exit(0)
