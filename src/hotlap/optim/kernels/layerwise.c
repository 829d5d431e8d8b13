/* The steps of LAMB and LARS on the CPU, for float and double; called by calls.py. build.py defines
 * SPLIT. */

#include <limits.h>
#include <math.h>

#ifdef _OPENMP
#include <omp.h>
#define THREAD omp_get_thread_num()
#define TEAM omp_get_num_threads()
#else
#define THREAD 0
#define TEAM 1
#endif

#define BLOCK 4096

/* step: how many were made, this one included once it has begun. */
typedef struct {
    void *weight, *grad, *first, *second;
    float *step;
    long size, adapt;
} Tensor;

/* scale: what gradients are multiplied by; low, high: bounds of LAMB's weight norm;
 * corrected: whether moments are to be divided by 1 - beta^step; apart: LARS's decay of weights
 * beside the gradient. */
typedef struct {
    double lr, decay, scale, eps, beta1, beta2, corrected, low, high, momentum, trust, apart;
} Options;

#define REAL float
#define ROOT sqrtf
#define NAME(name) name##_float
#include "step.h"
#undef REAL
#undef ROOT
#undef NAME

#define REAL double
#define ROOT sqrt
#define NAME(name) name##_double
#include "step.h"
