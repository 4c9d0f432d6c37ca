/* A mock of libnvidia-ml.so.1: the scenario, the setters' changes, and the physics between them. */
#ifndef MOCK_H
#define MOCK_H

#include <pthread.h>
#include <stdint.h>

#define MAX_GPUS 16
#define MAX_FAILURES 32
#define MAX_INSTANCES 7
#define MAX_PROCESSES 64
#define RING 1024
#define STATE_MAGIC 0x4e564d4c4d4f434bULL

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
       INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, IN_USE = 19, GPU_IS_LOST = 15, UNKNOWN = 999 };

enum { REASON_IDLE = 0x1, REASON_CLOCK_SETTING = 0x2, REASON_POWER_CAP = 0x4, REASON_SW_THERMAL = 0x20,
       REASON_HW_THERMAL = 0x40, REASON_POWER_BRAKE = 0x80 };

typedef struct { unsigned pid; uint64_t bytes; double load; int gpu, mps, gi; } Process;   /* gi -1: no instance */
typedef struct { char profile[32], uuid[96]; unsigned gi, ci, sms, slices; uint64_t memory_mib; } Instance;

/* Read from the scenario; calls can't change it. */
typedef struct {
    char name[96], uuid[96], serial[32], pci[32];
    int arch, cc_major, cc_minor;
    unsigned sms, cores, memory_mib, used_mib;
    int ecc, mig, persistence, gpm, mem_lockable, averages;
    unsigned clock_min, clock_base, clock_boost, clock_idle, mem_clock;
    double clock_step;
    double limit_min_w, limit_default_w, limit_max_w;
    double idle_w, busy_w, knee_mhz, leak_w_per_c;         /* busy_w: dynamic power at the boost clock and full load */
    double die_dynamic, die_leakage;
    double ambient_c, fast_c_per_w, fast_s, slow_c_per_w, slow_s, slowdown_c;
    double update_s, window_s, noise_w;
    double load, tensor, dram;                             /* activity; tensor and dram as shares of the load */
    double stuck_w, gain;
    int lost, power_brake, energy_epoch;
    Instance instances[MAX_INSTANCES];
    int n_instances;
    Process processes[MAX_PROCESSES];
    int n_processes;
} Gpu;

typedef struct {
    char driver[64], nvml[64];
    int cuda, root, init_error, n_gpus, n_failures;
    struct { char function[64]; int code; } failures[MAX_FAILURES];
    Gpu gpus[MAX_GPUS];
} Scenario;

/* Changed by calls and time: one file, mapped by every process. */
typedef struct {
    char name[96];                                         /* whose state this is: another card starts fresh */
    int lock_set, mem_lock_set, persistence, mig, mig_pending, compute_mode, energy_epoch;
    int scenario_persistence, scenario_mig;                /* last values there; a change there overrides a setter */
    unsigned lock_min, lock_max, mem_lock_min, mem_lock_max;
    double limit_w, load;
    int64_t now_ns;
    double energy_j, energy_base_j, fast_c, slow_c, power_w, clock_mhz;
    uint64_t reasons;
    uint64_t capped_ns, sw_thermal_ns, hw_thermal_ns, brake_ns;
    double active_s, pcie_tx, pcie_rx;                     /* integral of the load; bytes */
    int64_t ring_ns[RING];
    double ring_j[RING];
    uint64_t ring_n;
} Live;

typedef struct {
    uint64_t magic;
    pthread_mutex_t mutex;
    Live gpus[MAX_GPUS];
} State;

extern Scenario scenario;
extern State *state;
extern Process clients[MAX_PROCESSES];
extern int n_clients;

int enter(const char *function);                           /* 0, or the injected error; holds the lock if 0 */
int leave(int code);
int64_t now_ns(void);

void begin_live(Live *live, const Gpu *gpu);
void advance(Live *live, const Gpu *gpu, int64_t until_ns);
double shown_power_w(const Live *live, const Gpu *gpu, double window_s);
double shown_energy_j(const Live *live, const Gpu *gpu);
double temperature_c(const Live *live, const Gpu *gpu);

#endif
