/* Clock, power and heat of one die, and its sensor readings. */
#include "mock.h"

#include <math.h>
#include <string.h>

#define STEP_NS 5000000LL
#define REMEMBERED_NS 3000000000LL
#define REGULATED 0.99

static double dynamic_share(const Gpu *gpu, double mhz) {
    /* f V(f)^2 relative to the boost clock; the voltage is flat up to the knee and rises by a quarter from there. */
    double top = gpu->clock_boost, knee = fmin(gpu->knee_mhz, top - 1);
    double volts = mhz <= knee ? 1.0 : 1.0 + 0.25 * (mhz - knee) / (top - knee);
    return (mhz * volts * volts) / (top * 1.25 * 1.25);
}

double temperature_c(const Live *live, const Gpu *gpu) { return gpu->ambient_c + live->fast_c + live->slow_c; }

static double power_at(const Live *live, const Gpu *gpu, double mhz) {
    double leak = gpu->leak_w_per_c * gpu->die_leakage * fmax(0.0, temperature_c(live, gpu) - 30.0);
    return gpu->idle_w + leak + live->load * gpu->busy_w * gpu->die_dynamic * dynamic_share(gpu, mhz);
}

static void settle(Live *live, const Gpu *gpu) {
    double top = live->lock_set ? fmin(live->lock_max, gpu->clock_boost) : gpu->clock_boost;
    live->reasons = 0;
    if (live->load <= 0.0) {
        live->clock_mhz = live->lock_set ? fmax(gpu->clock_idle, fmin(live->lock_min, top)) : gpu->clock_idle;
        live->power_w = power_at(live, gpu, live->clock_mhz);
        live->reasons = REASON_IDLE;
        return;
    }
    double by_limit = REGULATED * live->limit_w;
    double by_heat = temperature_c(live, gpu) < gpu->slowdown_c - 0.5
        ? INFINITY : (gpu->slowdown_c - gpu->ambient_c) / (gpu->fast_c_per_w + gpu->slow_c_per_w);
    double allowed = fmin(by_limit, by_heat), mhz = top;
    if (gpu->power_brake) { mhz = fmax(gpu->clock_min, top / 2); live->reasons |= REASON_POWER_BRAKE; }
    while (mhz - gpu->clock_step >= gpu->clock_min && power_at(live, gpu, mhz) > allowed) mhz -= gpu->clock_step;
    if (mhz < top && !gpu->power_brake) live->reasons |= by_heat < by_limit ? REASON_SW_THERMAL : REASON_POWER_CAP;
    if (live->lock_set && mhz >= top) live->reasons |= REASON_CLOCK_SETTING;
    live->clock_mhz = mhz;
    live->power_w = power_at(live, gpu, mhz);
}

static void remember(Live *live) {
    live->ring_ns[live->ring_n % RING] = live->now_ns;
    live->ring_j[live->ring_n % RING] = live->energy_j;
    live->ring_n++;
}

void begin_live(Live *live, const Gpu *gpu) {
    memset(live, 0, sizeof *live);
    memcpy(live->name, gpu->name, sizeof live->name);
    live->persistence = live->scenario_persistence = gpu->persistence;
    live->mig = live->mig_pending = live->scenario_mig = gpu->mig;
    live->limit_w = gpu->limit_default_w;
    live->energy_epoch = gpu->energy_epoch;
    live->load = gpu->load;
    live->energy_j = 5e5;                                  /* the driver was loaded a while ago */
    live->slow_c = gpu->slow_c_per_w * gpu->idle_w;        /* and the GPU has idled since */
    live->fast_c = gpu->fast_c_per_w * gpu->idle_w;
    live->now_ns = now_ns() - REMEMBERED_NS;
    settle(live, gpu);
    remember(live);
}

void advance(Live *live, const Gpu *gpu, int64_t until_ns) {
    while (live->now_ns < until_ns) {
        int64_t left = until_ns - live->now_ns, step = STEP_NS;
        if (left > REMEMBERED_NS) step = (left - REMEMBERED_NS) / 20 + 1;
        if (step > left) step = left;
        double dt = (double)step / 1e9;
        settle(live, gpu);
        live->energy_j += live->power_w * dt;
        live->fast_c += (gpu->fast_c_per_w * live->power_w - live->fast_c) * (1 - exp(-dt / gpu->fast_s));
        live->slow_c += (gpu->slow_c_per_w * live->power_w - live->slow_c) * (1 - exp(-dt / gpu->slow_s));
        if (live->reasons & REASON_POWER_CAP) live->capped_ns += (uint64_t)step;
        if (live->reasons & REASON_SW_THERMAL) live->sw_thermal_ns += (uint64_t)step;
        if (live->reasons & REASON_POWER_BRAKE) live->brake_ns += (uint64_t)step;
        live->active_s += live->load * dt;
        live->pcie_tx += live->load * 2e8 * dt;
        live->pcie_rx += live->load * 8e8 * dt;
        live->now_ns += step;
        remember(live);
    }
    settle(live, gpu);
}

static double energy_at(const Live *live, int64_t t_ns) {
    uint64_t n = live->ring_n, oldest = n > RING ? n - RING : 0, low = oldest, high = n - 1;
    if (t_ns <= live->ring_ns[oldest % RING]) return live->ring_j[oldest % RING];
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;
        if (live->ring_ns[middle % RING] <= t_ns) low = middle; else high = middle;
    }
    int64_t t0 = live->ring_ns[low % RING], t1 = live->ring_ns[high % RING];
    double e0 = live->ring_j[low % RING], e1 = live->ring_j[high % RING];
    return t1 == t0 ? e1 : e0 + (e1 - e0) * (double)(t_ns - t0) / (double)(t1 - t0);
}

static int64_t last_update(const Live *live, const Gpu *gpu) {
    int64_t period = (int64_t)(gpu->update_s * 1e9);
    return live->now_ns / period * period;
}

static double noise(const Gpu *gpu, int64_t tick) {
    uint64_t x = (uint64_t)tick * 0x9e3779b97f4a7c15ULL;
    for (const char *c = gpu->uuid; *c; c++) x = (x ^ (uint64_t)*c) * 0x100000001b3ULL;
    x ^= x >> 31; x *= 0xbf58476d1ce4e5b9ULL; x ^= x >> 29;
    return ((double)(x >> 11) / 9007199254740992.0 * 2 - 1) * gpu->noise_w;
}

double shown_power_w(const Live *live, const Gpu *gpu, double window_s) {
    if (gpu->stuck_w >= 0) return gpu->stuck_w;
    int64_t end = last_update(live, gpu), begin = end - (int64_t)(window_s * 1e9);
    double mean = (energy_at(live, end) - energy_at(live, begin)) / window_s;
    return mean * gpu->gain + noise(gpu, end / (int64_t)(gpu->update_s * 1e9));
}

double shown_energy_j(const Live *live, const Gpu *gpu) {
    return fmax(0.0, energy_at(live, last_update(live, gpu)) - live->energy_base_j) * gpu->gain;
}
