/* Steps the wall clock back by a day, once, after CLOCK_AFTER readings in a process; other clocks are unaffected. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static atomic_int readings;

static time_t stepped(time_t seconds) {
    const char *after = getenv("CLOCK_AFTER");
    return after && atomic_fetch_add(&readings, 1) >= atoi(after) ? seconds - 86400 : seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, now);
    if (!code && clock == CLOCK_REALTIME) now->tv_sec = stepped(now->tv_sec);
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    int code = real(now, zone);
    if (!code) now->tv_sec = stepped(now->tv_sec);
    return code;
}
