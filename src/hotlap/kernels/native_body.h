/* Included once for each dtype T. All arrays are contiguous; a row has `columns` elements.
   Functions return 0, or -1 where there was no memory. */

#define EACH(count) \
  PRAGMA(omp parallel for simd num_threads(threads) schedule(static)) \
  for (long i = 0; i < count; i++)

int NAME(gelu)(const T *restrict x, T *restrict y, long count, int tanh_form, int threads) {
  if (tanh_form) {
    EACH(count) y[i] = STORE(gelu_tanh(LOAD(x[i])));
  } else {
    EACH(count) y[i] = STORE(gelu_erf(LOAD(x[i])));
  }
  return 0;
}

int NAME(gelu_backward)(const T *restrict grad, const T *restrict x, T *restrict dx, long count,
                        int tanh_form, int threads) {
  if (tanh_form) {
    EACH(count) dx[i] = STORE(LOAD(grad[i]) * gelu_tanh_slope(LOAD(x[i])));
  } else {
    EACH(count) dx[i] = STORE(LOAD(grad[i]) * gelu_erf_slope(LOAD(x[i])));
  }
  return 0;
}

int NAME(swiglu)(const T *restrict gate, const T *restrict up, T *restrict y, long count,
                 int threads) {
  EACH(count) {
    double a = LOAD(gate[i]);
    y[i] = STORE(a * sigmoid(a) * LOAD(up[i]));
  }
  return 0;
}

int NAME(swiglu_backward)(const T *restrict grad, const T *restrict gate, const T *restrict up,
                          T *restrict dgate, T *restrict dup, long count, int threads) {
  EACH(count) {
    double g = LOAD(grad[i]), a = LOAD(gate[i]), s = sigmoid(a);
    dup[i] = STORE(g * a * s);
    dgate[i] = STORE(g * LOAD(up[i]) * s * (1.0 + a * (1.0 - s)));
  }
  return 0;
}

int NAME(softmax)(const T *restrict x, T *restrict y, long rows, long columns, int threads) {
  int failed = 0;
  PRAGMA(omp parallel num_threads(threads) reduction(|: failed)) {
    double *held = malloc((size_t)columns * sizeof(double) + 1);
    if (!held) failed = 1;
    PRAGMA(omp for schedule(static))
    for (long row = 0; row < rows; row++) {
      if (!held) continue;
      const T *from = x + row * columns;
      T *to = y + row * columns;
      double most = -INFINITY, sum = 0.0;
      PRAGMA(omp simd reduction(max: most))
      for (long i = 0; i < columns; i++) {
        double value = LOAD(from[i]);
        most = value > most ? value : most;
      }
      PRAGMA(omp simd reduction(+: sum))
      for (long i = 0; i < columns; i++) {
        double e = exponential(LOAD(from[i]) - most);
        held[i] = e;
        sum += e;
      }
      double scale = 1.0 / sum;
      PRAGMA(omp simd)
      for (long i = 0; i < columns; i++) to[i] = STORE(held[i] * scale);
    }
    free(held);
  }
  return -failed;
}

int NAME(softmax_backward)(const T *restrict grad, const T *restrict y, T *restrict dx, long rows,
                           long columns, int threads) {
  PRAGMA(omp parallel for num_threads(threads) schedule(static))
  for (long row = 0; row < rows; row++) {
    const T *g = grad + row * columns, *p = y + row * columns;
    T *to = dx + row * columns;
    double dot = 0.0;
    PRAGMA(omp simd reduction(+: dot))
    for (long i = 0; i < columns; i++) dot += LOAD(g[i]) * LOAD(p[i]);
    PRAGMA(omp simd)
    for (long i = 0; i < columns; i++) to[i] = STORE(LOAD(p[i]) * (LOAD(g[i]) - dot));
  }
  return 0;
}

/* Mean (0 where not centred) and 1 / sqrt(variance + eps) of a row in double. */
INLINE double NAME(statistics)(const double *row, long columns, double eps, int centred,
                               double *mean) {
  double sum = 0.0, squares = 0.0;
  *mean = 0.0;
  if (centred) {
    PRAGMA(omp simd reduction(+: sum))
    for (long i = 0; i < columns; i++) sum += row[i];
    *mean = sum / (double)columns;
  }
  const double middle = *mean;
  PRAGMA(omp simd reduction(+: squares))
  for (long i = 0; i < columns; i++) squares += (row[i] - middle) * (row[i] - middle);
  return 1.0 / sqrt(squares / (double)columns + eps);
}

