/* Decode, crop, resize, flip and convert one JPEG in one pass; called by fused.py.
 *
 * Only the blocks that a crop touches are transformed. Rows stream through a band of scanlines that
 * stays in the processor's cache: a band is resized vertically into one row of 16-bit values, that
 * horizontally into 8 bits, and each of these becomes a number of the batch by table. All sums are of
 * integers, so that every processor gives the same. */

#include "jpeg62.h"
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__AVX2__) && !defined(PLAIN)
#include <immintrin.h>
#endif

#define WEIGHT_BITS 14 /* a filter's weights add up to 1 << 14 */
#define ROW_BITS 6     /* a vertically resized value is 64 times a pixel's */
#define PIXEL 4        /* bytes of a decoded pixel: red, green, blue, unused */
#define AT_ONCE 8      /* scanlines asked for in one call */
#define MARGIN 8       /* columns beside the crop that its chroma is interpolated from */
#define PADDING 64     /* bytes that vector loads may read behind a row */

static Library jpeg;

/* Source pixels start[i] ... start[i] + taps - 1 make output i, by weights[i * taps + k]. */
typedef struct {
    int taps, room;
    int *start;
    int16_t *weights;
} Filter;

typedef struct {
    jpeg_decompress_struct info;
    jpeg_error_mgr errors;
    jmp_buf escape;
    char message[256];
    int ready;
    Filter down, across;
    unsigned char *band; /* the last scanlines, by turns */
    unsigned char **rows; /* those of it that make one row of the output */
    int16_t *row;         /* and what they make */
    long band_size, rows_size, row_size;
} Decoder;

/* What is wanted of an image: the box (in its pixels) is resized to height x width, of which the
 * window is kept, mirrored where `flip` says so. The image is decoded at 1 / `shrink` of its size. */
typedef struct {
    int top, left, box_height, box_width, height, width;
    int window_top, window_left, window_height, window_width, flip, shrink;
} Region;

/* One side of a box in the pixels that are decoded: the pixels it touches, and where it begins in the
 * first of them. */
typedef struct {
    int first, count;
    double origin, extent;
} Side;

static Side side(int start, int extent, int shrink) {
    Side made = {.first = start / shrink};
    made.count = (start + extent + shrink - 1) / shrink - made.first;
    made.origin = (double)start / shrink - made.first;
    made.extent = (double)extent / shrink;
    return made;
}

void bind(void *const *functions) { memcpy(&jpeg, functions, sizeof jpeg); }

static void fail(void *common) {
    Decoder *decoder = ((jpeg_decompress_struct *)common)->client_data;
    decoder->errors.format_message(common, decoder->message);
    longjmp(decoder->escape, 1);
}

/* Keep the first warning's words; libjpeg counts them. */
static void note(void *common, int level) {
    Decoder *decoder = ((jpeg_decompress_struct *)common)->client_data;
    if (level < 0 && !decoder->errors.num_warnings++)
        decoder->errors.format_message(common, decoder->message);
}

void decoder_free(Decoder *decoder) {
    if (decoder->ready)
        jpeg.destroy(&decoder->info);
    free(decoder->down.start);
    free(decoder->down.weights);
    free(decoder->across.start);
    free(decoder->across.weights);
    free(decoder->band);
    free(decoder->rows);
    free(decoder->row);
    free(decoder);
}

/* Return a decoder for one thread; NULL where memory is short or the library has another layout. */
Decoder *decoder_new(void) {
    Decoder *volatile decoder = calloc(1, sizeof *decoder);
    if (!decoder)
        return NULL;
    decoder->info.err = jpeg.std_error(&decoder->errors);
    decoder->errors.error_exit = fail;
    decoder->errors.emit_message = note;
    decoder->info.client_data = decoder;
    if (setjmp(decoder->escape)) {
        decoder_free(decoder);
        return NULL;
    }
    jpeg.create(&decoder->info, JPEG_LIB_VERSION, sizeof decoder->info);
    decoder->ready = 1;
    return decoder;
}

const char *decoder_message(const Decoder *decoder) { return decoder->message; }

/* Read a header: width, height and whether the colours are grey or YCbCr. Returns 0, or -1 and a
 * message. The data must stay until decoder_region returns. */
