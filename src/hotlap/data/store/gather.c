/* Copy rows out of mapped files; called by gather.py.
 *
 * Reading a page of a mapped file that cannot be had (the file was cut short, the disk failed)
 * raises SIGBUS. In a thread that is copying here it ends the copy; any other goes on to whoever
 * handled the signal before. */

#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

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

/* Files are as long as they were: beyond the end of one, the rest of its last page is zero. */
static int whole(const unsigned *shards, long count, const int *files, const int64_t *sizes) {
    uint64_t seen = 0;
    for (long row = 0; row < count; row++) {
        unsigned shard = shards[row];
        if (shard < 64 && seen >> shard & 1)
            continue;
        if (shard < 64)
            seen |= (uint64_t)1 << shard;
        if (lseek(files[shard], 0, SEEK_END) < sizes[shard])
            return 0;
    }
    return 1;
}

/* Copy `count` rows of `size` bytes to `out`, each of one of the shards, whose descriptors and sizes
 * are those of `files` and `sizes`. Returns whether all came whole. */
int gather(char *out, const char *const *rows, const unsigned *shards, long count, long size,
           int past_caches, const int *files, const int64_t *sizes) {
    if (!guarded())
        return 0;
    sigjmp_buf back;
    if (sigsetjmp(back, 0)) {
        copying = NULL;
        return 0;
    }
    copying = &back;
    for (long row = 0; row < count; row++) {
        char *target = out + row * size;
        if (past_caches)
            stream(target, rows[row], size);
        else
            memcpy(target, rows[row], size);
    }
    copying = NULL;
    FENCE;
    return whole(shards, count, files, sizes);
}
