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
  for (int unit = first; unit < first+(last - first); unit += 1) {
    int row = (unit / blocks);
    int c = ((unit % blocks) * 4);
    int oh = (row % out_h);
    int od = ((row / out_h) % out_d);
    int image = (row / (out_h * out_d));
    int front = ((od * stride_d) - pad_d);
    int top = ((oh * stride_h) - pad_h);
    int low_d = (((max((front * -1), 0) + dilation_d) - 1) / dilation_d);
    int high_d = min(kernel_d, (((max((in_d - front), 0) + dilation_d) - 1) / dilation_d));
    int low_h = (((max((top * -1), 0) + dilation_h) - 1) / dilation_h);
    int high_h = min(kernel_h, (((max((in_h - top), 0) + dilation_h) - 1) / dilation_h));
    __global float* x_row = (x + ((((((image * in_d) + front) * in_h) + top) * in_w) * channels));
    if ((c + 4) <= channels) {
      for (int ow = 0; ow < out_w; ow += 1) {
        int left = ((ow * stride_w) - pad_w);
        int low_w = max((left * -1), 0);
        int high_w = max((in_w - left), 0);
        int high_w_1 = min(kernel_w, high_w);
        float4 acc = (float4)-INFINITY;
        if ((((low_h == 0) && (high_h == 2)) && (low_w == 0)) && (high_w_1 == 2)) {
          __global float* line_start = (x_row + ((left * channels) + c));
          float4 value = ((__global float4*)line_start)[0];
          acc = __vmax(acc, acc, value, ALL_TRUE);
          float4 value_1 = ((__global float4*)(line_start + channels))[0];
          acc = __vmax(acc, acc, value_1, ALL_TRUE);
          __global float* line_start_1 = (x_row + (((in_w + left) * channels) + c));
          float4 value_2 = ((__global float4*)line_start_1)[0];
          acc = __vmax(acc, acc, value_2, ALL_TRUE);
          float4 value_3 = ((__global float4*)(line_start_1 + channels))[0];
          acc = __vmax(acc, acc, value_3, ALL_TRUE);
        } else {
          for (int kd = low_d; kd < low_d+(high_d - low_d); kd += 1) {
            for (int kh = low_h; kh < low_h+(high_h - low_h); kh += 1) {
              __global float* at = (x_row + (((((((kd * dilation_d) * in_h) + (kh * dilation_h)) * in_w) + left) * channels) + c));
              for (int kw = low_w; kw < low_w+(high_w_1 - low_w); kw += 1) {
                float4 value_4 = ((__global float4*)(at + ((kw * dilation_w) * channels)))[0];
                acc = __vmax(acc, acc, value_4, ALL_TRUE);
              }
            }
          }
        }
        int pixel = (((row * out_w) + ow) * channels);
        float4 value_5 = acc;
        ((__global float4*)(out + (pixel + c)))[0] = value_5;
      }
    } else {
      bool4 lane_mask = __tail_mask_4(min((channels - c), 4));
      for (int ow_1 = 0; ow_1 < out_w; ow_1 += 1) {
        int left_1 = ((ow_1 * stride_w) - pad_w);
        int low_w_1 = max((left_1 * -1), 0);
        int high_w_2 = max((in_w - left_1), 0);
        int high_w_3 = min(kernel_w, high_w_2);
        float4 acc_1 = (float4)-INFINITY;
        if ((((low_h == 0) && (high_h == 2)) && (low_w_1 == 0)) && (high_w_3 == 2)) {
          __global float* line_start_2 = (x_row + ((left_1 * channels) + c));
          float4 value_6 = __vload((__global float4*)line_start_2, lane_mask);
          acc_1 = __vmax(acc_1, acc_1, value_6, ALL_TRUE);
          float4 value_7 = __vload((__global float4*)(line_start_2 + channels), lane_mask);
          acc_1 = __vmax(acc_1, acc_1, value_7, ALL_TRUE);
          __global float* line_start_3 = (x_row + (((in_w + left_1) * channels) + c));
          float4 value_8 = __vload((__global float4*)line_start_3, lane_mask);
          acc_1 = __vmax(acc_1, acc_1, value_8, ALL_TRUE);
          float4 value_9 = __vload((__global float4*)(line_start_3 + channels), lane_mask);
          acc_1 = __vmax(acc_1, acc_1, value_9, ALL_TRUE);
        } else {
          for (int kd_1 = low_d; kd_1 < low_d+(high_d - low_d); kd_1 += 1) {
            for (int kh_1 = low_h; kh_1 < low_h+(high_h - low_h); kh_1 += 1) {
              __global float* at_1 = (x_row + (((((((kd_1 * dilation_d) * in_h) + (kh_1 * dilation_h)) * in_w) + left_1) * channels) + c));
              for (int kw_1 = low_w_1; kw_1 < low_w_1+(high_w_3 - low_w_1); kw_1 += 1) {
                float4 value_10 = __vload((__global float4*)(at_1 + ((kw_1 * dilation_w) * channels)), lane_mask);
                acc_1 = __vmax(acc_1, acc_1, value_10, ALL_TRUE);
              }
            }
          }
        }
        int pixel_1 = (((row * out_w) + ow_1) * channels);
        float4 value_11 = acc_1;
        __vstore(value_11, (__global float4*)(out + (pixel_1 + c)), lane_mask);
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
