/* The scenario file, the state file and the GPUs' processes: reread whenever they change. */
#define _GNU_SOURCE
#include "mock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LIVENESS_NS 20000000LL

Scenario scenario;
State *state;
Process clients[MAX_PROCESSES];
int n_clients;

static pthread_mutex_t in_process = PTHREAD_MUTEX_INITIALIZER;
static char folder[4096];
static struct timespec scenario_time, clients_time;
static ino_t scenario_ino;
static int64_t clients_seen_ns, changed_ns;

int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000LL + t.tv_nsec;
}

typedef struct { const char *key; size_t offset; char type; size_t size; } Key;
#define TEXT(k) {#k, offsetof(Gpu, k), 's', sizeof(((Gpu *)0)->k)}
#define WHOLE(k) {#k, offsetof(Gpu, k), 'i', 0}
#define NUMBER(k) {#k, offsetof(Gpu, k), 'd', 0}
static const Key KEYS[] = {
    TEXT(name), TEXT(uuid), TEXT(serial), TEXT(pci), WHOLE(arch), WHOLE(cc_major), WHOLE(cc_minor), WHOLE(sms),
    WHOLE(cores), WHOLE(memory_mib), WHOLE(used_mib), WHOLE(ecc), WHOLE(mig), WHOLE(persistence), WHOLE(gpm),
    WHOLE(mem_lockable), WHOLE(averages), WHOLE(clock_min), WHOLE(clock_base), WHOLE(clock_boost), WHOLE(clock_idle),
    WHOLE(mem_clock), NUMBER(clock_step), NUMBER(limit_min_w), NUMBER(limit_default_w), NUMBER(limit_max_w),
    NUMBER(idle_w), NUMBER(busy_w), NUMBER(knee_mhz), NUMBER(leak_w_per_c), NUMBER(die_dynamic), NUMBER(die_leakage),
    NUMBER(ambient_c), NUMBER(fast_c_per_w), NUMBER(fast_s), NUMBER(slow_c_per_w), NUMBER(slow_s), NUMBER(slowdown_c),
    NUMBER(update_s), NUMBER(window_s), NUMBER(noise_w), NUMBER(load), NUMBER(tensor), NUMBER(dram), NUMBER(stuck_w),
    NUMBER(gain), WHOLE(lost), WHOLE(power_brake), WHOLE(energy_epoch),
};

static void read_gpu_line(Gpu *gpu, const char *key, const char *value) {
    if (!strcmp(key, "process") && gpu->n_processes < MAX_PROCESSES) {
        Process *p = &gpu->processes[gpu->n_processes];
        if (sscanf(value, "%u %lu", &p->pid, &p->bytes) == 2) gpu->n_processes++;
        return;
    }
    if (!strcmp(key, "instance") && gpu->n_instances < MAX_INSTANCES) {
        Instance *m = &gpu->instances[gpu->n_instances];
        if (sscanf(value, "%31s %95s %u %u %u %u %lu", m->profile, m->uuid, &m->gi, &m->ci, &m->sms, &m->slices,
                   &m->memory_mib) == 7) gpu->n_instances++;
        return;
    }
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        if (strcmp(key, KEYS[i].key)) continue;
        char *at = (char *)gpu + KEYS[i].offset;
        if (KEYS[i].type == 's') snprintf(at, KEYS[i].size, "%s", value);
        else if (KEYS[i].type == 'i') *(int *)at = atoi(value);
        else *(double *)at = atof(value);
        return;
    }
    fprintf(stderr, "nvml mock: unknown key %s\n", key);
}

static void read_scenario(const char *path) {
    static Scenario fresh;
    memset(&fresh, 0, sizeof fresh);
    fresh.root = 1;
    FILE *file = fopen(path, "r");
    if (!file) { scenario = fresh; scenario.init_error = DRIVER_NOT_LOADED; return; }
    char line[512];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *value = strchr(line, ' ');
        if (value) *value++ = 0; else value = line + strlen(line);
        if (!strcmp(line, "gpu")) { if (fresh.n_gpus < MAX_GPUS) fresh.n_gpus++; }
        else if (!strcmp(line, "driver")) snprintf(fresh.driver, sizeof fresh.driver, "%.63s", value);
        else if (!strcmp(line, "nvml")) snprintf(fresh.nvml, sizeof fresh.nvml, "%.63s", value);
        else if (!strcmp(line, "cuda")) fresh.cuda = atoi(value);
        else if (!strcmp(line, "root")) fresh.root = atoi(value);
        else if (!strcmp(line, "init_error")) fresh.init_error = atoi(value);
        else if (!strcmp(line, "fails") && fresh.n_failures < MAX_FAILURES) {
            if (sscanf(value, "%63s %d", fresh.failures[fresh.n_failures].function,
                       &fresh.failures[fresh.n_failures].code) == 2) fresh.n_failures++;
        }
        else if (fresh.n_gpus && *line) read_gpu_line(&fresh.gpus[fresh.n_gpus - 1], line, value);
    }
    fclose(file);
    scenario = fresh;
}

