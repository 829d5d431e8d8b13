/* Copy rows out of mapped files; called by gather.py.
 *
 * Reading a page of a mapped file that cannot be had (the file was cut short, the disk failed)
 * raises SIGBUS. In a thread that is copying here it ends the copy; any other goes on to whoever
 * handled the signal before. */

#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512i Wide;
#define LOAD(from) _mm512_loadu_si512(from)
#define STREAM(to, value) _mm512_stream_si512(to, value)
#elif defined(__AVX__)
#include <immintrin.h>
typedef __m256i Wide;
#define LOAD(from) _mm256_loadu_si256(from)
#define STREAM(to, value) _mm256_stream_si256(to, value)
#elif defined(__SSE2__)
#include <emmintrin.h>
typedef __m128i Wide;
#define LOAD(from) _mm_loadu_si128(from)
#define STREAM(to, value) _mm_stream_si128(to, value)
#endif

#define DONE (-1)
#define UNGUARDED (-2)
#define LINE 64L
#define PAGE 4096L
#define PAGES 4

static __thread sigjmp_buf *volatile copying;
static struct sigaction before;

static void lost(int number, siginfo_t *what, void *context) {
    (void)number, (void)what, (void)context;
    if (copying)
        siglongjmp(*copying, 1);
    sigaction(SIGBUS, &before, NULL); /* what raised the signal is run again */
}

static int guarded(void) {
    struct sigaction now;
    return !sigaction(SIGBUS, NULL, &now) && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == lost;
}

/* To be called once, before any `gather`. */
void guard(void) {
    struct sigaction ours = {.sa_sigaction = lost, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, &before);
}

#ifdef STREAM
static inline void stream_line(char *out, const char *in) {
    for (int part = 0; part < LINE; part += (int)sizeof(Wide))
        STREAM((Wide *)(out + part), LOAD((const Wide *)(in + part)));
}

/* Past the caches: a batch is larger than they are, and its lines need not be read to be written.
 * A few pages side by side, since processors fetch ahead within a page only. */
static void stream(char *out, const char *in, long size) {
    long head = -(uintptr_t)out & (LINE - 1);
    if (head > size)
        head = size;
    memcpy(out, in, head);
    long at = head;
    for (; at + PAGES * PAGE <= size; at += PAGES * PAGE)
        for (long start = at; start < at + PAGE; start += LINE)
            for (long line = start; line < start + PAGES * PAGE; line += PAGE)
                stream_line(out + line, in + line);
    for (; at + LINE <= size; at += LINE)
        stream_line(out + at, in + at);
    memcpy(out + at, in + at, size - at);
}
#define FENCE _mm_sfence()
#else
#define stream memcpy
#define FENCE (void)0
#endif

/* Copy `count` rows of `size` bytes to `out`. Returns DONE, UNGUARDED when somebody else has taken
 * the signal and nothing was copied, or the number of a row that could not be read. */
long gather(char *out, const char *const *rows, long count, long size, int past_caches) {
    if (!guarded())
        return UNGUARDED;
    sigjmp_buf back;
    volatile long row = 0;
    if (sigsetjmp(back, 0)) {
        copying = NULL;
        return row;
    }
    copying = &back;
    for (; row < count; row++) {
        char *target = out + row * size;
        if (past_caches)
            stream(target, rows[row], size);
        else
            memcpy(target, rows[row], size);
    }
    copying = NULL;
    FENCE;
    return DONE;
}
