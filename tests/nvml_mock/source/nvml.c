/* The functions of libnvidia-ml.so.1 in use, as declared by the header of NVML 13. */
#define _GNU_SOURCE
#include "mock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default"))) int
#define ABSENT_BYTES 0xffffffffffffffffULL

typedef struct { int gpu, instance; } Handle;              /* instance -1: the whole GPU */
typedef Handle *Device;

typedef union { double d; unsigned u; unsigned long long ull; long long sll; int i; } Value;
typedef struct { unsigned id, scope; int64_t timestamp, latency; unsigned type; int code; Value value; } Field;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gi, ci; } ProcessInfo;
typedef struct { unsigned pid; unsigned long long at_us; unsigned sm, memory, encoder, decoder; } ProcessUse;
typedef struct { char legacy[16]; unsigned domain, bus, device, pci_id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned version, sensor; int temperature; } Temperature;
typedef struct { unsigned sms, copy, decoder, encoder, jpeg, ofa, gi_slices, ci_slices; unsigned long long memory_mib; } Attributes;
typedef struct { int64_t at_ns; double active_s; double tensor, dram; int gpu; double tx, rx; } GpmSample;
typedef struct { unsigned id; int code; double value; char *names[3]; } GpmMetric;
typedef struct { unsigned version, n; GpmSample *first, *second; GpmMetric metrics[1]; } GpmMetrics;

static Handle handles[MAX_GPUS], instance_handles[MAX_GPUS][MAX_INSTANCES];
static int initialised;

static Handle *handle_of(int gpu) { handles[gpu] = (Handle){gpu, -1}; return &handles[gpu]; }
static Handle *instance_of(int gpu, int i) { instance_handles[gpu][i] = (Handle){gpu, i}; return &instance_handles[gpu][i]; }

/* Starts a call on a device: `gpu` and `live` are its parts; every exit goes through DONE. */
#define ON(device) \
    if (!initialised) return UNINITIALIZED; \
    if (!(device)) return INVALID_ARGUMENT; \
    int code_ = enter(__func__); \
    if (code_) return code_; \
    if ((device)->gpu >= scenario.n_gpus) return leave(NOT_FOUND); \
    const Gpu *gpu = &scenario.gpus[(device)->gpu]; \
    Live *live = &state->gpus[(device)->gpu]; \
    (void)live; \
    if (gpu->lost) return leave(GPU_IS_LOST)
#define DONE(code) return leave(code)
#define WHOLE_GPU(device) if ((device)->instance >= 0) return leave(NOT_SUPPORTED)
#define NEEDS_ROOT() if (!scenario.root) return leave(NO_PERMISSION)

