/* counter.h: random numbers from a counter, never from state, so that a number depends only on
 * what it is for. The mixer is the finaliser of SplitMix64 (Steele, Lea & Flood 2014). */
#ifndef HR_APP_COUNTER_H
#define HR_APP_COUNTER_H
#include <math.h>
#include <stdint.h>

static inline uint64_t hr_app_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* In (0, 1), 53 bits. */
static inline double hr_app_uniform(uint64_t key, uint64_t i)
{
    return ((double)(hr_app_mix(key ^ hr_app_mix(i)) >> 11) + 0.5) * 0x1p-53;
}

/* Standard normal (Box & Muller 1958). */
static inline float hr_app_normal(uint64_t key, uint64_t i)
{
    double u = hr_app_uniform(key, 2 * i), v = hr_app_uniform(key, 2 * i + 1);
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

#endif