int decoder_header(Decoder *decoder, const unsigned char *data, unsigned long size, int *found) {
    jpeg_decompress_struct *info = &decoder->info;
    jpeg.abort(info);
    decoder->errors.num_warnings = 0;
    if (setjmp(decoder->escape))
        return -1;
    jpeg.memory(info, data, size);
    if (jpeg.header(info, 1) != JPEG_HEADER_OK)
        return -1;
    found[0] = (int)info->image_width;
    found[1] = (int)info->image_height;
    found[2] = (info->jpeg_color_space == JCS_GRAYSCALE || info->jpeg_color_space == JCS_YCbCr) &&
               info->data_precision == 8;
    return 0;
}

static void *grown(void *memory, long *have, long want) {
    if (want <= *have)
        return memory;
    free(memory);
    memory = malloc(want);
    *have = memory ? want : 0;
    return memory;
}

static double triangle(double away, double support) {
    double inside = 1 - (away < 0 ? -away : away) / support;
    return inside > 0 ? inside : 0;
}

/* PIL's triangle filter, as wide as the scale asks for, of `count` outputs from `first` on; the
 * weights of each output add up to exactly 1 << WEIGHT_BITS. Returns 0 where memory is short. */
static int prepare(Filter *filter, const Side *from, int to, int first, int count) {
    double scale = from->extent / to, support = scale > 1 ? scale : 1;
    int taps = ((int)support + 1) * 2; /* even: weights are multiplied in pairs */
    long room = (long)count * taps;
    if (room > filter->room) {
        free(filter->start);
        free(filter->weights);
        filter->start = malloc(room * sizeof *filter->start);
        filter->weights = malloc(room * sizeof *filter->weights + PADDING);
        filter->room = filter->start && filter->weights ? (int)room : 0;
        if (!filter->room)
            return 0;
    }
    filter->taps = taps;
    for (int i = 0; i < count; i++) {
        double center = from->origin + (first + i + 0.5) * scale, total = 0;
        int low = (int)(center - support + 0.5), high = (int)(center + support + 0.5);
        low = low < 0 ? 0 : low;
        high = high > from->count ? from->count : high;
        for (int at = low; at < high; at++)
            total += triangle(at + 0.5 - center, support);
        int16_t *weights = filter->weights + (long)i * taps;
        int left = 1 << WEIGHT_BITS, largest = 0;
        for (int k = 0; k < taps; k++) {
            double share = k < high - low ? triangle(low + k + 0.5 - center, support) / total : 0;
            weights[k] = (int16_t)(share * (1 << WEIGHT_BITS) + 0.5);
            left -= weights[k];
            largest = weights[k] > weights[largest] ? k : largest;
        }
        weights[largest] += (int16_t)left;
        filter->start[i] = low;
    }
    return 1;
}

/* The weighted sum of `taps` rows, 8 bits to 8 + ROW_BITS. Rows behind the image have weight 0. */
static void vertical(int16_t *out, unsigned char *const *rows, const int16_t *weights, int taps,
                     long size) {
    const int shift = WEIGHT_BITS - ROW_BITS;
    long at = 0;
#if defined(__AVX2__) && !defined(PLAIN)
    const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
    for (; at < size; at += 16) { /* rows are padded */
        __m256i low = half, high = half;
        for (int k = 0; k < taps; k += 2) {
            int pair;
            memcpy(&pair, weights + k, sizeof pair);
            __m256i weight = _mm256_set1_epi32(pair);
            __m128i a = _mm_loadu_si128((const __m128i *)(rows[k] + at));
            __m128i b = _mm_loadu_si128((const __m128i *)(rows[k + 1] + at));
            __m256i first = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
            __m256i second = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
            low = _mm256_add_epi32(low, _mm256_madd_epi16(first, weight));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(second, weight));
        }
        low = _mm256_srai_epi32(low, shift);
        high = _mm256_srai_epi32(high, shift);
        __m256i packed = _mm256_packs_epi32(low, high); /* in each half: 4 of low, 4 of high */
        packed = _mm256_permute4x64_epi64(packed, 0xD8);
        _mm256_storeu_si256((__m256i *)(out + at), packed);
    }