static int text(char *to, unsigned size, const char *from) {
    if (strlen(from) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return OK;
}

/* ---- library and system ---- */
API nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int code = enter(__func__);
    if (code) return code;
    initialised++;
    return leave(OK);
}
API nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API nvmlShutdown(void) {
    if (!initialised) return UNINITIALIZED;
    initialised--;
    return OK;
}
__attribute__((visibility("default"))) const char *nvmlErrorString(int code) {
    switch (code) {
    case OK: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}
API nvmlSystemGetDriverVersion(char *to, unsigned size) {
    int code = enter(__func__);
    return code ? code : leave(text(to, size, scenario.driver));
}
API nvmlSystemGetNVMLVersion(char *to, unsigned size) {
    int code = enter(__func__);
    return code ? code : leave(text(to, size, scenario.nvml));
}
API nvmlSystemGetCudaDriverVersion_v2(int *to) {
    int code = enter(__func__);
    if (code) return code;
    *to = scenario.cuda;
    return leave(OK);
}
API nvmlSystemGetCudaDriverVersion(int *to) { return nvmlSystemGetCudaDriverVersion_v2(to); }
API nvmlSystemGetProcessName(unsigned pid, char *to, unsigned size) {
    char path[64], name[256] = "";
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    FILE *file = fopen(path, "r");
    if (!file) return NOT_FOUND;
    if (!fgets(name, sizeof name, file)) name[0] = 0;
    fclose(file);
    name[strcspn(name, "\n")] = 0;
    return text(to, size, name);
}

/* ---- discovery ---- */
API nvmlDeviceGetCount_v2(unsigned *count) {
    if (!initialised) return UNINITIALIZED;
    int code = enter(__func__);
    if (code) return code;
    *count = (unsigned)scenario.n_gpus;
    return leave(OK);
}
API nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *to) {
    if (!initialised) return UNINITIALIZED;
    int code = enter(__func__);
    if (code) return code;
    if (index >= (unsigned)scenario.n_gpus) return leave(INVALID_ARGUMENT);
    if (scenario.gpus[index].lost) return leave(GPU_IS_LOST);
    *to = handle_of((int)index);
    return leave(OK);
}
API nvmlDeviceGetHandleByUUID(const char *uuid, Device *to) {
    if (!initialised) return UNINITIALIZED;
    int code = enter(__func__);
    if (code) return code;
    for (int i = 0; i < scenario.n_gpus; i++) {
        if (!strcmp(scenario.gpus[i].uuid, uuid)) {
            if (scenario.gpus[i].lost) return leave(GPU_IS_LOST);
            *to = handle_of(i);
            return leave(OK);
        }
        for (int m = 0; m < scenario.gpus[i].n_instances; m++)
            if (state->gpus[i].mig == 1 && !strcmp(scenario.gpus[i].instances[m].uuid, uuid)) {
                *to = instance_of(i, m);
                return leave(OK);
            }
    }
    return leave(NOT_FOUND);
}
API nvmlDeviceGetHandleByPciBusId_v2(const char *bus, Device *to) {
    if (!initialised) return UNINITIALIZED;
    int code = enter(__func__);
    if (code) return code;
    for (int i = 0; i < scenario.n_gpus; i++)
        if (!strcasecmp(scenario.gpus[i].pci, bus)) { *to = handle_of(i); return leave(OK); }
    return leave(NOT_FOUND);
}
API nvmlDeviceGetIndex(Device d, unsigned *to) { ON(d); *to = (unsigned)(d->instance < 0 ? d->gpu : d->instance); DONE(OK); }
API nvmlDeviceGetName(Device d, char *to, unsigned size) {
    ON(d);
    char name[192];
    if (d->instance < 0) snprintf(name, sizeof name, "%s", gpu->name);
    else snprintf(name, sizeof name, "%s MIG %s", gpu->name, gpu->instances[d->instance].profile);
    DONE(text(to, size, name));
}
API nvmlDeviceGetUUID(Device d, char *to, unsigned size) {
    ON(d);
    DONE(text(to, size, d->instance < 0 ? gpu->uuid : gpu->instances[d->instance].uuid));
}
API nvmlDeviceGetSerial(Device d, char *to, unsigned size) { ON(d); DONE(*gpu->serial ? text(to, size, gpu->serial) : NOT_SUPPORTED); }
API nvmlDeviceGetMinorNumber(Device d, unsigned *to) { ON(d); *to = (unsigned)d->gpu; DONE(OK); }
API nvmlDeviceGetPciInfo_v3(Device d, Pci *to) {
    ON(d);
    memset(to, 0, sizeof *to);
    snprintf(to->bus_id, sizeof to->bus_id, "%s", gpu->pci);
    sscanf(gpu->pci, "%x:%x:%x", &to->domain, &to->bus, &to->device);
    DONE(OK);
}
API nvmlDeviceGetArchitecture(Device d, unsigned *to) { ON(d); *to = (unsigned)gpu->arch; DONE(OK); }
API nvmlDeviceGetCudaComputeCapability(Device d, int *major, int *minor) { ON(d); *major = gpu->cc_major; *minor = gpu->cc_minor; DONE(OK); }
API nvmlDeviceGetNumGpuCores(Device d, unsigned *to) { ON(d); if (!gpu->cores) DONE(NOT_SUPPORTED); *to = gpu->cores; DONE(OK); }
API nvmlDeviceGetAttributes_v2(Device d, Attributes *to) {
    ON(d);
    memset(to, 0, sizeof *to);
    if (d->instance < 0) DONE(NOT_SUPPORTED);
    const Instance *m = &gpu->instances[d->instance];
    to->sms = m->sms;
    to->gi_slices = to->ci_slices = m->slices;
    to->memory_mib = m->memory_mib;
    DONE(OK);
}

