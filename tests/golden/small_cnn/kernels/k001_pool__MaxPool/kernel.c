#include <compass/dsl.h>

__kernel void k001_pool__MaxPool(__global float* restrict x, __global float* restrict out, int batch, int in_d, int in_h, int in_w, int channels, int out_d, int out_h, int out_w, int kernel_d, int kernel_h, int kernel_w, int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w, int dilation_d, int dilation_h, int dilation_w, int pad_end_d, int pad_end_h, int pad_end_w, int count_padding, int column_major);

__kernel void k001_pool__MaxPool(__global float* restrict x, __global float* restrict out, int batch, int in_d, int in_h, int in_w, int channels, int out_d, int out_h, int out_w, int kernel_d, int kernel_h, int kernel_w, int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w, int dilation_d, int dilation_h, int dilation_w, int pad_end_d, int pad_end_h, int pad_end_w, int count_padding, int column_major) {
  int tid = get_local_id(0);
  int tec_count = get_local_size(0);
  int blocks = ((channels + 3) / 4);
  int out_rows = ((batch * out_d) * out_h);
  int units = (out_rows * blocks);
  int share = (((units + tec_count) - 1) / tec_count);
  int first = (tid * share);
  int last = min((first + share), units);
  for (int unit = first; unit < last; unit += 1) {
    int row = (unit % out_rows);
    int c = ((unit / out_rows) * 4);
    bool4 lane_mask = __tail_mask<4>(min((channels - c), 4));
    int oh = (row % out_h);
    int od = ((row / out_h) % out_d);
    int image = (row / (out_h * out_d));
    for (int ow = 0; ow < out_w; ow += 1) {
      float4 acc = (float4)-INFINITY;
      int taken = 0;
      int counted = 0;
      for (int kd = 0; kd < kernel_d; kd += 1) {
        int depth = (((od * stride_d) - pad_d) + (kd * dilation_d));
        for (int kh = 0; kh < kernel_h; kh += 1) {
          int line = (((oh * stride_h) - pad_h) + (kh * dilation_h));
          for (int kw = 0; kw < kernel_w; kw += 1) {
            int position = (((ow * stride_w) - pad_w) + (kw * dilation_w));
            if (((depth < (in_d + pad_end_d)) && (line < (in_h + pad_end_h))) && (position < (in_w + pad_end_w))) {
              counted = (counted + 1);
            }
            if ((((((depth >= 0) && (depth < in_d)) && (line >= 0)) && (line < in_h)) && (position >= 0)) && (position < in_w)) {
              float4 value = __vload((__global float4*)(x + ((((((((image * in_d) + depth) * in_h) + line) * in_w) + position) * channels) + c)), lane_mask);
              acc = __vmax((float4)0, acc, value, ALL_TRUE);
              taken = (taken + 1);
            }
          }
        }
      }
      int at = (((row * out_w) + ow) * channels);
      float4 value = acc;
      __vstore(value, (__global float4*)(out + (at + c)), lane_mask);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
