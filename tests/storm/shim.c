/* Makes one call of the C library fail: the n-th call of one kind, after a file of a certain path was first opened.

   FAULT_CALL   open, read, write, mmap (of files: what the interpreter does without memory is not ours), fork or sync
   FAULT_NTH    which of them, from 1; 0: none, only count
   FAULT_ERRNO  what it fails with
   FAULT_AFTER  counting begins when a path that holds this text is opened
   FAULT_COUNT  a file that gets one line with the number of calls when the process ends; only in the first process */
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

static atomic_int armed, seen;
static pid_t first;

__attribute__((constructor)) static void begin(void) {
    if (!getenv("FAULT_FIRST")) {
        char text[32];
        first = getpid();
        snprintf(text, sizeof text, "%d", (int)first);
        setenv("FAULT_FIRST", text, 1);
    }
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAULT_COUNT");
    if (path && first == getpid()) {
        FILE *file = fopen(path, "w");
        if (file) {
            fprintf(file, "%d\n", atomic_load(&seen));
            fclose(file);
        }
    }
}

static void watch(const char *path) {
    const char *after = getenv("FAULT_AFTER");
    if (path && after && !atomic_load(&armed) && strstr(path, after)) atomic_store(&armed, 1);
}

static int fails(const char *kind) {
    const char *call = getenv("FAULT_CALL");
    if (!atomic_load(&armed) || !call || strcmp(call, kind)) return 0;
    int number = atomic_fetch_add(&seen, 1) + 1;
    const char *nth = getenv("FAULT_NTH"), *code = getenv("FAULT_ERRNO");
    if (!nth || !code || atoi(nth) != number) return 0;
    errno = atoi(code);
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
        watch(path); \
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
        watch(path); \
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
        return file >= 0 && fails("mmap") ? MAP_FAILED : real(where, size, rights, flags, file, at); \
    }
MAPS(mmap, off_t)
MAPS(mmap64, off64_t)

int fsync(int file) {
    REAL(fsync);
    return fails("sync") ? -1 : real(file);
}

pid_t fork(void) {
    REAL(fork);
    return fails("fork") ? -1 : real();
}

pid_t vfork(void) { /* not the real one: a wrapper may not return twice from it */
    return fork();
}