/* ---- states ---- */
API nvmlDeviceGetPersistenceMode(Device d, unsigned *to) { ON(d); WHOLE_GPU(d); *to = (unsigned)live->persistence; DONE(OK); }
API nvmlDeviceGetEccMode(Device d, unsigned *now, unsigned *pending) {
    ON(d);
    if (gpu->ecc < 0) DONE(NOT_SUPPORTED);
    *now = *pending = (unsigned)gpu->ecc;
    DONE(OK);
}
API nvmlDeviceGetTotalEccErrors(Device d, unsigned kind, unsigned counter, unsigned long long *to) {
    (void)kind; (void)counter;
    ON(d);
    if (gpu->ecc < 1) DONE(NOT_SUPPORTED);
    *to = 0;
    DONE(OK);
}
API nvmlDeviceGetComputeMode(Device d, unsigned *to) { ON(d); *to = (unsigned)live->compute_mode; DONE(OK); }
API nvmlDeviceGetPerformanceState(Device d, unsigned *to) { ON(d); *to = live->load > 0 ? 0 : 8; DONE(OK); }
API nvmlDeviceGetCurrPcieLinkGeneration(Device d, unsigned *to) { ON(d); *to = gpu->arch >= 9 ? 5 : gpu->arch >= 7 ? 4 : 3; DONE(OK); }
API nvmlDeviceGetCurrPcieLinkWidth(Device d, unsigned *to) { ON(d); *to = 16; DONE(OK); }

/* ---- memory and processes ---- */
static unsigned long long used_bytes(const Gpu *gpu, int index) {
    unsigned long long used = (unsigned long long)gpu->used_mib << 20;
    for (int i = 0; i < gpu->n_processes; i++) used += gpu->processes[i].bytes;
    for (int i = 0; i < n_clients; i++) if (clients[i].gpu == index) used += clients[i].bytes;
    return used;
}
API nvmlDeviceGetMemoryInfo(Device d, Memory *to) {
    ON(d);
    to->total = (unsigned long long)(d->instance < 0 ? gpu->memory_mib : gpu->instances[d->instance].memory_mib) << 20;
    to->used = d->instance < 0 ? used_bytes(gpu, d->gpu) : 0;
    to->free = to->total - to->used;
    DONE(OK);
}
API nvmlDeviceGetMemoryInfo_v2(Device d, Memory2 *to) {
    Memory plain = {0, 0, 0};
    int code = nvmlDeviceGetMemoryInfo(d, &plain);
    if (code) return code;
    to->total = plain.total; to->used = plain.used; to->free = plain.free; to->reserved = 0;
    return OK;
}
enum { NO_PROCESSES, COMPUTE, MPS_CLIENTS };
static int listed(Device d, unsigned *count, ProcessInfo *to, int wanted) {
    ON(d);
    ProcessInfo found[2 * MAX_PROCESSES];
    unsigned n = 0;
    for (int i = 0; wanted == COMPUTE && d->instance < 0 && i < gpu->n_processes; i++)
        found[n++] = (ProcessInfo){gpu->processes[i].pid, gpu->processes[i].bytes, 0xffffffff, 0xffffffff};
    for (int i = 0; wanted && i < n_clients; i++) {
        const Process *p = &clients[i];
        if (p->gpu != d->gpu || p->mps != (wanted == MPS_CLIENTS)) continue;
        if (d->instance >= 0 && p->gi != (int)gpu->instances[d->instance].gi) continue;
        found[n++] = (ProcessInfo){p->pid, p->bytes, (unsigned)p->gi, p->gi < 0 ? 0xffffffff : 0};
    }
    if (n > *count) { *count = n; DONE(INSUFFICIENT_SIZE); }
    if (n) memcpy(to, found, n * sizeof *found); /* callers that only need the count pass no buffer */
    *count = n;
    DONE(OK);
}
API nvmlDeviceGetComputeRunningProcesses_v3(Device d, unsigned *count, ProcessInfo *to) { return listed(d, count, to, COMPUTE); }
API nvmlDeviceGetComputeRunningProcesses_v2(Device d, unsigned *count, ProcessInfo *to) { return listed(d, count, to, COMPUTE); }
API nvmlDeviceGetGraphicsRunningProcesses_v3(Device d, unsigned *count, ProcessInfo *to) { return listed(d, count, to, NO_PROCESSES); }
API nvmlDeviceGetMPSComputeRunningProcesses_v3(Device d, unsigned *count, ProcessInfo *to) { return listed(d, count, to, MPS_CLIENTS); }

