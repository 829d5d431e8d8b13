/* One step of LAMB and of LARS over many tensors, for one REAL; see layerwise.c.
 *
 * Both take two passes over a tensor: sums that its rate depends on, then the update. What the
 * first pass reads is still in the cache for the second. Small tensors are shared out among the
 * threads; those of SPLIT elements or more are taken by all threads together, each with a range.
 * Sums run in REAL over BLOCK elements, and in double over blocks.
 */

typedef void (*NAME(Sums))(const Tensor *, const Options *, REAL *, long, long, double *);
typedef double (*NAME(Rate))(const Tensor *, const Options *, const double *);
typedef void (*NAME(Apply))(const Tensor *, const Options *, double, const REAL *, long, long);

/* first, second: Adam's moments; update: what the weight would lose at a rate of 1;
 * sums: of update^2 and weight^2. */
static void NAME(lamb_sums)(const Tensor *t, const Options *o, REAL *update, long from, long to,
                            double *sums)
{
    const REAL *restrict w = t->weight, *restrict g = t->grad;
    REAL *restrict m = t->first, *restrict v = t->second, *restrict u = update - from;
    const REAL new1 = 1 - o->beta1, beta2 = o->beta2, new2 = 1 - o->beta2, scale = o->scale;
    const REAL by1 = o->corrected ? 1 / (1 - pow(o->beta1, *t->step)) : 1;
    const REAL by2 = o->corrected ? 1 / sqrt(1 - pow(o->beta2, *t->step)) : 1;
    const REAL eps = o->eps, decay = t->adapt ? o->decay : 0;

    for (long at = from; at < to; at += BLOCK) {
        const long end = at + BLOCK < to ? at + BLOCK : to;
        REAL uu = 0, ww = 0;
#pragma omp simd reduction(+ : uu, ww)
        for (long i = at; i < end; i++) {
            const REAL slope = scale * g[i];
            const REAL mean = m[i] + new1 * (slope - m[i]);
            const REAL square = beta2 * v[i] + new2 * slope * slope;
            const REAL step = mean * by1 / (ROOT(square) * by2 + eps) + decay * w[i];
            m[i] = mean;
            v[i] = square;
            u[i] = step;
            uu += step * step;
            ww += w[i] * w[i];
        }
        sums[0] += uu;
        sums[1] += ww;
    }
}

static double NAME(lamb_rate)(const Tensor *t, const Options *o, const double *sums)
{
    const double update = sqrt(sums[0]);
    const double weight = fmin(fmax(sqrt(sums[1]), o->low), o->high);
    return t->adapt && weight > 0 && update > 0 ? o->lr * weight / update : o->lr;
}

static void NAME(lamb_apply)(const Tensor *t, const Options *o, double rate, const REAL *update,
                             long from, long to)
{
    REAL *restrict w = t->weight;
    const REAL *restrict u = update - from, by = rate;

    (void)o;
#pragma omp simd
    for (long i = from; i < to; i++)
        w[i] -= by * u[i];
}

/* sums: of gradient^2 and weight^2, the weight after its decay apart. */
static void NAME(lars_sums)(const Tensor *t, const Options *o, REAL *unused, long from, long to,
                            double *sums)
{
    REAL *restrict w = t->weight;
    const REAL *restrict g = t->grad;
    const REAL keep = 1 - o->lr * o->apart;

    (void)unused;
    if (!t->adapt)
        return;
    for (long at = from; at < to; at += BLOCK) {
        const long end = at + BLOCK < to ? at + BLOCK : to;
        REAL gg = 0, ww = 0;
        if (o->apart) {
#pragma omp simd
            for (long i = at; i < end; i++)
                w[i] *= keep;
        }
#pragma omp simd reduction(+ : gg, ww)
        for (long i = at; i < end; i++) {
            gg += g[i] * g[i];
            ww += w[i] * w[i];
        }
        sums[0] += gg;
        sums[1] += ww;
    }
}

static double NAME(lars_rate)(const Tensor *t, const Options *o, const double *sums)
{
    const double grad = sqrt(sums[0]), weight = sqrt(sums[1]);
    if (!t->adapt || !(weight > 0 && grad > 0))
        return o->lr;
    return o->lr * o->trust * weight / (grad + o->decay * weight + o->eps);
}

static void NAME(lars_apply)(const Tensor *t, const Options *o, double rate, const REAL *unused,
                             long from, long to)
{
    REAL *restrict w = t->weight, *restrict b = t->first;
    const REAL *restrict g = t->grad, by = rate, momentum = o->momentum, scale = o->scale;
    const REAL decay = t->adapt ? o->decay : 0;

    (void)unused;
#pragma omp simd
    for (long i = from; i < to; i++) {
        const REAL moved = momentum * b[i] + by * (scale * g[i] + decay * w[i]);
        b[i] = moved;
        w[i] -= moved;
    }
}

/* scratch: room for each thread's tensor, `stride` elements apart, and for the largest of all. */
static void NAME(over)(Tensor *all, long count, const Options *o, REAL *scratch, long stride,
                       int threads, NAME(Sums) sum, NAME(Rate) rate, NAME(Apply) apply)
{
    double parts[threads][2];
    const long split = threads > 1 ? SPLIT : LONG_MAX;

    for (long k = 0; k < count; k++)
        *all[k].step += 1;
#pragma omp parallel num_threads(threads)
    {
        const long own = THREAD, team = TEAM;
        for (long k = 0; k < count; k++) {
            if (all[k].size < split)
                continue;
            const long each = (all[k].size + team - 1) / team;
            const long from = own * each < all[k].size ? own * each : all[k].size;
            const long to = from + each < all[k].size ? from + each : all[k].size;
            double total[2] = {0, 0};
            parts[own][0] = parts[own][1] = 0;
            sum(&all[k], o, scratch + from, from, to, parts[own]);
#pragma omp barrier
            for (long other = 0; other < team; other++) {
                total[0] += parts[other][0];
                total[1] += parts[other][1];
            }
            apply(&all[k], o, rate(&all[k], o, total), scratch + from, from, to);
#pragma omp barrier
        }
#pragma omp for schedule(dynamic)
        for (long k = 0; k < count; k++) {
            if (all[k].size >= split)
                continue;
            REAL *mine = scratch + own * stride;
            double total[2] = {0, 0};
            sum(&all[k], o, mine, 0, all[k].size, total);
            apply(&all[k], o, rate(&all[k], o, total), mine, 0, all[k].size);
        }
    }
}

void NAME(lamb)(Tensor *all, long count, const Options *o, REAL *scratch, long stride, int threads)
{
    NAME(over)(all, count, o, scratch, stride, threads, NAME(lamb_sums), NAME(lamb_rate), NAME(lamb_apply));
}

void NAME(lars)(Tensor *all, long count, const Options *o, REAL *scratch, long stride, int threads)
{
    NAME(over)(all, count, o, scratch, stride, threads, NAME(lars_sums), NAME(lars_rate), NAME(lars_apply));
}
