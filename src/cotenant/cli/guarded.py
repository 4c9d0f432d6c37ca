"""Run the work in a child process, so that a library that ends its process can't end a command without a message.

A database that fails inside a destructor, an interpreter without memory and the kernel's out-of-memory killer all end
a process immediately. The parent, which has only parsed the command line, sleeps, forwards signals, and reports what
happened.
"""

import os
import signal
import sys
from collections.abc import Callable

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_SENT_BY_A_PROCESS = 0
"""The largest exit code. A terminal's Ctrl-C comes from the kernel, which sends it to the child as well."""
NEARLY = 0.75


def guarded(work: Callable[[], int]) -> int:
    """Call `work` in a child; return its exit code, or 1 after a message if something ended the child."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    try:
        parent, child = os.getpid(), os.fork()
    except OSError:  # can't fork: run it here
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return work()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _depend_on(parent)
        return work()
    status = _watched(child)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return status if status >= 0 else _ended_by(signal.Signals(-status))


def _watched(child: int) -> int:
    """The exit code of a child, or minus the number of the signal that ended it."""
    while True:
        came = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
        if came.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        elif came.si_code <= _SENT_BY_A_PROCESS:
            os.kill(child, came.si_signo)


def _depend_on(parent: int) -> None:
    """Die with the parent, however it ends; and leave the message for a failed library to it."""
    if sys.platform != "linux":
        return
    import ctypes

    process = ctypes.CDLL(None)
    process.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    if not os.environ.get("COTENANT_DEBUG"):
        try:
            set_terminate = ctypes.CDLL("libstdc++.so.6")["_ZSt13set_terminatePFvvE"]  # std::set_terminate
        except (OSError, AttributeError):
            return  # otherwise C++ prints its own line as well
        set_terminate(process.abort)


def _ended_by(number: signal.Signals) -> int:
    from cotenant.cli.failures import Failure, tell
    from cotenant.cli.output import Exit

    if number in _PASSED_ON:
        return 128 + number
    if number == signal.SIGXCPU or (number == signal.SIGKILL and _used_up_its_time()):
        tell(Failure("the limit of CPU time (ulimit -t) was reached.", hint="raise the limit"))
        return Exit.ERROR
    if number == signal.SIGKILL:
        tell(
            Failure(
                "the process was killed from outside, most likely by the system because memory ran out.",
                hint="look for `out of memory` in the kernel's log (dmesg); close other programs or raise the limit",
            )
        )
        return Exit.ERROR
    tell(
        Failure(
            f"a library ended the process ({number.name}), as libraries do when a read fails or memory runs out.",
            hint="records written before are intact (`cotenant verify RUN`); check disk and memory, then try again, "
            "with COTENANT_DEBUG=1 for the library's own message",
        )
    )
    return Exit.ERROR


def _used_up_its_time() -> bool:
    """Whether children used nearly all the CPU time they may, by a count that others don't disturb.

    The kernel counts whole ticks for this limit, also those of which others had a part: on a busy machine it kills
    earlier. `ulimit -t` alone sets the limit that kills without a warning.
    """
    import resource

    _, limit_s = resource.getrlimit(resource.RLIMIT_CPU)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return limit_s != resource.RLIM_INFINITY and used.ru_utime + used.ru_stime >= NEARLY * limit_s