/* One sample for each client and update period since the last one seen, as kept by the driver for some seconds. */
API nvmlDeviceGetProcessUtilization(Device d, ProcessUse *to, unsigned *count, unsigned long long since_us) {
    ON(d);
    if (d->instance >= 0 || live->mig) DONE(NOT_SUPPORTED);
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    unsigned long long now_us = (unsigned long long)wall.tv_sec * 1000000ULL + (unsigned long long)wall.tv_nsec / 1000;
    unsigned long long at_us = now_us - now_us % 166667;
    ProcessUse found[MAX_PROCESSES];
    unsigned n = 0;
    for (int i = 0; i < n_clients && at_us > since_us; i++)
        if (clients[i].gpu == d->gpu && clients[i].load > 0)
            found[n++] = (ProcessUse){clients[i].pid, at_us, (unsigned)lround(100 * clients[i].load), (unsigned)lround(100 * clients[i].load * gpu->dram), 0, 0};
    if (!n) DONE(NOT_FOUND);
    if (!to || n > *count) { *count = n; DONE(INSUFFICIENT_SIZE); }
    memcpy(to, found, n * sizeof *found);
    *count = n;
    DONE(OK);
}

/* ---- sensors ---- */
API nvmlDeviceGetPowerUsage(Device d, unsigned *to) {
    ON(d); WHOLE_GPU(d);
    *to = (unsigned)lround(shown_power_w(live, gpu, gpu->averages ? 1.0 : gpu->window_s) * 1e3);
    DONE(OK);
}
API nvmlDeviceGetTotalEnergyConsumption(Device d, unsigned long long *to) {
    ON(d); WHOLE_GPU(d);
    if (gpu->arch < 5) DONE(NOT_SUPPORTED);
    *to = (unsigned long long)llround(shown_energy_j(live, gpu) * 1e3);
    DONE(OK);
}
static unsigned mem_mhz(const Live *live, const Gpu *gpu) {
    return live->mem_lock_set && live->mem_lock_max < gpu->mem_clock ? live->mem_lock_max : gpu->mem_clock;
}
API nvmlDeviceGetClockInfo(Device d, unsigned kind, unsigned *to) {
    ON(d);
    if (kind > 3) DONE(INVALID_ARGUMENT);
    *to = kind == 2 ? mem_mhz(live, gpu) : (unsigned)live->clock_mhz;
    DONE(OK);
}
API nvmlDeviceGetMaxClockInfo(Device d, unsigned kind, unsigned *to) { ON(d); *to = kind == 2 ? gpu->mem_clock : gpu->clock_boost; DONE(OK); }
/* From Hopper on the default is the highest clock, so it doesn't reveal the base clock. */
API nvmlDeviceGetDefaultApplicationsClock(Device d, unsigned kind, unsigned *to) {
    ON(d);
    *to = kind == 2 ? gpu->mem_clock : gpu->arch >= 9 ? gpu->clock_boost : gpu->clock_base;
    DONE(OK);
}
API nvmlDeviceGetApplicationsClock(Device d, unsigned kind, unsigned *to) { return nvmlDeviceGetDefaultApplicationsClock(d, kind, to); }
API nvmlDeviceGetSupportedMemoryClocks(Device d, unsigned *count, unsigned *to) {
    ON(d);
    unsigned n = gpu->mem_lockable ? 2 : 1;
    if (*count < n) { *count = n; DONE(INSUFFICIENT_SIZE); }
    to[0] = gpu->mem_clock;
    if (n > 1) to[1] = gpu->mem_clock / 2;
    *count = n;
    DONE(OK);
}
API nvmlDeviceGetSupportedGraphicsClocks(Device d, unsigned memory, unsigned *count, unsigned *to) {
    ON(d);
    if (memory != gpu->mem_clock && memory != gpu->mem_clock / 2) DONE(NOT_FOUND);
    unsigned n = (unsigned)((gpu->clock_boost - gpu->clock_min) / gpu->clock_step) + 1;
    if (*count < n) { *count = n; DONE(INSUFFICIENT_SIZE); }
    for (unsigned i = 0; i < n; i++) to[i] = (unsigned)(gpu->clock_boost - i * gpu->clock_step);
    *count = n;
    DONE(OK);
}
API nvmlDeviceGetTemperature(Device d, unsigned kind, unsigned *to) {
    ON(d);
    if (kind) DONE(INVALID_ARGUMENT);
    *to = (unsigned)lround(temperature_c(live, gpu));
    DONE(OK);
}
API nvmlDeviceGetTemperatureV(Device d, Temperature *to) {
    ON(d);
    to->temperature = (int)lround(temperature_c(live, gpu));
    DONE(OK);
}
API nvmlDeviceGetTemperatureThreshold(Device d, unsigned kind, unsigned *to) {
    ON(d);
    *to = (unsigned)gpu->slowdown_c + (kind == 0 ? 7 : 0);
    DONE(OK);
}
API nvmlDeviceGetCurrentClocksEventReasons(Device d, unsigned long long *to) { ON(d); *to = live->reasons; DONE(OK); }
API nvmlDeviceGetCurrentClocksThrottleReasons(Device d, unsigned long long *to) { ON(d); *to = live->reasons; DONE(OK); }
API nvmlDeviceGetSupportedClocksEventReasons(Device d, unsigned long long *to) { ON(d); *to = 0x1ff; DONE(OK); }
API nvmlDeviceGetUtilizationRates(Device d, unsigned *to) {
    ON(d);
    if (live->mig == 1) DONE(NOT_SUPPORTED);
    to[0] = live->load > 0 ? 100 : 0;                      /* any kernel at all, not SM utilisation */
    to[1] = (unsigned)lround(100 * live->load * gpu->dram);
    DONE(OK);
}
API nvmlDeviceGetPcieThroughput(Device d, unsigned counter, unsigned *to) {
    usleep(20000);                                         /* the real one samples a counter for 20 ms */
    ON(d);
    *to = (unsigned)(live->load * (counter == 0 ? 2e8 : 8e8) / 1024);
    DONE(OK);
}

