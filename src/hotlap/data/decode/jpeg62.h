/* What fused.c uses of libjpeg-turbo's interface, as libraries of ABI 6.2 have it (libjpeg.so.62).
 *
 * Declared here since the library comes with Pillow, which brings no headers. jpeg_CreateDecompress
 * compares version and size of jpeg_decompress_struct with its own and refuses another layout. */

#ifndef HOTLAP_JPEG62_H
#define HOTLAP_JPEG62_H

#include <stddef.h>

#define JPEG_LIB_VERSION 62
#define JPEG_HEADER_OK 1

enum { JCS_UNKNOWN, JCS_GRAYSCALE, JCS_RGB, JCS_YCbCr, JCS_CMYK, JCS_YCCK, JCS_EXT_RGB, JCS_EXT_RGBX };

typedef struct jpeg_error_mgr {
    void (*error_exit)(void *);
    void (*emit_message)(void *, int level);
    void (*output_message)(void *);
    void (*format_message)(void *, char *);
    void (*reset_error_mgr)(void *);
    int msg_code;
    char msg_parm[80];
    int trace_level;
    long num_warnings;
    const char *const *jpeg_message_table;
    int last_jpeg_message;
    const char *const *addon_message_table;
    int first_addon_message, last_addon_message;
} jpeg_error_mgr;

typedef struct {
    jpeg_error_mgr *err;
    void *mem, *progress, *client_data;
    int is_decompressor, global_state;
    void *src;
    unsigned image_width, image_height;
    int num_components, jpeg_color_space;
    int out_color_space;
    unsigned scale_num, scale_denom;
    double output_gamma;
    int buffered_image, raw_data_out, dct_method, do_fancy_upsampling, do_block_smoothing;
    int quantize_colors, dither_mode, two_pass_quantize, desired_number_of_colors;
    int enable_1pass_quant, enable_external_quant, enable_2pass_quant;
    unsigned output_width, output_height;
    int out_color_components, output_components, rec_outbuf_height;
    int actual_number_of_colors;
    void *colormap;
    unsigned output_scanline;
    int input_scan_number;
    unsigned input_iMCU_row;
    int output_scan_number;
    unsigned output_iMCU_row;
    void *coef_bits;
    void *quant_tbl_ptrs[4], *dc_huff_tbl_ptrs[4], *ac_huff_tbl_ptrs[4];
    int data_precision;
    void *comp_info;
    int progressive_mode, arith_code;
    unsigned char arith_dc_L[16], arith_dc_U[16], arith_ac_K[16];
    unsigned restart_interval;
    int saw_JFIF_marker;
    unsigned char JFIF_major_version, JFIF_minor_version, density_unit;
    unsigned short X_density, Y_density;
    int saw_Adobe_marker;
    unsigned char Adobe_transform;
    int CCIR601_sampling;
    void *marker_list;
    int max_h_samp_factor, max_v_samp_factor, min_DCT_scaled_size;
    unsigned total_iMCU_rows;
    void *sample_range_limit;
    int comps_in_scan;
    void *cur_comp_info[4];
    unsigned MCUs_per_row, MCU_rows_in_scan;
    int blocks_in_MCU, MCU_membership[10];
    int Ss, Se, Ah, Al;
    int unread_marker;
    void *master, *main, *coef, *post, *inputctl, *marker, *entropy, *idct, *upsample, *cconvert;
    void *cquantize;
} jpeg_decompress_struct;

/* The library's functions, in the order in which `bind` is given them (fused.py). */
typedef struct {
    jpeg_error_mgr *(*std_error)(jpeg_error_mgr *);
    void (*create)(jpeg_decompress_struct *, int version, size_t size);
    void (*destroy)(jpeg_decompress_struct *);
    void (*memory)(jpeg_decompress_struct *, const unsigned char *, unsigned long);
    int (*header)(jpeg_decompress_struct *, int require_image);
    int (*start)(jpeg_decompress_struct *);
    void (*crop)(jpeg_decompress_struct *, unsigned *offset, unsigned *width);
    unsigned (*skip)(jpeg_decompress_struct *, unsigned rows);
    unsigned (*read)(jpeg_decompress_struct *, unsigned char **, unsigned rows);
    int (*finish)(jpeg_decompress_struct *);
    void (*abort)(jpeg_decompress_struct *);
} Library;

#endif
