#include <compass/dsl.h>

__kernel void k000_conv__Conv(__global float* restrict x, __global float* restrict weights, __global float* restrict out, __global float* restrict extras_0, int batch, int in_d, int in_h, int in_w, int channels, int out_d, int out_h, int out_w, int groups, int group_in, int group_out, int kernel_d, int kernel_h, int kernel_w, int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w, int dilation_d, int dilation_h, int dilation_w, int taps, int merged);

__kernel void k000_conv__Conv(__global float* restrict x, __global float* restrict weights, __global float* restrict out, __global float* restrict extras_0, int batch, int in_d, int in_h, int in_w, int channels, int out_d, int out_h, int out_w, int groups, int group_in, int group_out, int kernel_d, int kernel_h, int kernel_w, int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w, int dilation_d, int dilation_h, int dilation_w, int taps, int merged) {
  int tid = get_local_id(0);
  int tec_count = get_local_size(0);
  int panels = ((group_out + 7) / 8);
  int out_rows = ((batch * out_d) * out_h);
  int units = ((out_rows * groups) * panels);
  int share = (((units + tec_count) - 1) / tec_count);
  int first = (tid * share);
  int last = min((first + share), units);
  int reach = ((kernel_w - 1) * dilation_w);
  int low = min((((pad_w + stride_w) - 1) / stride_w), out_w);
  int high = low;
  if ((((in_w + pad_w) - reach) - 1) >= 0) {
    high = max(min((((((in_w + pad_w) - reach) - 1) / stride_w) + 1), out_w), low);
  }
  int ldc = (groups * group_out);
  for (int unit = first; unit < last; unit += 1) {
    int row = (unit % out_rows);
    int group = ((unit / out_rows) / panels);
    int panel = ((unit / out_rows) % panels);
    int oh = (row % out_h);
    int od = ((row / out_h) % out_d);
    int image = (row / (out_h * out_d));
    int n = ((group * group_out) + (panel * 8));
    int columns = (group_out - (panel * 8));
    int top = ((oh * stride_h) - pad_h);
    int front = ((od * stride_d) - pad_d);
    int w_panel = (((group * panels) + panel) * ((((kernel_d * kernel_h) * kernel_w) * group_in) * 8));
    int out_base = ((row * out_w) * ldc);
    for (int edge = 0; edge < ((low + out_w) - high); edge += 1) {
      int ow = edge;
      if (edge >= low) {
        ow = ((edge + high) - low);
      }
      float4 acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      for (int kd = 0; kd < kernel_d; kd += 1) {
        int depth = (front + (kd * dilation_d));
        if ((depth >= 0) && (depth < in_d)) {
          for (int kh = 0; kh < kernel_h; kh += 1) {
            int line = (top + (kh * dilation_h));
            if ((line >= 0) && (line < in_h)) {
              for (int kw = 0; kw < kernel_w; kw += 1) {
                int position = (((ow * stride_w) - pad_w) + (kw * dilation_w));
                if ((position >= 0) && (position < in_w)) {
                  int x_base = ((((((((image * in_d) + depth) * in_h) + line) * in_w) + position) * channels) + (group * group_in));
                  int w_base = (w_panel + (((((kd * kernel_h) + kh) * kernel_w) + kw) * (group_in * 8)));
                  float4 wv0 = (float4)0x0p+0f/*0.000000e+00*/;
                  float4 wv1 = (float4)0x0p+0f/*0.000000e+00*/;
                  for (int t = 0; t < group_in; t += 1) {
                    wv0 = ((__global float4*)(weights + (w_base + (t * 8))))[0];
                    wv1 = ((__global float4*)(weights + ((w_base + (t * 8)) + 4)))[0];
                    float left = x[(x_base + t)];
                    acc0 = (acc0 + ((float4)left * wv0));
                    acc1 = (acc1 + ((float4)left * wv1));
                  }
                }
              }
            }
          }
        }
      }
      int row_offset = (out_base + (ow * ldc));
      if (columns >= 8) {
        float4 accumulator = acc0;
        float4 raw = ((__global float4*)(extras_0 + n))[0];
        float4 v = (accumulator + raw);
        float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
        ((__global float4*)(out + (row_offset + n)))[0] = t0;
        float4 accumulator_1 = acc1;
        int n_1 = (n + 4);
        float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
        float4 v_1 = (accumulator_1 + raw_1);
        float4 t0_1 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_1, ALL_TRUE);
        ((__global float4*)(out + (row_offset + n_1)))[0] = t0_1;
      } else {
        if (columns > 0) {
          bool4 lane_mask = __tail_mask<4>(min(columns, 4));
          float4 accumulator = acc0;
          float4 raw = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v = (accumulator + raw);
          float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
          __vstore(t0, (__global float4*)(out + (row_offset + n)), lane_mask);
        }
        if (columns > 4) {
          bool4 lane_mask = __tail_mask<4>(min((columns - 4), 4));
          float4 accumulator = acc1;
          int n_1 = (n + 4);
          float4 raw = __vload((__global float4*)(extras_0 + n_1), lane_mask);
          float4 v = (accumulator + raw);
          float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
          __vstore(t0, (__global float4*)(out + (row_offset + n_1)), lane_mask);
        }
      }
    }
    int column = low;
    while ((column + 6) <= high){
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
      for (int kd = 0; kd < kernel_d; kd += 1) {
        int depth = (front + (kd * dilation_d));
        if ((depth >= 0) && (depth < in_d)) {
          for (int kh = 0; kh < kernel_h; kh += 1) {
            int line = (top + (kh * dilation_h));
            if ((line >= 0) && (line < in_h)) {
              int x_line = (((((((((image * in_d) + depth) * in_h) + line) * in_w) + (column * stride_w)) - pad_w) * channels) + (group * group_in));
              int w_line = (w_panel + (((kd * kernel_h) + kh) * ((kernel_w * group_in) * 8)));
              for (int tap = 0; tap < taps; tap += 1) {
                int x_base = (x_line + ((tap * dilation_w) * channels));
                int pixel_stride = (stride_w * channels);
                int w_base = (w_line + (tap * (group_in * 8)));
                float4 wv0 = (float4)0x0p+0f/*0.000000e+00*/;
                float4 wv1 = (float4)0x0p+0f/*0.000000e+00*/;
                for (int t = 0; t < merged; t += 1) {
                  wv0 = ((__global float4*)(weights + (w_base + (t * 8))))[0];
                  wv1 = ((__global float4*)(weights + ((w_base + (t * 8)) + 4)))[0];
                  float left = x[(x_base + t)];
                  acc0 = (acc0 + ((float4)left * wv0));
                  acc1 = (acc1 + ((float4)left * wv1));
                  float left_1 = x[((x_base + pixel_stride) + t)];
                  acc2 = (acc2 + ((float4)left_1 * wv0));
                  acc3 = (acc3 + ((float4)left_1 * wv1));
                  float left_2 = x[((x_base + (pixel_stride * 2)) + t)];
                  acc4 = (acc4 + ((float4)left_2 * wv0));
                  acc5 = (acc5 + ((float4)left_2 * wv1));
                  float left_3 = x[((x_base + (pixel_stride * 3)) + t)];
                  acc6 = (acc6 + ((float4)left_3 * wv0));
                  acc7 = (acc7 + ((float4)left_3 * wv1));
                  float left_4 = x[((x_base + (pixel_stride * 4)) + t)];
                  acc8 = (acc8 + ((float4)left_4 * wv0));
                  acc9 = (acc9 + ((float4)left_4 * wv1));
                  float left_5 = x[((x_base + (pixel_stride * 5)) + t)];
                  acc10 = (acc10 + ((float4)left_5 * wv0));
                  acc11 = (acc11 + ((float4)left_5 * wv1));
                }
              }
            }
          }
        }
      }
      int row_offset = (out_base + (column * ldc));
      if (columns >= 8) {
        float4 accumulator = acc0;
        float4 raw = ((__global float4*)(extras_0 + n))[0];
        float4 v = (accumulator + raw);
        float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
        ((__global float4*)(out + (row_offset + n)))[0] = t0;
        float4 accumulator_1 = acc1;
        int n_1 = (n + 4);
        float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
        float4 v_1 = (accumulator_1 + raw_1);
        float4 t0_1 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_1, ALL_TRUE);
        ((__global float4*)(out + (row_offset + n_1)))[0] = t0_1;
        float4 accumulator_2 = acc2;
        int row_offset_1 = (row_offset + ldc);
        float4 raw_2 = ((__global float4*)(extras_0 + n))[0];
        float4 v_2 = (accumulator_2 + raw_2);
        float4 t0_2 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_2, ALL_TRUE);
        ((__global float4*)(out + (row_offset_1 + n)))[0] = t0_2;
        float4 accumulator_3 = acc3;
        int row_offset_2 = (row_offset + ldc);
        int n_2 = (n + 4);
        float4 raw_3 = ((__global float4*)(extras_0 + n_2))[0];
        float4 v_3 = (accumulator_3 + raw_3);
        float4 t0_3 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_3, ALL_TRUE);
        ((__global float4*)(out + (row_offset_2 + n_2)))[0] = t0_3;
        float4 accumulator_4 = acc4;
        int row_offset_3 = (row_offset + (ldc * 2));
        float4 raw_4 = ((__global float4*)(extras_0 + n))[0];
        float4 v_4 = (accumulator_4 + raw_4);
        float4 t0_4 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_4, ALL_TRUE);
        ((__global float4*)(out + (row_offset_3 + n)))[0] = t0_4;
        float4 accumulator_5 = acc5;
        int row_offset_4 = (row_offset + (ldc * 2));
        int n_3 = (n + 4);
        float4 raw_5 = ((__global float4*)(extras_0 + n_3))[0];
        float4 v_5 = (accumulator_5 + raw_5);
        float4 t0_5 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_5, ALL_TRUE);
        ((__global float4*)(out + (row_offset_4 + n_3)))[0] = t0_5;
        float4 accumulator_6 = acc6;
        int row_offset_5 = (row_offset + (ldc * 3));
        float4 raw_6 = ((__global float4*)(extras_0 + n))[0];
        float4 v_6 = (accumulator_6 + raw_6);
        float4 t0_6 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_6, ALL_TRUE);
        ((__global float4*)(out + (row_offset_5 + n)))[0] = t0_6;
        float4 accumulator_7 = acc7;
        int row_offset_6 = (row_offset + (ldc * 3));
        int n_4 = (n + 4);
        float4 raw_7 = ((__global float4*)(extras_0 + n_4))[0];
        float4 v_7 = (accumulator_7 + raw_7);
        float4 t0_7 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_7, ALL_TRUE);
        ((__global float4*)(out + (row_offset_6 + n_4)))[0] = t0_7;
        float4 accumulator_8 = acc8;
        int row_offset_7 = (row_offset + (ldc * 4));
        float4 raw_8 = ((__global float4*)(extras_0 + n))[0];
        float4 v_8 = (accumulator_8 + raw_8);
        float4 t0_8 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_8, ALL_TRUE);
        ((__global float4*)(out + (row_offset_7 + n)))[0] = t0_8;
        float4 accumulator_9 = acc9;
        int row_offset_8 = (row_offset + (ldc * 4));
        int n_5 = (n + 4);
        float4 raw_9 = ((__global float4*)(extras_0 + n_5))[0];
        float4 v_9 = (accumulator_9 + raw_9);
        float4 t0_9 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_9, ALL_TRUE);
        ((__global float4*)(out + (row_offset_8 + n_5)))[0] = t0_9;
        float4 accumulator_10 = acc10;
        int row_offset_9 = (row_offset + (ldc * 5));
        float4 raw_10 = ((__global float4*)(extras_0 + n))[0];
        float4 v_10 = (accumulator_10 + raw_10);
        float4 t0_10 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_10, ALL_TRUE);
        ((__global float4*)(out + (row_offset_9 + n)))[0] = t0_10;
        float4 accumulator_11 = acc11;
        int row_offset_10 = (row_offset + (ldc * 5));
        int n_6 = (n + 4);
        float4 raw_11 = ((__global float4*)(extras_0 + n_6))[0];
        float4 v_11 = (accumulator_11 + raw_11);
        float4 t0_11 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_11, ALL_TRUE);
        ((__global float4*)(out + (row_offset_10 + n_6)))[0] = t0_11;
      } else {
        if (columns > 0) {
          bool4 lane_mask = __tail_mask<4>(min(columns, 4));
          float4 accumulator = acc0;
          float4 raw = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v = (accumulator + raw);
          float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
          __vstore(t0, (__global float4*)(out + (row_offset + n)), lane_mask);
          float4 accumulator_1 = acc2;
          int row_offset_1 = (row_offset + ldc);
          float4 raw_1 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_1 = (accumulator_1 + raw_1);
          float4 t0_1 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_1, ALL_TRUE);
          __vstore(t0_1, (__global float4*)(out + (row_offset_1 + n)), lane_mask);
          float4 accumulator_2 = acc4;
          int row_offset_2 = (row_offset + (ldc * 2));
          float4 raw_2 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_2 = (accumulator_2 + raw_2);
          float4 t0_2 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_2, ALL_TRUE);
          __vstore(t0_2, (__global float4*)(out + (row_offset_2 + n)), lane_mask);
          float4 accumulator_3 = acc6;
          int row_offset_3 = (row_offset + (ldc * 3));
          float4 raw_3 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_3 = (accumulator_3 + raw_3);
          float4 t0_3 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_3, ALL_TRUE);
          __vstore(t0_3, (__global float4*)(out + (row_offset_3 + n)), lane_mask);
          float4 accumulator_4 = acc8;
          int row_offset_4 = (row_offset + (ldc * 4));
          float4 raw_4 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_4 = (accumulator_4 + raw_4);
          float4 t0_4 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_4, ALL_TRUE);
          __vstore(t0_4, (__global float4*)(out + (row_offset_4 + n)), lane_mask);
          float4 accumulator_5 = acc10;
          int row_offset_5 = (row_offset + (ldc * 5));
          float4 raw_5 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_5 = (accumulator_5 + raw_5);
          float4 t0_5 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_5, ALL_TRUE);
          __vstore(t0_5, (__global float4*)(out + (row_offset_5 + n)), lane_mask);
        }
        if (columns > 4) {
          bool4 lane_mask = __tail_mask<4>(min((columns - 4), 4));
          float4 accumulator = acc1;
          int n_1 = (n + 4);
          float4 raw = __vload((__global float4*)(extras_0 + n_1), lane_mask);
          float4 v = (accumulator + raw);
          float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
          __vstore(t0, (__global float4*)(out + (row_offset + n_1)), lane_mask);
          float4 accumulator_1 = acc3;
          int row_offset_1 = (row_offset + ldc);
          int n_2 = (n + 4);
          float4 raw_1 = __vload((__global float4*)(extras_0 + n_2), lane_mask);
          float4 v_1 = (accumulator_1 + raw_1);
          float4 t0_1 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_1, ALL_TRUE);
          __vstore(t0_1, (__global float4*)(out + (row_offset_1 + n_2)), lane_mask);
          float4 accumulator_2 = acc5;
          int row_offset_2 = (row_offset + (ldc * 2));
          int n_3 = (n + 4);
          float4 raw_2 = __vload((__global float4*)(extras_0 + n_3), lane_mask);
          float4 v_2 = (accumulator_2 + raw_2);
          float4 t0_2 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_2, ALL_TRUE);
          __vstore(t0_2, (__global float4*)(out + (row_offset_2 + n_3)), lane_mask);
          float4 accumulator_3 = acc7;
          int row_offset_3 = (row_offset + (ldc * 3));
          int n_4 = (n + 4);
          float4 raw_3 = __vload((__global float4*)(extras_0 + n_4), lane_mask);
          float4 v_3 = (accumulator_3 + raw_3);
          float4 t0_3 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_3, ALL_TRUE);
          __vstore(t0_3, (__global float4*)(out + (row_offset_3 + n_4)), lane_mask);
          float4 accumulator_4 = acc9;
          int row_offset_4 = (row_offset + (ldc * 4));
          int n_5 = (n + 4);
          float4 raw_4 = __vload((__global float4*)(extras_0 + n_5), lane_mask);
          float4 v_4 = (accumulator_4 + raw_4);
          float4 t0_4 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_4, ALL_TRUE);
          __vstore(t0_4, (__global float4*)(out + (row_offset_4 + n_5)), lane_mask);
          float4 accumulator_5 = acc11;
          int row_offset_5 = (row_offset + (ldc * 5));
          int n_6 = (n + 4);
          float4 raw_5 = __vload((__global float4*)(extras_0 + n_6), lane_mask);
          float4 v_5 = (accumulator_5 + raw_5);
          float4 t0_5 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_5, ALL_TRUE);
          __vstore(t0_5, (__global float4*)(out + (row_offset_5 + n_6)), lane_mask);
        }
      }
      column = (column + 6);
    }
    while ((column + 4) <= high){
      float4 acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc2 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc3 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc4 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc5 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc6 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc7 = (float4)0x0p+0f/*0.000000e+00*/;
      acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      acc2 = (float4)0x0p+0f/*0.000000e+00*/;
      acc3 = (float4)0x0p+0f/*0.000000e+00*/;
      acc4 = (float4)0x0p+0f/*0.000000e+00*/;
      acc5 = (float4)0x0p+0f/*0.000000e+00*/;
      acc6 = (float4)0x0p+0f/*0.000000e+00*/;
      acc7 = (float4)0x0p+0f/*0.000000e+00*/;
      for (int kd = 0; kd < kernel_d; kd += 1) {
        int depth = (front + (kd * dilation_d));
        if ((depth >= 0) && (depth < in_d)) {
          for (int kh = 0; kh < kernel_h; kh += 1) {
            int line = (top + (kh * dilation_h));
            if ((line >= 0) && (line < in_h)) {
              int x_line = (((((((((image * in_d) + depth) * in_h) + line) * in_w) + (column * stride_w)) - pad_w) * channels) + (group * group_in));
              int w_line = (w_panel + (((kd * kernel_h) + kh) * ((kernel_w * group_in) * 8)));
              for (int tap = 0; tap < taps; tap += 1) {
                int x_base = (x_line + ((tap * dilation_w) * channels));
                int pixel_stride = (stride_w * channels);
                int w_base = (w_line + (tap * (group_in * 8)));
                float4 wv0 = (float4)0x0p+0f/*0.000000e+00*/;
                float4 wv1 = (float4)0x0p+0f/*0.000000e+00*/;
                for (int t = 0; t < merged; t += 1) {
                  wv0 = ((__global float4*)(weights + (w_base + (t * 8))))[0];
                  wv1 = ((__global float4*)(weights + ((w_base + (t * 8)) + 4)))[0];
                  float left = x[(x_base + t)];
                  acc0 = (acc0 + ((float4)left * wv0));
                  acc1 = (acc1 + ((float4)left * wv1));
                  float left_1 = x[((x_base + pixel_stride) + t)];
                  acc2 = (acc2 + ((float4)left_1 * wv0));
                  acc3 = (acc3 + ((float4)left_1 * wv1));
                  float left_2 = x[((x_base + (pixel_stride * 2)) + t)];
                  acc4 = (acc4 + ((float4)left_2 * wv0));
                  acc5 = (acc5 + ((float4)left_2 * wv1));
                  float left_3 = x[((x_base + (pixel_stride * 3)) + t)];
                  acc6 = (acc6 + ((float4)left_3 * wv0));
                  acc7 = (acc7 + ((float4)left_3 * wv1));
                }
              }
            }
          }
        }
      }
      int row_offset = (out_base + (column * ldc));
      if (columns >= 8) {
        float4 accumulator = acc0;
        float4 raw = ((__global float4*)(extras_0 + n))[0];
        float4 v = (accumulator + raw);
        float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
        ((__global float4*)(out + (row_offset + n)))[0] = t0;
        float4 accumulator_1 = acc1;
        int n_1 = (n + 4);
        float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
        float4 v_1 = (accumulator_1 + raw_1);
        float4 t0_1 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_1, ALL_TRUE);
        ((__global float4*)(out + (row_offset + n_1)))[0] = t0_1;
        float4 accumulator_2 = acc2;
        int row_offset_1 = (row_offset + ldc);
        float4 raw_2 = ((__global float4*)(extras_0 + n))[0];
        float4 v_2 = (accumulator_2 + raw_2);
        float4 t0_2 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_2, ALL_TRUE);
        ((__global float4*)(out + (row_offset_1 + n)))[0] = t0_2;
        float4 accumulator_3 = acc3;
        int row_offset_2 = (row_offset + ldc);
        int n_2 = (n + 4);
        float4 raw_3 = ((__global float4*)(extras_0 + n_2))[0];
        float4 v_3 = (accumulator_3 + raw_3);
        float4 t0_3 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_3, ALL_TRUE);
        ((__global float4*)(out + (row_offset_2 + n_2)))[0] = t0_3;
        float4 accumulator_4 = acc4;
        int row_offset_3 = (row_offset + (ldc * 2));
        float4 raw_4 = ((__global float4*)(extras_0 + n))[0];
        float4 v_4 = (accumulator_4 + raw_4);
        float4 t0_4 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_4, ALL_TRUE);
        ((__global float4*)(out + (row_offset_3 + n)))[0] = t0_4;
        float4 accumulator_5 = acc5;
        int row_offset_4 = (row_offset + (ldc * 2));
        int n_3 = (n + 4);
        float4 raw_5 = ((__global float4*)(extras_0 + n_3))[0];
        float4 v_5 = (accumulator_5 + raw_5);
        float4 t0_5 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_5, ALL_TRUE);
        ((__global float4*)(out + (row_offset_4 + n_3)))[0] = t0_5;
        float4 accumulator_6 = acc6;
        int row_offset_5 = (row_offset + (ldc * 3));
        float4 raw_6 = ((__global float4*)(extras_0 + n))[0];
        float4 v_6 = (accumulator_6 + raw_6);
        float4 t0_6 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_6, ALL_TRUE);
        ((__global float4*)(out + (row_offset_5 + n)))[0] = t0_6;
        float4 accumulator_7 = acc7;
        int row_offset_6 = (row_offset + (ldc * 3));
        int n_4 = (n + 4);
        float4 raw_7 = ((__global float4*)(extras_0 + n_4))[0];
        float4 v_7 = (accumulator_7 + raw_7);
        float4 t0_7 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_7, ALL_TRUE);
        ((__global float4*)(out + (row_offset_6 + n_4)))[0] = t0_7;
      } else {
        if (columns > 0) {
          bool4 lane_mask = __tail_mask<4>(min(columns, 4));
          float4 accumulator = acc0;
          float4 raw = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v = (accumulator + raw);
          float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
          __vstore(t0, (__global float4*)(out + (row_offset + n)), lane_mask);
          float4 accumulator_1 = acc2;
          int row_offset_1 = (row_offset + ldc);
          float4 raw_1 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_1 = (accumulator_1 + raw_1);
          float4 t0_1 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_1, ALL_TRUE);
          __vstore(t0_1, (__global float4*)(out + (row_offset_1 + n)), lane_mask);
          float4 accumulator_2 = acc4;
          int row_offset_2 = (row_offset + (ldc * 2));
          float4 raw_2 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_2 = (accumulator_2 + raw_2);
          float4 t0_2 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_2, ALL_TRUE);
          __vstore(t0_2, (__global float4*)(out + (row_offset_2 + n)), lane_mask);
          float4 accumulator_3 = acc6;
          int row_offset_3 = (row_offset + (ldc * 3));
          float4 raw_3 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_3 = (accumulator_3 + raw_3);
          float4 t0_3 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_3, ALL_TRUE);
          __vstore(t0_3, (__global float4*)(out + (row_offset_3 + n)), lane_mask);
        }
        if (columns > 4) {
          bool4 lane_mask = __tail_mask<4>(min((columns - 4), 4));
          float4 accumulator = acc1;
          int n_1 = (n + 4);
          float4 raw = __vload((__global float4*)(extras_0 + n_1), lane_mask);
          float4 v = (accumulator + raw);
          float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
          __vstore(t0, (__global float4*)(out + (row_offset + n_1)), lane_mask);
          float4 accumulator_1 = acc3;
          int row_offset_1 = (row_offset + ldc);
          int n_2 = (n + 4);
          float4 raw_1 = __vload((__global float4*)(extras_0 + n_2), lane_mask);
          float4 v_1 = (accumulator_1 + raw_1);
          float4 t0_1 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_1, ALL_TRUE);
          __vstore(t0_1, (__global float4*)(out + (row_offset_1 + n_2)), lane_mask);
          float4 accumulator_2 = acc5;
          int row_offset_2 = (row_offset + (ldc * 2));
          int n_3 = (n + 4);
          float4 raw_2 = __vload((__global float4*)(extras_0 + n_3), lane_mask);
          float4 v_2 = (accumulator_2 + raw_2);
          float4 t0_2 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_2, ALL_TRUE);
          __vstore(t0_2, (__global float4*)(out + (row_offset_2 + n_3)), lane_mask);
          float4 accumulator_3 = acc7;
          int row_offset_3 = (row_offset + (ldc * 3));
          int n_4 = (n + 4);
          float4 raw_3 = __vload((__global float4*)(extras_0 + n_4), lane_mask);
          float4 v_3 = (accumulator_3 + raw_3);
          float4 t0_3 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_3, ALL_TRUE);
          __vstore(t0_3, (__global float4*)(out + (row_offset_3 + n_4)), lane_mask);
        }
      }
      column = (column + 4);
    }
    while ((column + 2) <= high){
      float4 acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc2 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc3 = (float4)0x0p+0f/*0.000000e+00*/;
      acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      acc2 = (float4)0x0p+0f/*0.000000e+00*/;
      acc3 = (float4)0x0p+0f/*0.000000e+00*/;
      for (int kd = 0; kd < kernel_d; kd += 1) {
        int depth = (front + (kd * dilation_d));
        if ((depth >= 0) && (depth < in_d)) {
          for (int kh = 0; kh < kernel_h; kh += 1) {
            int line = (top + (kh * dilation_h));
            if ((line >= 0) && (line < in_h)) {
              int x_line = (((((((((image * in_d) + depth) * in_h) + line) * in_w) + (column * stride_w)) - pad_w) * channels) + (group * group_in));
              int w_line = (w_panel + (((kd * kernel_h) + kh) * ((kernel_w * group_in) * 8)));
              for (int tap = 0; tap < taps; tap += 1) {
                int x_base = (x_line + ((tap * dilation_w) * channels));
                int pixel_stride = (stride_w * channels);
                int w_base = (w_line + (tap * (group_in * 8)));
                float4 wv0 = (float4)0x0p+0f/*0.000000e+00*/;
                float4 wv1 = (float4)0x0p+0f/*0.000000e+00*/;
                for (int t = 0; t < merged; t += 1) {
                  wv0 = ((__global float4*)(weights + (w_base + (t * 8))))[0];
                  wv1 = ((__global float4*)(weights + ((w_base + (t * 8)) + 4)))[0];
                  float left = x[(x_base + t)];
                  acc0 = (acc0 + ((float4)left * wv0));
                  acc1 = (acc1 + ((float4)left * wv1));
                  float left_1 = x[((x_base + pixel_stride) + t)];
                  acc2 = (acc2 + ((float4)left_1 * wv0));
                  acc3 = (acc3 + ((float4)left_1 * wv1));
                }
              }
            }
          }
        }
      }
      int row_offset = (out_base + (column * ldc));
      if (columns >= 8) {
        float4 accumulator = acc0;
        float4 raw = ((__global float4*)(extras_0 + n))[0];
        float4 v = (accumulator + raw);
        float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
        ((__global float4*)(out + (row_offset + n)))[0] = t0;
        float4 accumulator_1 = acc1;
        int n_1 = (n + 4);
        float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
        float4 v_1 = (accumulator_1 + raw_1);
        float4 t0_1 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_1, ALL_TRUE);
        ((__global float4*)(out + (row_offset + n_1)))[0] = t0_1;
        float4 accumulator_2 = acc2;
        int row_offset_1 = (row_offset + ldc);
        float4 raw_2 = ((__global float4*)(extras_0 + n))[0];
        float4 v_2 = (accumulator_2 + raw_2);
        float4 t0_2 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_2, ALL_TRUE);
        ((__global float4*)(out + (row_offset_1 + n)))[0] = t0_2;
        float4 accumulator_3 = acc3;
        int row_offset_2 = (row_offset + ldc);
        int n_2 = (n + 4);
        float4 raw_3 = ((__global float4*)(extras_0 + n_2))[0];
        float4 v_3 = (accumulator_3 + raw_3);
        float4 t0_3 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_3, ALL_TRUE);
        ((__global float4*)(out + (row_offset_2 + n_2)))[0] = t0_3;
      } else {
        if (columns > 0) {
          bool4 lane_mask = __tail_mask<4>(min(columns, 4));
          float4 accumulator = acc0;
          float4 raw = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v = (accumulator + raw);
          float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
          __vstore(t0, (__global float4*)(out + (row_offset + n)), lane_mask);
          float4 accumulator_1 = acc2;
          int row_offset_1 = (row_offset + ldc);
          float4 raw_1 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_1 = (accumulator_1 + raw_1);
          float4 t0_1 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_1, ALL_TRUE);
          __vstore(t0_1, (__global float4*)(out + (row_offset_1 + n)), lane_mask);
        }
        if (columns > 4) {
          bool4 lane_mask = __tail_mask<4>(min((columns - 4), 4));
          float4 accumulator = acc1;
          int n_1 = (n + 4);
          float4 raw = __vload((__global float4*)(extras_0 + n_1), lane_mask);
          float4 v = (accumulator + raw);
          float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
          __vstore(t0, (__global float4*)(out + (row_offset + n_1)), lane_mask);
          float4 accumulator_1 = acc3;
          int row_offset_1 = (row_offset + ldc);
          int n_2 = (n + 4);
          float4 raw_1 = __vload((__global float4*)(extras_0 + n_2), lane_mask);
          float4 v_1 = (accumulator_1 + raw_1);
          float4 t0_1 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_1, ALL_TRUE);
          __vstore(t0_1, (__global float4*)(out + (row_offset_1 + n_2)), lane_mask);
        }
      }
      column = (column + 2);
    }
    while ((column + 1) <= high){
      float4 acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      for (int kd = 0; kd < kernel_d; kd += 1) {
        int depth = (front + (kd * dilation_d));
        if ((depth >= 0) && (depth < in_d)) {
          for (int kh = 0; kh < kernel_h; kh += 1) {
            int line = (top + (kh * dilation_h));
            if ((line >= 0) && (line < in_h)) {
              int x_line = (((((((((image * in_d) + depth) * in_h) + line) * in_w) + (column * stride_w)) - pad_w) * channels) + (group * group_in));
              int w_line = (w_panel + (((kd * kernel_h) + kh) * ((kernel_w * group_in) * 8)));
              for (int tap = 0; tap < taps; tap += 1) {
                int x_base = (x_line + ((tap * dilation_w) * channels));
                int w_base = (w_line + (tap * (group_in * 8)));
                float4 wv0 = (float4)0x0p+0f/*0.000000e+00*/;
                float4 wv1 = (float4)0x0p+0f/*0.000000e+00*/;
                for (int t = 0; t < merged; t += 1) {
                  wv0 = ((__global float4*)(weights + (w_base + (t * 8))))[0];
                  wv1 = ((__global float4*)(weights + ((w_base + (t * 8)) + 4)))[0];
                  float left = x[(x_base + t)];
                  acc0 = (acc0 + ((float4)left * wv0));
                  acc1 = (acc1 + ((float4)left * wv1));
                }
              }
            }
          }
        }
      }
      int row_offset = (out_base + (column * ldc));
      if (columns >= 8) {
        float4 accumulator = acc0;
        float4 raw = ((__global float4*)(extras_0 + n))[0];
        float4 v = (accumulator + raw);
        float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
        ((__global float4*)(out + (row_offset + n)))[0] = t0;
        float4 accumulator_1 = acc1;
        int n_1 = (n + 4);
        float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
        float4 v_1 = (accumulator_1 + raw_1);
        float4 t0_1 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v_1, ALL_TRUE);
        ((__global float4*)(out + (row_offset + n_1)))[0] = t0_1;
      } else {
        if (columns > 0) {
          bool4 lane_mask = __tail_mask<4>(min(columns, 4));
          float4 accumulator = acc0;
          float4 raw = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v = (accumulator + raw);
          float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
          __vstore(t0, (__global float4*)(out + (row_offset + n)), lane_mask);
        }
        if (columns > 4) {
          bool4 lane_mask = __tail_mask<4>(min((columns - 4), 4));
          float4 accumulator = acc1;
          int n_1 = (n + 4);
          float4 raw = __vload((__global float4*)(extras_0 + n_1), lane_mask);
          float4 v = (accumulator + raw);
          float4 t0 = __vmax((float4)0, (float4)0x0p+0f/*0.000000e+00*/, v, ALL_TRUE);
          __vstore(t0, (__global float4*)(out + (row_offset + n_1)), lane_mask);
        }
      }
      column = (column + 1);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