static int field(const Gpu *gpu, const Live *live, Field *f) {
    f->type = 3;
    switch (f->id) {
    case 83: f->value.ull = (unsigned long long)llround(shown_energy_j(live, gpu) * 1e3); return gpu->arch < 5 ? NOT_SUPPORTED : OK;
    case 82: f->type = 1; f->value.u = (unsigned)lround(temperature_c(live, gpu) + 4); return gpu->mem_lockable || gpu->arch == 5 ? OK : NOT_SUPPORTED;
    case 74: f->value.ull = live->capped_ns; return OK;
    case 76: f->value.ull = 0; return OK;
    case 185: f->type = 1; f->value.u = (unsigned)lround(shown_power_w(live, gpu, 1.0) * 1e3); return gpu->arch >= 8 || gpu->averages ? OK : NOT_SUPPORTED;
    case 186: f->type = 1; f->value.u = (unsigned)lround(shown_power_w(live, gpu, gpu->window_s) * 1e3); return OK;
    case 187: f->type = 1; f->value.u = (unsigned)(gpu->limit_min_w * 1e3); return OK;
    case 188: f->type = 1; f->value.u = (unsigned)(gpu->limit_max_w * 1e3); return OK;
    case 189: f->type = 1; f->value.u = (unsigned)(gpu->limit_default_w * 1e3); return OK;
    case 190: case 192: f->type = 1; f->value.u = (unsigned)(live->limit_w * 1e3); return OK;
    case 197: f->value.ull = (unsigned long long)live->pcie_tx; return gpu->arch >= 9 ? OK : NOT_SUPPORTED;
    case 198: f->value.ull = (unsigned long long)live->pcie_rx; return gpu->arch >= 9 ? OK : NOT_SUPPORTED;
    case 269: f->value.ull = live->sw_thermal_ns; return OK;
    case 270: f->value.ull = live->hw_thermal_ns; return OK;
    case 271: f->value.ull = live->brake_ns; return OK;
    default: return NOT_SUPPORTED;
    }
}
API nvmlDeviceGetFieldValues(Device d, int n, Field *fields) {
    ON(d); WHOLE_GPU(d);
    for (int i = 0; i < n; i++) {
        fields[i].timestamp = live->now_ns / 1000;
        fields[i].latency = 10;
        fields[i].code = field(gpu, live, &fields[i]);
    }
    DONE(OK);
}