#else
    for (; at < size; at++) {
        int sum = 1 << (shift - 1);
        for (int k = 0; k < taps; k++)
            sum += rows[k][at] * weights[k];
        out[at] = (int16_t)(sum >> shift);
    }
#endif
}

/* One pixel of the output: red, green, blue of 8 bits each, and what is unused above them. */
static inline uint32_t horizontal(const int16_t *in, const int16_t *weights, int taps) {
    const int shift = WEIGHT_BITS + ROW_BITS;
#if defined(__AVX2__) && !defined(PLAIN)
    const __m128i pairs = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    __m128i sum = _mm_set1_epi32(1 << (shift - 1));
    for (int k = 0; k < taps; k += 2) { /* two pixels, each of four values */
        int pair;
        memcpy(&pair, weights + k, sizeof pair);
        __m128i two = _mm_loadu_si128((const __m128i *)(in + PIXEL * k));
        two = _mm_shuffle_epi8(two, pairs);
        sum = _mm_add_epi32(sum, _mm_madd_epi16(two, _mm_set1_epi32(pair)));
    }
    sum = _mm_srai_epi32(sum, shift);
    sum = _mm_packs_epi32(sum, sum);
    return (uint32_t)_mm_cvtsi128_si32(_mm_packus_epi16(sum, sum));
#else
    uint32_t pixel = 0;
    for (int c = 0; c < 3; c++) {
        int sum = 1 << (shift - 1);
        for (int k = 0; k < taps; k++)
            sum += in[PIXEL * k + c] * weights[k];
        pixel |= (uint32_t)(sum >> shift) << 8 * c;
    }
    return pixel;
#endif
}

#define ROW_AS(TYPE)                                                                               \
    static void row_as_##TYPE(TYPE *out, const int16_t *in, const Filter *filter, int count,      \
                              int flip, const TYPE *table) {                                       \
        long step = flip ? -3 : 3;                                                                 \
        out += flip ? 3L * (count - 1) : 0;                                                        \
        for (int x = 0; x < count; x++, out += step) {                                             \
            uint32_t pixel = horizontal(in + (long)PIXEL * filter->start[x],                       \
                                        filter->weights + (long)filter->taps * x, filter->taps);   \
            out[0] = table[pixel & 255];                                                           \
            out[1] = table[256 + (pixel >> 8 & 255)];                                              \
            out[2] = table[512 + (pixel >> 16 & 255)];                                             \
        }                                                                                          \
    }
ROW_AS(uint8_t)
ROW_AS(uint16_t)
ROW_AS(uint32_t)

static void row_out(void *out, int y, const int16_t *row, const Filter *filter, const Region *region,
                    int element, const void *table) {
    int count = region->window_width;
    long at = 3L * count * y;
    if (element == 4)
        row_as_uint32_t((uint32_t *)out + at, row, filter, count, region->flip, table);
    else if (element == 2)
        row_as_uint16_t((uint16_t *)out + at, row, filter, count, region->flip, table);
    else
        row_as_uint8_t((uint8_t *)out + at, row, filter, count, region->flip, table);
}

typedef struct {
    unsigned char *memory;
    long stride;
    int rows, next; /* scanlines there is room for; the next that comes */
    long offset;    /* bytes before the first column that counts */
    long width;     /* columns that count */
} Band;

static unsigned char *band_row(const Band *band, int row) {
    return band->memory + band->stride * (row % band->rows) + band->offset;
}

static void give_up(Decoder *decoder, const char *why) {
    strcpy(decoder->message, why);
    longjmp(decoder->escape, 1);
}

/* Read scanlines up to and with `last`. */
static void read_until(Decoder *decoder, Band *band, int last) {
    while (band->next <= last) {
        unsigned char *rows[AT_ONCE];
        int wanted = last + 1 - band->next;
        wanted = wanted < AT_ONCE ? wanted : AT_ONCE;
        for (int k = 0; k < wanted; k++)
            rows[k] = band_row(band, band->next + k) - band->offset;
        int got = (int)jpeg.read(&decoder->info, rows, wanted);
        if (!got)
            give_up(decoder, "no scanlines came");
        band->next += got;
    }
}