/* `residual`, `total`, `weight` and `bias` may be null. */
int NAME(norm)(const T *restrict x, const T *restrict residual, const T *restrict weight,
               const T *restrict bias, T *restrict y, T *restrict total, long rows, long columns,
               double eps, int centred, int threads) {
  int failed = 0;
  PRAGMA(omp parallel num_threads(threads) reduction(|: failed)) {
    double *held = malloc((size_t)columns * sizeof(double) + 1);
    if (!held) failed = 1;
    PRAGMA(omp for schedule(static))
    for (long row = 0; row < rows; row++) {
      if (!held) continue;
      long at = row * columns;
      for (long i = 0; i < columns; i++) held[i] = LOAD(x[at + i]);
      if (residual) {
        for (long i = 0; i < columns; i++) held[i] += LOAD(residual[at + i]);
        for (long i = 0; i < columns; i++) total[at + i] = STORE(held[i]);
      }
      double mean, scale = NAME(statistics)(held, columns, eps, centred, &mean);
      for (long i = 0; i < columns; i++) held[i] = (held[i] - mean) * scale;
      if (weight) for (long i = 0; i < columns; i++) held[i] *= LOAD(weight[i]);
      if (bias) for (long i = 0; i < columns; i++) held[i] += LOAD(bias[i]);
      for (long i = 0; i < columns; i++) y[at + i] = STORE(held[i]);
    }
    free(held);
  }
  return -failed;
}

/* `x` is what was normalised. `grad_total`, `weight`, `dweight` and `dbias` may be null. */
int NAME(norm_backward)(const T *restrict grad, const T *restrict grad_total, const T *restrict x,
                        const T *restrict weight, T *restrict dx, T *restrict dweight,
                        T *restrict dbias, long rows, long columns, double eps, int centred,
                        int threads) {
  int failed = 0;
  double *sums = calloc((size_t)threads * 2 * columns + 1, sizeof(double));
  if (!sums) return -1;
  PRAGMA(omp parallel num_threads(threads) reduction(|: failed)) {
    double *held = malloc((size_t)columns * 2 * sizeof(double) + 1), *scaled = held + columns;
    double *of_weight = sums + (size_t)THREAD * 2 * columns, *of_bias = of_weight + columns;
    if (!held) failed = 1;
    PRAGMA(omp for schedule(static))
    for (long row = 0; row < rows; row++) {
      if (!held) continue;
      long at = row * columns;
      double mean, along = 0.0, level = 0.0;
      for (long i = 0; i < columns; i++) held[i] = LOAD(x[at + i]);
      double scale = NAME(statistics)(held, columns, eps, centred, &mean);
      for (long i = 0; i < columns; i++) held[i] = (held[i] - mean) * scale;
      for (long i = 0; i < columns; i++) scaled[i] = LOAD(grad[at + i]);
      if (dweight) for (long i = 0; i < columns; i++) of_weight[i] += scaled[i] * held[i];
      if (dbias) for (long i = 0; i < columns; i++) of_bias[i] += scaled[i];
      if (weight) for (long i = 0; i < columns; i++) scaled[i] *= LOAD(weight[i]);
      PRAGMA(omp simd reduction(+: along, level))
      for (long i = 0; i < columns; i++) {
        along += scaled[i] * held[i];
        level += scaled[i];
      }
      along /= (double)columns;
      level = centred ? level / (double)columns : 0.0;
      for (long i = 0; i < columns; i++) held[i] = (scaled[i] - level - held[i] * along) * scale;
      if (grad_total) for (long i = 0; i < columns; i++) held[i] += LOAD(grad_total[at + i]);
      for (long i = 0; i < columns; i++) dx[at + i] = STORE(held[i]);
    }
    free(held);
  }
  for (int thread = 1; thread < threads; thread++)
    for (long i = 0; i < 2 * columns; i++) sums[i] += sums[(size_t)thread * 2 * columns + i];
  if (dweight) for (long i = 0; i < columns; i++) dweight[i] = STORE(sums[i]);
  if (dbias) for (long i = 0; i < columns; i++) dbias[i] = STORE(sums[columns + i]);
  free(sums);
  return -failed;
}

/* x: (outer, length, 2 half); cosine and sine: (length, half). `sign` is -1 for the backward. */
int NAME(rotary)(const T *restrict x, const float *restrict cosine, const float *restrict sine,
                 T *restrict y, long outer, long length, long half, double sign, int threads) {
  PRAGMA(omp parallel for num_threads(threads) schedule(static))
  for (long row = 0; row < outer * length; row++) {
    const T *low = x + row * 2 * half, *high = low + half;
    const float *c = cosine + (row % length) * half, *s = sine + (row % length) * half;
    T *to = y + row * 2 * half;
    PRAGMA(omp simd)
    for (long i = 0; i < half; i++) {
      double a = LOAD(low[i]), b = LOAD(high[i]), turn = sign * s[i];
      to[i] = STORE(a * c[i] - b * turn);
      to[half + i] = STORE(b * c[i] + a * turn);
    }
  }
  return 0;
}

#undef EACH