/* ---- limits and setters ---- */
API nvmlDeviceGetPowerManagementMode(Device d, unsigned *to) { ON(d); *to = 1; DONE(OK); }
API nvmlDeviceGetPowerManagementLimit(Device d, unsigned *to) { ON(d); WHOLE_GPU(d); *to = (unsigned)lround(live->limit_w * 1e3); DONE(OK); }
API nvmlDeviceGetEnforcedPowerLimit(Device d, unsigned *to) { ON(d); WHOLE_GPU(d); *to = (unsigned)lround(live->limit_w * 1e3); DONE(OK); }
API nvmlDeviceGetPowerManagementDefaultLimit(Device d, unsigned *to) { ON(d); *to = (unsigned)lround(gpu->limit_default_w * 1e3); DONE(OK); }
API nvmlDeviceGetPowerManagementLimitConstraints(Device d, unsigned *low, unsigned *high) {
    ON(d);
    *low = (unsigned)lround(gpu->limit_min_w * 1e3);
    *high = (unsigned)lround(gpu->limit_max_w * 1e3);
    DONE(OK);
}
API nvmlDeviceSetPowerManagementLimit(Device d, unsigned mw) {
    ON(d); WHOLE_GPU(d); NEEDS_ROOT();
    if (mw < gpu->limit_min_w * 1e3 - 1 || mw > gpu->limit_max_w * 1e3 + 1) DONE(INVALID_ARGUMENT);
    live->limit_w = mw / 1e3;
    advance(live, gpu, live->now_ns);
    DONE(OK);
}
API nvmlDeviceSetGpuLockedClocks(Device d, unsigned low, unsigned high) {
    ON(d); WHOLE_GPU(d); NEEDS_ROOT();
    if (gpu->arch < 5) DONE(NOT_SUPPORTED);
    if ((low >= 0xffffff00) != (high >= 0xffffff00)) DONE(INVALID_ARGUMENT);
    if (low == 0xffffff02 && high == 0xffffff02) { live->lock_set = 0; DONE(OK); }
    if (low == 0xffffff01) low = gpu->clock_base;          /* symbolic: the clock of the TDP, or no bound */
    if (low == 0xffffff02) low = gpu->clock_min;
    if (high == 0xffffff01) high = gpu->clock_base;
    if (high == 0xffffff02) high = gpu->clock_boost;
    if (low > high || high < gpu->clock_min || low > gpu->clock_boost) DONE(INVALID_ARGUMENT);
    live->lock_set = 1; live->lock_min = low; live->lock_max = high;
    advance(live, gpu, live->now_ns);
    DONE(OK);
}
API nvmlDeviceResetGpuLockedClocks(Device d) {
    ON(d); WHOLE_GPU(d); NEEDS_ROOT();
    live->lock_set = 0;
    advance(live, gpu, live->now_ns);
    DONE(OK);
}
API nvmlDeviceSetMemoryLockedClocks(Device d, unsigned low, unsigned high) {
    ON(d); WHOLE_GPU(d); NEEDS_ROOT();
    if (!gpu->mem_lockable) DONE(NOT_SUPPORTED);
    if (low > high || high < gpu->mem_clock / 2) DONE(INVALID_ARGUMENT);
    live->mem_lock_set = 1; live->mem_lock_min = low; live->mem_lock_max = high;
    DONE(OK);
}
API nvmlDeviceResetMemoryLockedClocks(Device d) {
    ON(d); WHOLE_GPU(d); NEEDS_ROOT();
    if (!gpu->mem_lockable) DONE(NOT_SUPPORTED);
    live->mem_lock_set = 0;
    DONE(OK);
}
API nvmlDeviceSetPersistenceMode(Device d, unsigned mode) { ON(d); WHOLE_GPU(d); NEEDS_ROOT(); live->persistence = mode != 0; DONE(OK); }
API nvmlDeviceSetComputeMode(Device d, unsigned mode) { ON(d); NEEDS_ROOT(); live->compute_mode = (int)mode; DONE(OK); }