static void open_state(void) {
    char path[4200];
    snprintf(path, sizeof path, "%s/state", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) { perror("nvml mock: state"); abort(); }
    flock(fd, LOCK_EX);
    if (ftruncate(fd, sizeof(State))) abort();
    if (state) munmap(state, sizeof(State));
    state = mmap(NULL, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (state == MAP_FAILED) abort();
    if (state->magic != STATE_MAGIC) {
        pthread_mutexattr_t shared;
        pthread_mutexattr_init(&shared);
        pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&state->mutex, &shared);
        state->magic = STATE_MAGIC;
    }
    flock(fd, LOCK_UN);
    close(fd);
}

static void read_clients(const char *path) {
    n_clients = 0;
    DIR *dir = opendir(path);
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir)) && n_clients < MAX_PROCESSES;) {
        char file_path[4600];
        snprintf(file_path, sizeof file_path, "%s/%s", path, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(file_path, "r");
        if (!file) continue;
        Process *p = &clients[n_clients];
        p->pid = (unsigned)atoi(entry->d_name);
        p->mps = 0; p->gi = -1;
        if (fscanf(file, "%d %lu %lf %d %d", &p->gpu, &p->bytes, &p->load, &p->mps, &p->gi) >= 3 && (!kill((pid_t)p->pid, 0) || errno == EPERM))
            n_clients++;
        fclose(file);
    }
    closedir(dir);
}

static double load_of(int index) {
    double load = scenario.gpus[index].load;
    for (int i = 0; i < n_clients; i++) if (clients[i].gpu == index) load += clients[i].load;
    return load < 0 ? 0 : load > 1 ? 1 : load;
}

static int changed(struct timespec *last, const struct stat *now) {
    if (last->tv_sec == now->st_mtim.tv_sec && last->tv_nsec == now->st_mtim.tv_nsec) return 0;
    *last = now->st_mtim;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t ago = (wall.tv_sec - now->st_mtim.tv_sec) * 1000000000LL + wall.tv_nsec - now->st_mtim.tv_nsec;
    changed_ns = now_ns() - (ago > 0 ? ago : 0);
    return 1;
}

static void refresh(void) {
    const char *named = getenv("NVML_MOCK");
    if (!named) named = "/nonexistent";
    char path[4200];
    struct stat found;
    int moved = strcmp(named, folder) != 0;
    if (moved) {
        snprintf(folder, sizeof folder, "%s", named);
        memset(&scenario_time, 0, sizeof scenario_time);
        memset(&clients_time, 0, sizeof clients_time);
        if (access(folder, W_OK) == 0) open_state();
    }
    snprintf(path, sizeof path, "%s/scenario", folder);
    memset(&found, 0, sizeof found);
    if (stat(path, &found)) { if (moved) { memset(&scenario, 0, sizeof scenario); scenario.init_error = DRIVER_NOT_LOADED; } }
    else if (changed(&scenario_time, &found) || found.st_ino != scenario_ino) {
        scenario_ino = found.st_ino;
        read_scenario(path);
    }
    snprintf(path, sizeof path, "%s/clients", folder);
    memset(&found, 0, sizeof found);
    stat(path, &found);
    if (changed(&clients_time, &found) || (n_clients && now_ns() - clients_seen_ns > LIVENESS_NS)) {
        clients_seen_ns = now_ns();
        read_clients(path);
    }
}

static void catch_up(void) {
    int64_t now = now_ns();
    for (int i = 0; i < scenario.n_gpus; i++) {
        Gpu *gpu = &scenario.gpus[i];
        Live *live = &state->gpus[i];
        if (strcmp(live->name, gpu->name)) begin_live(live, gpu);
        if (changed_ns) advance(live, gpu, changed_ns < now ? changed_ns : now);
        live->load = load_of(i);                           /* it counts from when the file was written */
        advance(live, gpu, now);
        if (live->scenario_persistence != gpu->persistence) live->persistence = live->scenario_persistence = gpu->persistence;
        if (live->scenario_mig != gpu->mig) live->mig = live->mig_pending = live->scenario_mig = gpu->mig;
        if (live->energy_epoch != gpu->energy_epoch) {
            live->energy_epoch = gpu->energy_epoch;
            live->energy_base_j = live->energy_j;
        }
    }
    changed_ns = 0;
}

int enter(const char *function) {
    pthread_mutex_lock(&in_process);
    refresh();
    int code = scenario.init_error;
    for (int i = 0; !code && i < scenario.n_failures; i++)
        if (!strcmp(scenario.failures[i].function, function)) code = scenario.failures[i].code;
    if (!code && !state) code = DRIVER_NOT_LOADED;
    if (code) { pthread_mutex_unlock(&in_process); return code; }
    if (pthread_mutex_lock(&state->mutex) == EOWNERDEAD) pthread_mutex_consistent(&state->mutex);
    catch_up();
    return OK;
}

int leave(int code) {
    pthread_mutex_unlock(&state->mutex);
    pthread_mutex_unlock(&in_process);
    return code;
}
