#include <compass/dsl.h>

__kernel void k000_conv__Conv(__global float* restrict x, __global float* restrict weights, __global float* restrict out, __global float* restrict extras_0, int batch, int in_d, int in_h, int in_w, int channels, int out_d, int out_h, int out_w, int groups, int group_in, int group_out, int kernel_d, int kernel_h, int kernel_w, int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w, int dilation_d, int dilation_h, int dilation_w, int merge, int block_rows, int ldc);
_CLC_NOINLINE void k000_conv__Conv_conv_tile_6(__global float* x, long x_at, long pixel_stride, long tap_stride, long line_stride, long depth_stride, __global float* w, int w_tap, int w_line, int w_depth, int depths, int lines, int left, int middle, int right, int repeat, int count, int position, int in_w, int stride_w, int dilation_w, __global float* extras_0, __global float* out, int row_offset, int ldc, int n, int columns);

__kernel void k000_conv__Conv(__global float* restrict x, __global float* restrict weights, __global float* restrict out, __global float* restrict extras_0, int batch, int in_d, int in_h, int in_w, int channels, int out_d, int out_h, int out_w, int groups, int group_in, int group_out, int kernel_d, int kernel_h, int kernel_w, int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w, int dilation_d, int dilation_h, int dilation_w, int merge, int block_rows, int ldc) {
  int tid = get_local_id(0);
  int tec_count = get_local_size(0);
  int panels = ((group_out + 7) / 8);
  int all_panels = (groups * panels);
  int out_rows = ((batch * out_d) * out_h);
  int row_first = 0;
  int row_last = out_rows;
  int block = out_rows;
  int unit_first = 0;
  int unit_last = (all_panels * out_rows);
  if (out_rows >= (tec_count * 7)) {
    int first = ((tid * (out_rows / tec_count)) + min(tid, (out_rows % tec_count)));
    int last = (first + (out_rows / tec_count));
    if (tid < (out_rows % tec_count)) {
      last = (last + 1);
    }
    row_first = first;
    row_last = last;
    block = max(min(block_rows, out_rows), 1);
  } else {
    int units = (((unit_last + tec_count) - 1) / tec_count);
    unit_first = min((tid * units), unit_last);
    unit_last = min((unit_first + units), unit_last);
  }
  int row_first_1 = row_first;
  int row_last_1 = row_last;
  int block_1 = block;
  int unit_first_1 = unit_first;
  int unit_last_1 = unit_last;
  int panel_first = (unit_first_1 / max(out_rows, 1));
  int panel_last = (((unit_last_1 + max(out_rows, 1)) - 1) / max(out_rows, 1));
  int w_tap = (group_in * 8);
  for (int block_first = row_first_1; block_first < row_first_1+(row_last_1 - row_first_1); block_first += block_1) {
    for (int panel = panel_first; panel < panel_first+(panel_last - panel_first); panel += 1) {
      int group = (panel / panels);
      int n = ((group * group_out) + ((panel % panels) * 8));
      int columns = (group_out - ((panel % panels) * 8));
      __global float* w_panel = (weights + (panel * (((kernel_d * kernel_h) * kernel_w) * w_tap)));
      for (int row = max(block_first, (unit_first_1 - (panel * out_rows))); row < max(block_first, (unit_first_1 - (panel * out_rows)))+(min(min((block_first + block_1), row_last_1), (unit_last_1 - (panel * out_rows))) - max(block_first, (unit_first_1 - (panel * out_rows)))); row += 1) {
        int oh = (row % out_h);
        int od = ((row / out_h) % out_d);
        int image = (row / (out_h * out_d));
        int top = ((oh * stride_h) - pad_h);
        int front = ((od * stride_d) - pad_d);
        int distance = max((top * -1), 0);
        int count = distance;
        if (dilation_h != 1) {
          count = (((distance + dilation_h) - 1) / dilation_h);
        }
        int kh = count;
        int distance_1 = max((in_h - top), 0);
        int count_1 = distance_1;
        if (dilation_h != 1) {
          count_1 = (((distance_1 + dilation_h) - 1) / dilation_h);
        }
        int lines = max((min(kernel_h, count_1) - kh), 0);
        int distance_2 = max((front * -1), 0);
        int count_2 = distance_2;
        if (dilation_d != 1) {
          count_2 = (((distance_2 + dilation_d) - 1) / dilation_d);
        }
        int kd = count_2;
        int distance_3 = max((in_d - front), 0);
        int count_3 = distance_3;
        if (dilation_d != 1) {
          count_3 = (((distance_3 + dilation_d) - 1) / dilation_d);
        }
        int depths = max((min(kernel_d, count_3) - kd), 0);
        __global float* x_line = (x + (((((((((image * in_d) + front) + (kd * dilation_d)) * in_h) + top) + (kh * dilation_h)) * in_w) * channels) + (group * group_in)));
        __global float* w_line = (w_panel + (((kd * kernel_h) + kh) * (kernel_w * w_tap)));
        int line_stride = ((dilation_h * in_w) * channels);
        int depth_stride = (((dilation_d * in_h) * in_w) * channels);
        int w_line_stride = (kernel_w * w_tap);
        int w_depth_stride = ((kernel_h * kernel_w) * w_tap);
        int row_offset = ((row * out_w) * ldc);
        int tiles = max(((out_w + 5) / 6), 1);
        int column = 0;
        for (int tile = 0; tile < tiles; tile += 1) {
          int end = (column + (out_w / tiles));
          if (tile < (out_w % tiles)) {
            end = (end + 1);
          }
          while ((column < end)){
            int position = ((column * stride_w) - pad_w);
            int distance_4 = max((position * -1), 0);
            int count_4 = distance_4;
            if (dilation_w != 1) {
              count_4 = (((distance_4 + dilation_w) - 1) / dilation_w);
            }
            int left = min(count_4, kernel_w);
            int final = (position + (stride_w * 5));
            int distance_5 = max((in_w - final), 0);
            int count_5 = distance_5;
            if (dilation_w != 1) {
              count_5 = (((distance_5 + dilation_w) - 1) / dilation_w);
            }
            int right = (kernel_w - min(count_5, kernel_w));
            int middle = ((kernel_w - left) - right);
            int repeat = middle;
            int count_6 = group_in;
            if (merge != 0) {
              repeat = min(middle, 1);
              count_6 = (middle * group_in);
            }
            k000_conv__Conv_conv_tile_6(x_line, (long)(position * channels), (long)(stride_w * channels), (long)(dilation_w * channels), (long)line_stride, (long)depth_stride, w_line, w_tap, w_line_stride, w_depth_stride, depths, lines, left, middle, right, repeat, count_6, position, in_w, stride_w, dilation_w, extras_0, out, (row_offset + (column * ldc)), ldc, n, columns);
            column = (column + 6);
          }
        }
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

_CLC_NOINLINE void k000_conv__Conv_conv_tile_6(__global float* x, long x_at, long pixel_stride, long tap_stride, long line_stride, long depth_stride, __global float* w, int w_tap, int w_line, int w_depth, int depths, int lines, int left, int middle, int right, int repeat, int count, int position, int in_w, int stride_w, int dilation_w, __global float* extras_0, __global float* out, int row_offset, int ldc, int n, int columns) {
  float4 acc0 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc1 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc2 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc3 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc4 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc5 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc6 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc7 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc8 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc9 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc10 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc11 = (float4)0x0p+0f/*0.000000e+00*/;
  acc0 = (float4)0x0p+0f/*0.000000e+00*/;
  acc1 = (float4)0x0p+0f/*0.000000e+00*/;
  acc2 = (float4)0x0p+0f/*0.000000e+00*/;
  acc3 = (float4)0x0p+0f/*0.000000e+00*/;
  acc4 = (float4)0x0p+0f/*0.000000e+00*/;
  acc5 = (float4)0x0p+0f/*0.000000e+00*/;
  acc6 = (float4)0x0p+0f/*0.000000e+00*/;
  acc7 = (float4)0x0p+0f/*0.000000e+00*/;
  acc8 = (float4)0x0p+0f/*0.000000e+00*/;
  acc9 = (float4)0x0p+0f/*0.000000e+00*/;
  acc10 = (float4)0x0p+0f/*0.000000e+00*/;
  acc11 = (float4)0x0p+0f/*0.000000e+00*/;
  for (int kd = 0; kd < depths; kd += 1) {
    for (int kh = 0; kh < lines; kh += 1) {
      long x_line = (long)((long)(x_at + (long)((long)kd * depth_stride)) + (long)((long)kh * line_stride));
      int w_at = ((kd * w_depth) + (kh * w_line));
      for (int tap = 0; tap < left; tap += 1) {
        int outside = ((position * -1) - (tap * dilation_w));
        if ((outside > 0) && (outside <= stride_w)) {
          long x_base = (long)(x_line + (long)((long)tap * tap_stride));
          int w_base = (w_at + (tap * w_tap));
          int count_1 = (w_tap / 8);
          float4 wv0 = (float4)0x0p+0f/*0.000000e+00*/;
          float4 wv1 = (float4)0x0p+0f/*0.000000e+00*/;
          __global float* a = (x + (long)(x_base + pixel_stride));
          __global float* bases_1 = (a + (long)(pixel_stride * (long)4));
          for (int t = 0; t < count_1; t += 1) {
            wv0 = ((__global float4*)(w + (w_base + (t * 8))))[0];
            wv1 = ((__global float4*)(w + ((w_base + (t * 8)) + 4)))[0];
            long at = (long)t;
            float left_1 = a[at];
            float4 acc = acc2;
            float4 vector = wv0;
            acc2 = (acc + ((float4)left_1 * vector));
            float4 acc_1 = acc3;
            float4 vector_1 = wv1;
            acc3 = (acc_1 + ((float4)left_1 * vector_1));
            long at_1 = (long)t;
            float left_2 = a[(long)(pixel_stride + at_1)];
            float4 acc_2 = acc4;
            float4 vector_2 = wv0;
            acc4 = (acc_2 + ((float4)left_2 * vector_2));
            float4 acc_3 = acc5;
            float4 vector_3 = wv1;
            acc5 = (acc_3 + ((float4)left_2 * vector_3));
            long at_2 = (long)t;
            float left_3 = a[(long)((long)(pixel_stride * (long)2) + at_2)];
            float4 acc_4 = acc6;
            float4 vector_4 = wv0;
            acc6 = (acc_4 + ((float4)left_3 * vector_4));
            float4 acc_5 = acc7;
            float4 vector_5 = wv1;
            acc7 = (acc_5 + ((float4)left_3 * vector_5));
            long at_3 = (long)t;
            float left_4 = a[(long)((long)(pixel_stride * (long)3) + at_3)];
            float4 acc_6 = acc8;
            float4 vector_6 = wv0;
            acc8 = (acc_6 + ((float4)left_4 * vector_6));
            float4 acc_7 = acc9;
            float4 vector_7 = wv1;
            acc9 = (acc_7 + ((float4)left_4 * vector_7));
            long at_4 = (long)t;
            float left_5 = bases_1[at_4];
            float4 acc_8 = acc10;
            float4 vector_8 = wv0;
            acc10 = (acc_8 + ((float4)left_5 * vector_8));
            float4 acc_9 = acc11;
            float4 vector_9 = wv1;
            acc11 = (acc_9 + ((float4)left_5 * vector_9));
          }
        }
      }
      for (int tap_1 = 0; tap_1 < repeat; tap_1 += 1) {
        long x_base_1 = (long)(x_line + (long)((long)(left + tap_1) * tap_stride));
        int w_base_1 = (w_at + ((left + tap_1) * w_tap));
        float4 wv0_1 = (float4)0x0p+0f/*0.000000e+00*/;
        float4 wv1_1 = (float4)0x0p+0f/*0.000000e+00*/;
        __global float* a_1 = (x + x_base_1);
        __global float* bases_1_1 = (a_1 + (long)(pixel_stride * (long)4));
        for (int t_1 = 0; t_1 < count; t_1 += 1) {
          wv0_1 = ((__global float4*)(w + (w_base_1 + (t_1 * 8))))[0];
          wv1_1 = ((__global float4*)(w + ((w_base_1 + (t_1 * 8)) + 4)))[0];
          long at_5 = (long)t_1;
          float left_6 = a_1[at_5];
          float4 acc_10 = acc0;
          float4 vector_10 = wv0_1;
          acc0 = (acc_10 + ((float4)left_6 * vector_10));
          float4 acc_11 = acc1;
          float4 vector_11 = wv1_1;
          acc1 = (acc_11 + ((float4)left_6 * vector_11));
          long at_6 = (long)t_1;
          float left_7 = a_1[(long)(pixel_stride + at_6)];
          float4 acc_12 = acc2;
          float4 vector_12 = wv0_1;
          acc2 = (acc_12 + ((float4)left_7 * vector_12));
          float4 acc_13 = acc3;
          float4 vector_13 = wv1_1;
          acc3 = (acc_13 + ((float4)left_7 * vector_13));
          long at_7 = (long)t_1;
          float left_8 = a_1[(long)((long)(pixel_stride * (long)2) + at_7)];
          float4 acc_14 = acc4;
          float4 vector_14 = wv0_1;
          acc4 = (acc_14 + ((float4)left_8 * vector_14));
          float4 acc_15 = acc5;
          float4 vector_15 = wv1_1;
          acc5 = (acc_15 + ((float4)left_8 * vector_15));
          long at_8 = (long)t_1;
          float left_9 = a_1[(long)((long)(pixel_stride * (long)3) + at_8)];
          float4 acc_16 = acc6;
          float4 vector_16 = wv0_1;
          acc6 = (acc_16 + ((float4)left_9 * vector_16));
          float4 acc_17 = acc7;
          float4 vector_17 = wv1_1;
          acc7 = (acc_17 + ((float4)left_9 * vector_17));
          long at_9 = (long)t_1;
          float left_10 = bases_1_1[at_9];
          float4 acc_18 = acc8;
          float4 vector_18 = wv0_1;
          acc8 = (acc_18 + ((float4)left_10 * vector_18));
          float4 acc_19 = acc9;
          float4 vector_19 = wv1_1;
          acc9 = (acc_19 + ((float4)left_10 * vector_19));
          long at_10 = (long)t_1;
          float left_11 = bases_1_1[(long)(pixel_stride + at_10)];
          float4 acc_20 = acc10;
          float4 vector_20 = wv0_1;
          acc10 = (acc_20 + ((float4)left_11 * vector_20));
          float4 acc_21 = acc11;
          float4 vector_21 = wv1_1;
          acc11 = (acc_21 + ((float4)left_11 * vector_21));
        }
      }
      for (int tap_2 = (left + middle); tap_2 < (left + middle)+right; tap_2 += 1) {
        int inside = ((in_w - position) - (tap_2 * dilation_w));
        if ((inside > (stride_w * 4)) && (inside <= (stride_w * 5))) {
          long x_base_2 = (long)(x_line + (long)((long)tap_2 * tap_stride));
          int w_base_2 = (w_at + (tap_2 * w_tap));
          int count_2 = (w_tap / 8);
          float4 wv0_2 = (float4)0x0p+0f/*0.000000e+00*/;
          float4 wv1_2 = (float4)0x0p+0f/*0.000000e+00*/;
          __global float* a_2 = (x + x_base_2);
          __global float* bases_1_2 = (a_2 + (long)(pixel_stride * (long)4));
          for (int t_2 = 0; t_2 < count_2; t_2 += 1) {
            wv0_2 = ((__global float4*)(w + (w_base_2 + (t_2 * 8))))[0];
            wv1_2 = ((__global float4*)(w + ((w_base_2 + (t_2 * 8)) + 4)))[0];
            long at_11 = (long)t_2;
            float left_12 = a_2[at_11];
            float4 acc_22 = acc0;
            float4 vector_22 = wv0_2;
            acc0 = (acc_22 + ((float4)left_12 * vector_22));
            float4 acc_23 = acc1;
            float4 vector_23 = wv1_2;
            acc1 = (acc_23 + ((float4)left_12 * vector_23));
            long at_12 = (long)t_2;
            float left_13 = a_2[(long)(pixel_stride + at_12)];
            float4 acc_24 = acc2;
            float4 vector_24 = wv0_2;
            acc2 = (acc_24 + ((float4)left_13 * vector_24));
            float4 acc_25 = acc3;
            float4 vector_25 = wv1_2;
            acc3 = (acc_25 + ((float4)left_13 * vector_25));
            long at_13 = (long)t_2;
            float left_14 = a_2[(long)((long)(pixel_stride * (long)2) + at_13)];
            float4 acc_26 = acc4;
            float4 vector_26 = wv0_2;
            acc4 = (acc_26 + ((float4)left_14 * vector_26));
            float4 acc_27 = acc5;
            float4 vector_27 = wv1_2;
            acc5 = (acc_27 + ((float4)left_14 * vector_27));
            long at_14 = (long)t_2;
            float left_15 = a_2[(long)((long)(pixel_stride * (long)3) + at_14)];
            float4 acc_28 = acc6;
            float4 vector_28 = wv0_2;
            acc6 = (acc_28 + ((float4)left_15 * vector_28));
            float4 acc_29 = acc7;
            float4 vector_29 = wv1_2;
            acc7 = (acc_29 + ((float4)left_15 * vector_29));
            long at_15 = (long)t_2;
            float left_16 = bases_1_2[at_15];
            float4 acc_30 = acc8;
            float4 vector_30 = wv0_2;
            acc8 = (acc_30 + ((float4)left_16 * vector_30));
            float4 acc_31 = acc9;
            float4 vector_31 = wv1_2;
            acc9 = (acc_31 + ((float4)left_16 * vector_31));
          }
        }
      }
    }
  }
  if (columns >= 8) {
    float4 raw = ((__global float4*)(extras_0 + n))[0];
    float4 accumulator = acc0;
    float4 v = (accumulator + raw);
    float4 t0 = __vmax(t0, v, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
    ((__global float4*)(out + (row_offset + n)))[0] = t0;
    float4 accumulator_1 = acc2;
    int row_offset_1 = (row_offset + ldc);
    float4 v_1 = (accumulator_1 + raw);
    float4 t0_1 = __vmax(t0_1, v_1, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
    ((__global float4*)(out + (row_offset_1 + n)))[0] = t0_1;
    float4 accumulator_2 = acc4;
    int row_offset_2 = (row_offset + (ldc * 2));
    float4 v_2 = (accumulator_2 + raw);
    float4 t0_2 = __vmax(t0_2, v_2, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
    ((__global float4*)(out + (row_offset_2 + n)))[0] = t0_2;
    float4 accumulator_3 = acc6;
    int row_offset_3 = (row_offset + (ldc * 3));
    float4 v_3 = (accumulator_3 + raw);
    float4 t0_3 = __vmax(t0_3, v_3, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
    ((__global float4*)(out + (row_offset_3 + n)))[0] = t0_3;
    float4 accumulator_4 = acc8;
    int row_offset_4 = (row_offset + (ldc * 4));
    float4 v_4 = (accumulator_4 + raw);
    float4 t0_4 = __vmax(t0_4, v_4, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
    ((__global float4*)(out + (row_offset_4 + n)))[0] = t0_4;
    float4 accumulator_5 = acc10;
    int row_offset_5 = (row_offset + (ldc * 5));
    float4 v_5 = (accumulator_5 + raw);
    float4 t0_5 = __vmax(t0_5, v_5, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
    ((__global float4*)(out + (row_offset_5 + n)))[0] = t0_5;
    int n_1 = (n + 4);
    float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
    float4 accumulator_6 = acc1;
    int n_2 = (n + 4);
    float4 v_6 = (accumulator_6 + raw_1);
    float4 t0_6 = __vmax(t0_6, v_6, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
    ((__global float4*)(out + (row_offset + n_2)))[0] = t0_6;
    float4 accumulator_7 = acc3;
    int row_offset_6 = (row_offset + ldc);
    int n_3 = (n + 4);
    float4 v_7 = (accumulator_7 + raw_1);
    float4 t0_7 = __vmax(t0_7, v_7, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
    ((__global float4*)(out + (row_offset_6 + n_3)))[0] = t0_7;
    float4 accumulator_8 = acc5;
    int row_offset_7 = (row_offset + (ldc * 2));
    int n_4 = (n + 4);
    float4 v_8 = (accumulator_8 + raw_1);
    float4 t0_8 = __vmax(t0_8, v_8, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
    ((__global float4*)(out + (row_offset_7 + n_4)))[0] = t0_8;
    float4 accumulator_9 = acc7;
    int row_offset_8 = (row_offset + (ldc * 3));
    int n_5 = (n + 4);
    float4 v_9 = (accumulator_9 + raw_1);
    float4 t0_9 = __vmax(t0_9, v_9, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
    ((__global float4*)(out + (row_offset_8 + n_5)))[0] = t0_9;
    float4 accumulator_10 = acc9;
    int row_offset_9 = (row_offset + (ldc * 4));
    int n_6 = (n + 4);
    float4 v_10 = (accumulator_10 + raw_1);
    float4 t0_10 = __vmax(t0_10, v_10, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
    ((__global float4*)(out + (row_offset_9 + n_6)))[0] = t0_10;
    float4 accumulator_11 = acc11;
    int row_offset_10 = (row_offset + (ldc * 5));
    int n_7 = (n + 4);
    float4 v_11 = (accumulator_11 + raw_1);
    float4 t0_11 = __vmax(t0_11, v_11, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
    ((__global float4*)(out + (row_offset_10 + n_7)))[0] = t0_11;
  } else {
    float rows[48];
    ((float4*)rows)[0] = acc0;
    ((float4*)(rows + 4))[0] = acc1;
    ((float4*)(rows + 8))[0] = acc2;
    ((float4*)(rows + 12))[0] = acc3;
    ((float4*)(rows + 16))[0] = acc4;
    ((float4*)(rows + 20))[0] = acc5;
    ((float4*)(rows + 24))[0] = acc6;
    ((float4*)(rows + 28))[0] = acc7;
    ((float4*)(rows + 32))[0] = acc8;
    ((float4*)(rows + 36))[0] = acc9;
    ((float4*)(rows + 40))[0] = acc10;
    ((float4*)(rows + 44))[0] = acc11;
    if (columns > 0) {
      bool4 lane_mask = __tail_mask_4(min(columns, 4));
      float4 raw_2 = __vload((__global float4*)(extras_0 + n), lane_mask);
      for (int row = 0; row < 6; row += 1) {
        float4 accumulator_12 = ((float4*)(rows + (row * 8)))[0];
        int row_offset_11 = (row_offset + (row * ldc));
        float4 v_12 = (accumulator_12 + raw_2);
        float4 t0_12 = __vmax(t0_12, v_12, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
        __vstore(t0_12, (__global float4*)(out + (row_offset_11 + n)), lane_mask);
      }
    }
    if (columns > 4) {
      bool4 lane_mask_1 = __tail_mask_4(min((columns - 4), 4));
      int n_8 = (n + 4);
      float4 raw_3 = __vload((__global float4*)(extras_0 + n_8), lane_mask_1);
      for (int row_1 = 0; row_1 < 6; row_1 += 1) {
        float4 accumulator_13 = ((float4*)(rows + (((row_1 * 2) + 1) * 4)))[0];
        int row_offset_12 = (row_offset + (row_1 * ldc));
        int n_9 = (n + 4);
        float4 v_13 = (accumulator_13 + raw_3);
        float4 t0_13 = __vmax(t0_13, v_13, (float4)0x0p+0f/*0.000000e+00*/, ALL_TRUE);
        __vstore(t0_13, (__global float4*)(out + (row_offset_12 + n_9)), lane_mask_1);
      }
    }
  }
}