/* ---- MIG ---- */
API nvmlDeviceGetMigMode(Device d, unsigned *now, unsigned *pending) {
    ON(d);
    if (live->mig < 0) DONE(NOT_SUPPORTED);
    *now = (unsigned)live->mig;
    *pending = (unsigned)live->mig_pending;
    DONE(OK);
}
API nvmlDeviceSetMigMode(Device d, unsigned mode, int *status) {
    ON(d); NEEDS_ROOT();
    if (live->mig < 0) DONE(NOT_SUPPORTED);
    live->mig_pending = mode != 0;
    for (int i = 0; i < n_clients; i++)
        if (clients[i].gpu == d->gpu && live->mig != live->mig_pending) { *status = IN_USE; DONE(OK); }
    live->mig = live->mig_pending;
    *status = OK;
    DONE(OK);
}
API nvmlDeviceGetMaxMigDeviceCount(Device d, unsigned *to) { ON(d); *to = gpu->mig < 0 ? 0 : MAX_INSTANCES; DONE(OK); }
API nvmlDeviceGetMigDeviceHandleByIndex(Device d, unsigned index, Device *to) {
    ON(d);
    if (live->mig != 1 || index >= (unsigned)gpu->n_instances) DONE(NOT_FOUND);
    *to = instance_of(d->gpu, (int)index);
    DONE(OK);
}
API nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device d, Device *to) { ON(d); if (d->instance < 0) DONE(INVALID_ARGUMENT); *to = handle_of(d->gpu); DONE(OK); }
API nvmlDeviceIsMigDeviceHandle(Device d, unsigned *to) { ON(d); *to = d->instance >= 0; DONE(OK); }
API nvmlDeviceGetGpuInstanceId(Device d, unsigned *to) { ON(d); if (d->instance < 0) DONE(INVALID_ARGUMENT); *to = gpu->instances[d->instance].gi; DONE(OK); }
API nvmlDeviceGetComputeInstanceId(Device d, unsigned *to) { ON(d); if (d->instance < 0) DONE(INVALID_ARGUMENT); *to = gpu->instances[d->instance].ci; DONE(OK); }

/* ---- GPM ---- */
API nvmlGpmQueryDeviceSupport(Device d, unsigned *to) { ON(d); to[1] = (unsigned)gpu->gpm; DONE(OK); }
API nvmlGpmSampleAlloc(GpmSample **to) { *to = calloc(1, sizeof **to); return *to ? OK : UNKNOWN; }
API nvmlGpmSampleFree(GpmSample *sample) { free(sample); return OK; }
API nvmlGpmSampleGet(Device d, GpmSample *to) {
    ON(d);
    if (!gpu->gpm) DONE(NOT_SUPPORTED);
    *to = (GpmSample){live->now_ns, live->active_s, gpu->tensor, gpu->dram, d->gpu, live->pcie_tx, live->pcie_rx};
    DONE(OK);
}
API nvmlGpmMetricsGet(GpmMetrics *wanted) {
    GpmSample *a = wanted->first, *b = wanted->second;
    double seconds = (double)(b->at_ns - a->at_ns) / 1e9;
    double active = seconds > 0 ? 100 * (b->active_s - a->active_s) / seconds : 0;
    for (unsigned i = 0; i < wanted->n; i++) {
        GpmMetric *m = &wanted->metrics[i];
        m->code = seconds > 0 ? OK : INVALID_ARGUMENT;
        switch (m->id) {
        case 1: case 2: m->value = active; break;
        case 3: m->value = active * 0.6; break;
        case 5: m->value = active * b->tensor; break;
        case 10: m->value = active * b->dram; break;
        case 20: m->value = (b->tx - a->tx) / seconds / (1 << 20); break;
        case 21: m->value = (b->rx - a->rx) / seconds / (1 << 20); break;
        default: m->code = NOT_SUPPORTED;
        }
    }
    return OK;
}