/* Make ready what a region needs; `across` becomes the columns that count. Returns 0 where memory is
 * short. */
static int filters(Decoder *decoder, const Region *region, const Side *down, Side *across) {
    Filter *filter = &decoder->across;
    if (!prepare(&decoder->down, down, region->height, region->window_top,
                 region->window_height) ||
        !prepare(filter, across, region->width, region->window_left, region->window_width))
        return 0;
    int count = region->window_width, start = filter->start[0];
    int end = filter->start[count - 1] + filter->taps;
    across->count = (end < across->count ? end : across->count) - start;
    across->first += start;
    for (int x = 0; x < count; x++)
        filter->start[x] -= start;
    return 1;
}

/* Returns 0 where memory is short. */
static int make_room(Decoder *decoder, Band *band) {
    const Filter *down = &decoder->down, *across = &decoder->across;
    band->rows = down->taps + AT_ONCE;
    band->stride = (long)decoder->info.output_width * PIXEL + 2 * PADDING;
    decoder->band = grown(decoder->band, &decoder->band_size, band->stride * band->rows);
    long row = (band->width + across->taps) * (long)(PIXEL * sizeof(int16_t)) + 2 * PADDING;
    decoder->row = grown(decoder->row, &decoder->row_size, row);
    decoder->rows = grown(decoder->rows, &decoder->rows_size, down->taps * sizeof *decoder->rows);
    if (!decoder->band || !decoder->row || !decoder->rows)
        return 0;
    memset(decoder->row, 0, row); /* what weights of 0 are multiplied with */
    band->memory = decoder->band;
    return 1;
}

static void resize(Decoder *decoder, const Region *region, int top, int end, Band *band, void *out,
                   int element, const void *table) {
    const Filter *down = &decoder->down;
    unsigned char **rows = decoder->rows;
    for (int y = 0; y < region->window_height; y++) {
        int first = top + down->start[y], last = first + down->taps - 1;
        last = last < end ? last : end - 1;
        read_until(decoder, band, last);
        for (int k = 0; k < down->taps; k++)
            rows[k] = band_row(band, first + k < end ? first + k : last);
        vertical(decoder->row, rows, down->weights + (long)down->taps * y, down->taps,
                 band->width * PIXEL);
        row_out(out, y, decoder->row, &decoder->across, region, element, table);
    }
}

/* Decode the region of the image whose header was read last.
 *
 * out: (window_height, window_width, 3) elements of `element` bytes; table: (3, 256) of these, what
 * each value of each channel becomes. Returns the number of warnings about damaged data, or -1; the
 * message is of the first. */
int decoder_region(Decoder *decoder, const Region *region, void *out, int element,
                   const void *table) {
    jpeg_decompress_struct *info = &decoder->info;
    Band band;
    Side down = side(region->top, region->box_height, region->shrink);
    Side across = side(region->left, region->box_width, region->shrink);
    volatile int complete = 0;
    if (setjmp(decoder->escape)) {
        jpeg.abort(info);
        return complete ? (int)decoder->errors.num_warnings + 1 : -1;
    }
    if (!filters(decoder, region, &down, &across))
        give_up(decoder, "not enough memory");
    info->out_color_space = JCS_EXT_RGBX;
    info->scale_num = 1;
    info->scale_denom = (unsigned)region->shrink;
    jpeg.start(info);
    long left = across.first, right = left + across.count + MARGIN;
    unsigned offset = (unsigned)(left > MARGIN ? left - MARGIN : 0);
    unsigned width = (right < info->output_width ? (unsigned)right : info->output_width) - offset;
    if (width < info->output_width)
        jpeg.crop(info, &offset, &width);
    band.offset = (left - (long)offset) * PIXEL;
    band.width = across.count;
    band.next = down.first + decoder->down.start[0];
    if (!make_room(decoder, &band))
        give_up(decoder, "not enough memory");
    if (band.next)
        jpeg.skip(info, (unsigned)band.next);
    resize(decoder, region, down.first, down.first + down.count, &band, out, element, table);
    complete = 1;
    if (info->output_scanline == info->output_height)
        jpeg.finish(info); /* which warns of what is left over */
    jpeg.abort(info);
    return (int)decoder->errors.num_warnings;
}
