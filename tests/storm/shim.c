/* Makes one call of the C library fail: the n-th call of one kind, counted from when it was armed.

   A process arms itself, usually after a fork:  fault_arm("read", 7, EIO)   0 instead of 7: none, only count
   A process that is started arms itself from its environment: FAULT_CALL, FAULT_NTH, FAULT_ERRNO
   The kinds: open, read, write, mmap (of files), memory (mmap without a file), fork, sync, rename */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static char armed[16];
static int nth, code;
static atomic_int *seen; /* shared by a process and its forks: the call fails in one of them */

void fault_arm(const char *call, int which, int error) {
    armed[0] = 0;
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    nth = which;
    code = error;
    strncpy(armed, call, sizeof armed - 1);
}

int fault_seen(void) { return atomic_load(seen); }

__attribute__((constructor)) static void begin(void) {
    const char *call = getenv("FAULT_CALL"), *which = getenv("FAULT_NTH"), *error = getenv("FAULT_ERRNO");
    if (call && which && error) fault_arm(call, atoi(which), atoi(error));
}

static int fails(const char *kind) {
    if (strcmp(armed, kind)) return 0;
    if (atomic_fetch_add(seen, 1) + 1 != nth) return 0;
    errno = code;
    return 1;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        return fails("open") ? -1 : real(path, flags, mode); \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        return fails("open") ? -1 : real(folder, path, flags, mode); \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

ssize_t read(int file, void *buffer, size_t size) {
    REAL(read);
    return fails("read") ? -1 : real(file, buffer, size);
}

ssize_t write(int file, const void *buffer, size_t size) {
    REAL(write);
    return file > 2 && fails("write") ? -1 : real(file, buffer, size);
}

#define READS_AT(name, offset) \
    ssize_t name(int file, void *buffer, size_t size, offset at) { \
        REAL(name); \
        return fails("read") ? -1 : real(file, buffer, size, at); \
    }
READS_AT(pread, off_t)
READS_AT(pread64, off64_t)

#define WRITES_AT(name, offset) \
    ssize_t name(int file, const void *buffer, size_t size, offset at) { \
        REAL(name); \
        return fails("write") ? -1 : real(file, buffer, size, at); \
    }
WRITES_AT(pwrite, off_t)
WRITES_AT(pwrite64, off64_t)

#define MAPS(name, offset) \
    void *name(void *where, size_t size, int rights, int flags, int file, offset at) { \
        REAL(name); \
        return fails(file >= 0 ? "mmap" : "memory") ? MAP_FAILED : real(where, size, rights, flags, file, at); \
    }
MAPS(mmap, off_t)
MAPS(mmap64, off64_t)

int fsync(int file) {
    REAL(fsync);
    return fails("sync") ? -1 : real(file);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    return fails("rename") ? -1 : real(from, to);
}

pid_t fork(void) {
    REAL(fork);
    return fails("fork") ? -1 : real();
}

pid_t vfork(void) { /* not the real one: a wrapper may not return twice from it */
    return fork();
}
