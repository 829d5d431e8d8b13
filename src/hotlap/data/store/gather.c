/* Copy rows out of mapped files; called by gather.py, on x86-64.
 *
 * Reading a page of a mapped file that cannot be had (the file was cut short, the disk failed)
 * raises SIGBUS. In a thread that is copying here it ends the copy; any other goes on to whoever
 * handled the signal before. */

#define _GNU_SOURCE
#include <immintrin.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#if defined(__AVX512F__)
typedef __m512i Wide;
#define LOAD(from) _mm512_loadu_si512(from)
#define STREAM(to, value) _mm512_stream_si512(to, value)
#elif defined(__AVX__)
typedef __m256i Wide;
#define LOAD(from) _mm256_loadu_si256(from)
#define STREAM(to, value) _mm256_stream_si256(to, value)
#else
typedef __m128i Wide;
#define LOAD(from) _mm_loadu_si128(from)
#define STREAM(to, value) _mm_stream_si128(to, value)
#endif

#define LINE 64L
#define PAGE 4096L
#define PAGES 4

/* Mapped files: where each begins, its descriptor, and its bytes when it was mapped. */
typedef struct {
    char *const *starts;
    const int *files;
    const int64_t *sizes;
} Maps;

static __thread sigjmp_buf *volatile copying __attribute__((tls_model("initial-exec")));
static struct sigaction before;

static void lost(int number, siginfo_t *what, void *context) {
    (void)context;
    if (copying && what->si_code > 0)
        siglongjmp(*copying, 1);
    sigaction(SIGBUS, &before, NULL); /* what raised the signal is run again */
    if (what->si_code <= 0)
        raise(number); /* somebody sent it */
}

__attribute__((constructor)) static void guard(void) {
    struct sigaction ours = {.sa_sigaction = lost, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, &before);
}

/* Nobody else has taken the signal, and this thread does not block it. */
static int guarded(void) {
    struct sigaction now;
    sigset_t blocked;
    return !sigaction(SIGBUS, NULL, &now) && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == lost && !pthread_sigmask(SIG_BLOCK, NULL, &blocked) &&
           !sigismember(&blocked, SIGBUS);
}

/* The last byte of a row can be read without the disk. */
static int in_memory(Maps maps, const char *row, unsigned shard, long size) {
    char last;
    struct iovec into = {&last, 1};
    off_t at = row - maps.starts[shard] + size - 1;
    return preadv2(maps.files[shard], &into, 1, at, RWF_NOWAIT) == 1;
}

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

/* A file is as long as it was: beyond the end of one, the rest of its last page is zero. */
static int whole(Maps maps, const unsigned *shards, long count) {
    uint64_t seen = 0;
    for (long row = 0; row < count; row++) {
        unsigned shard = shards[row];
        if (shard < 64 && seen >> shard & 1)
            continue;
        if (shard < 64)
            seen |= (uint64_t)1 << shard;
        if (lseek(maps.files[shard], 0, SEEK_END) < maps.sizes[shard])
            return 0;
    }
    return 1;
}

/* Copy `count` rows of `size` bytes, each of one of the shards, to `out`. Returns whether they were
 * in memory and all came whole. */
int gather(char *out, const char *const *rows, const unsigned *shards, long count, long size,
           int past_caches, char *const *starts, const int *files, const int64_t *sizes) {
    Maps maps = {starts, files, sizes};
    if (!guarded())
        return 0;
    for (long row = 0; row < count; row++)
        if (!in_memory(maps, rows[row], shards[row], size))
            return 0; /* its pages would come one by one */
    sigjmp_buf back;
    if (sigsetjmp(back, 0)) {
        copying = NULL;
        return 0;
    }
    copying = &back;
    atomic_signal_fence(memory_order_seq_cst);
    for (long row = 0; row < count; row++) {
        char *target = out + row * size;
        if (past_caches)
            stream(target, rows[row], size);
        else
            memcpy(target, rows[row], size);
    }
    atomic_signal_fence(memory_order_seq_cst);
    copying = NULL;
    _mm_sfence();
    return whole(maps, shards, count);
}

/* Python's own maps keep a descriptor each, of which a process may have few. */
void *map(int file, long size) {
    void *start = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    return start == MAP_FAILED ? NULL : start;
}

void unmap(void *start, long size) { munmap(start, size); }

/* The process's memory no longer counts these pages; they stay in the kernel's. */
void forget(void *start, long size) { madvise(start, size, MADV_DONTNEED); }
