/* The operators for the CPU. Everything is computed in double and rounded once, when it is stored.

   exp and erfc are approximated to a relative error of 1e-10, far below half a unit in the last
   place of a float (6e-8), so that an element costs a quarter of the instructions of libm's. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#define THREAD omp_get_thread_num()
#define THREADS omp_get_num_threads()
#else
#define THREAD 0
#define THREADS 1
#endif
#define PRAGMA(words) _Pragma(#words)
#define INLINE static inline __attribute__((always_inline))

typedef struct { uint16_t bits; } bfloat16;

INLINE double from_float(float x) { return x; }
INLINE float to_float(double x) { return (float)x; }
INLINE double from_bfloat16(bfloat16 x) {
  uint32_t bits = (uint32_t)x.bits << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
INLINE bfloat16 to_bfloat16(double x) {
  float value = (float)x;
  uint32_t bits;
  memcpy(&bits, &value, 4);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  bfloat16 out = {(uint16_t)(value != value ? 0x7fc0 : rounded)};
  return out;
}

/* 2^n e^r with |r| <= ln(2) / 2; the polynomial is a relative least-squares fit on Chebyshev nodes. */
INLINE double exponential(double x) {
  const double shift = 0x1.8p52;
  double held = x < -700.0 ? -700.0 : x > 700.0 ? 700.0 : x; /* NaN stays NaN */
  double k = held * 0x1.71547652b82fep0 + shift;
  double n = k - shift;
  double r = held - n * 0x1.62e42fefa39efp-1;
  double p = 0.0001976677051934154;
  p = p * r + 0.0013948251924931646;
  p = p * r + 0.008333579269049771;
  p = p * r + 0.04166622456026346;
  p = p * r + 0.16666665014311172;
  p = p * r + 0.5000000104759567;
  p = p * r + 1.000000000260143;
  p = p * r + 0.9999999999616431;
  int64_t bits;
  double scale;
  memcpy(&bits, &k, 8);
  bits = (int64_t)((uint64_t)(bits + 1023) << 52);
  memcpy(&scale, &bits, 8);
  double y = p * scale;
  return x < -700.0 ? 0.0 : x > 700.0 ? INFINITY : y;
}

/* The normal density without its 1 / sqrt(2 pi), and the normal distribution function:
   Phi(-|x|) = e^(-x^2/2) t P(t), t = 1 / (1 + 0.225 |x|); P is fitted to erfcx, |x| <= 40. */
INLINE double normal(double x, double *density) {
  double a = fabs(x), t = 1.0 / (1.0 + 0.225 * a);
  double p = -0.00969404056085589;
  p = p * t + 0.05996042485599431;
  p = p * t - 0.14531901779938844;
  p = p * t + 0.17466342749403546;
  p = p * t - 0.1349866181264852;
  p = p * t + 0.09523561189234069;
  p = p * t + 0.0012942656120620913;
  p = p * t + 0.05623852056989739;
  p = p * t + 0.06153383855139633;
  p = p * t + 0.0763498158116112;
  p = p * t + 0.08519881860856297;
  p = p * t + 0.08976296064216485;
  p = p * t + 0.08976199241680122;
  *density = exponential(-0.5 * x * x);
  double tail = *density * t * p;
  return x > 0.0 ? 1.0 - tail : tail;
}

INLINE double sigmoid(double x) { return 1.0 / (1.0 + exponential(-x)); }

INLINE double gelu_erf(double x) {
  double density;
  return x * normal(x, &density);
}
INLINE double gelu_erf_slope(double x) {
  double density, phi = normal(x, &density);
  return phi + x * density * 0.3989422804014327;
}
/* 0.5 x (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3) */
INLINE double gelu_tanh(double x) {
  return x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x));
}
INLINE double gelu_tanh_slope(double x) {
  double s = sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x));
  double slope = 1.5957691216057308 * (1.0 + 0.134145 * x * x);
  double curved = x * s * (1.0 - s) * slope;
  return s + (fabs(x) > 40.0 ? 0.0 * x : curved); /* 0 * inf at both ends */
}

#define T float
#define LOAD from_float
#define STORE to_float
#define NAME(operator) operator##_float32
#include "native_body.h"
#undef T
#undef LOAD
#undef STORE
#undef NAME

#define T bfloat16
#define LOAD from_bfloat16
#define STORE to_bfloat16
#define NAME(operator) operator##_bfloat16
#include "native_body.h"
