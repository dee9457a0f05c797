#include <compass/dsl.h>

__kernel void k003_gemm__Gemm(__global float* restrict a, __global float* restrict b, __global float* restrict out, __global float* restrict extras_0, int batches, int rows, int columns, int depth, int lda, int a_step, int ldc, int a_batch_outer, int a_batch_inner, int b_batch_outer, int b_batch_inner, int inner_batches, int row_block, int a_zero);

__kernel void k003_gemm__Gemm(__global float* restrict a, __global float* restrict b, __global float* restrict out, __global float* restrict extras_0, int batches, int rows, int columns, int depth, int lda, int a_step, int ldc, int a_batch_outer, int a_batch_inner, int b_batch_outer, int b_batch_inner, int inner_batches, int row_block, int a_zero) {
  int tid = get_local_id(0);
  int tec_count = get_local_size(0);
  int panels = ((columns + 7) / 8);
  int row_blocks = (((rows + row_block) - 1) / row_block);
  int units = ((batches * row_blocks) * panels);
  int share = (((units + tec_count) - 1) / tec_count);
  int first = (tid * share);
  int last = min((first + share), units);
  for (int unit = first; unit < last; unit += 1) {
    int panel = (unit % panels);
    int rest = (unit / panels);
    int batch = (rest / row_blocks);
    int begin = ((rest % row_blocks) * row_block);
    int end = min((begin + row_block), rows);
    int n = (panel * 8);
    __global float* left = (a + (((batch / inner_batches) * a_batch_outer) + ((batch % inner_batches) * a_batch_inner)));
    __global float* right = (b + ((((batch / inner_batches) * b_batch_outer) + ((batch % inner_batches) * b_batch_inner)) + (panel * (depth * 8))));
    int m = begin;
    while ((m + 6) <= end){
      __global float* a_1 = (left + (m * lda));
      int row_offset = (((batch * rows) + m) * ldc);
      int columns_1 = (columns - n);
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
      float4 bv0 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 bv1 = (float4)0x0p+0f/*0.000000e+00*/;
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
      for (int k = 0; k < depth; k += 1) {
        bv0 = ((__global float4*)(right + (k * 8)))[0];
        bv1 = ((__global float4*)(right + ((k * 8) + 4)))[0];
        float left_1 = a_1[k];
        acc0 = (acc0 + ((float4)left_1 * bv0));
        acc1 = (acc1 + ((float4)left_1 * bv1));
        float left_2 = a_1[(lda + k)];
        acc2 = (acc2 + ((float4)left_2 * bv0));
        acc3 = (acc3 + ((float4)left_2 * bv1));
        float left_3 = a_1[((lda * 2) + k)];
        acc4 = (acc4 + ((float4)left_3 * bv0));
        acc5 = (acc5 + ((float4)left_3 * bv1));
        float left_4 = a_1[((lda * 3) + k)];
        acc6 = (acc6 + ((float4)left_4 * bv0));
        acc7 = (acc7 + ((float4)left_4 * bv1));
        float left_5 = a_1[((lda * 4) + k)];
        acc8 = (acc8 + ((float4)left_5 * bv0));
        acc9 = (acc9 + ((float4)left_5 * bv1));
        float left_6 = a_1[((lda * 5) + k)];
        acc10 = (acc10 + ((float4)left_6 * bv0));
        acc11 = (acc11 + ((float4)left_6 * bv1));
      }
      if (columns_1 >= 8) {
        float4 accumulator = acc0;
        float4 raw = ((__global float4*)(extras_0 + n))[0];
        float4 v = (accumulator + raw);
        ((__global float4*)(out + (row_offset + n)))[0] = v;
        float4 accumulator_1 = acc1;
        int n_1 = (n + 4);
        float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
        float4 v_1 = (accumulator_1 + raw_1);
        ((__global float4*)(out + (row_offset + n_1)))[0] = v_1;
        float4 accumulator_2 = acc2;
        int row_offset_1 = (row_offset + ldc);
        float4 raw_2 = ((__global float4*)(extras_0 + n))[0];
        float4 v_2 = (accumulator_2 + raw_2);
        ((__global float4*)(out + (row_offset_1 + n)))[0] = v_2;
        float4 accumulator_3 = acc3;
        int row_offset_2 = (row_offset + ldc);
        int n_2 = (n + 4);
        float4 raw_3 = ((__global float4*)(extras_0 + n_2))[0];
        float4 v_3 = (accumulator_3 + raw_3);
        ((__global float4*)(out + (row_offset_2 + n_2)))[0] = v_3;
        float4 accumulator_4 = acc4;
        int row_offset_3 = (row_offset + (ldc * 2));
        float4 raw_4 = ((__global float4*)(extras_0 + n))[0];
        float4 v_4 = (accumulator_4 + raw_4);
        ((__global float4*)(out + (row_offset_3 + n)))[0] = v_4;
        float4 accumulator_5 = acc5;
        int row_offset_4 = (row_offset + (ldc * 2));
        int n_3 = (n + 4);
        float4 raw_5 = ((__global float4*)(extras_0 + n_3))[0];
        float4 v_5 = (accumulator_5 + raw_5);
        ((__global float4*)(out + (row_offset_4 + n_3)))[0] = v_5;
        float4 accumulator_6 = acc6;
        int row_offset_5 = (row_offset + (ldc * 3));
        float4 raw_6 = ((__global float4*)(extras_0 + n))[0];
        float4 v_6 = (accumulator_6 + raw_6);
        ((__global float4*)(out + (row_offset_5 + n)))[0] = v_6;
        float4 accumulator_7 = acc7;
        int row_offset_6 = (row_offset + (ldc * 3));
        int n_4 = (n + 4);
        float4 raw_7 = ((__global float4*)(extras_0 + n_4))[0];
        float4 v_7 = (accumulator_7 + raw_7);
        ((__global float4*)(out + (row_offset_6 + n_4)))[0] = v_7;
        float4 accumulator_8 = acc8;
        int row_offset_7 = (row_offset + (ldc * 4));
        float4 raw_8 = ((__global float4*)(extras_0 + n))[0];
        float4 v_8 = (accumulator_8 + raw_8);
        ((__global float4*)(out + (row_offset_7 + n)))[0] = v_8;
        float4 accumulator_9 = acc9;
        int row_offset_8 = (row_offset + (ldc * 4));
        int n_5 = (n + 4);
        float4 raw_9 = ((__global float4*)(extras_0 + n_5))[0];
        float4 v_9 = (accumulator_9 + raw_9);
        ((__global float4*)(out + (row_offset_8 + n_5)))[0] = v_9;
        float4 accumulator_10 = acc10;
        int row_offset_9 = (row_offset + (ldc * 5));
        float4 raw_10 = ((__global float4*)(extras_0 + n))[0];
        float4 v_10 = (accumulator_10 + raw_10);
        ((__global float4*)(out + (row_offset_9 + n)))[0] = v_10;
        float4 accumulator_11 = acc11;
        int row_offset_10 = (row_offset + (ldc * 5));
        int n_6 = (n + 4);
        float4 raw_11 = ((__global float4*)(extras_0 + n_6))[0];
        float4 v_11 = (accumulator_11 + raw_11);
        ((__global float4*)(out + (row_offset_10 + n_6)))[0] = v_11;
      } else {
        if (columns_1 > 0) {
          bool4 lane_mask = __tail_mask<4>(min(columns_1, 4));
          float4 accumulator = acc0;
          float4 raw = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v = (accumulator + raw);
          __vstore(v, (__global float4*)(out + (row_offset + n)), lane_mask);
          float4 accumulator_1 = acc2;
          int row_offset_1 = (row_offset + ldc);
          float4 raw_1 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_1 = (accumulator_1 + raw_1);
          __vstore(v_1, (__global float4*)(out + (row_offset_1 + n)), lane_mask);
          float4 accumulator_2 = acc4;
          int row_offset_2 = (row_offset + (ldc * 2));
          float4 raw_2 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_2 = (accumulator_2 + raw_2);
          __vstore(v_2, (__global float4*)(out + (row_offset_2 + n)), lane_mask);
          float4 accumulator_3 = acc6;
          int row_offset_3 = (row_offset + (ldc * 3));
          float4 raw_3 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_3 = (accumulator_3 + raw_3);
          __vstore(v_3, (__global float4*)(out + (row_offset_3 + n)), lane_mask);
          float4 accumulator_4 = acc8;
          int row_offset_4 = (row_offset + (ldc * 4));
          float4 raw_4 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_4 = (accumulator_4 + raw_4);
          __vstore(v_4, (__global float4*)(out + (row_offset_4 + n)), lane_mask);
          float4 accumulator_5 = acc10;
          int row_offset_5 = (row_offset + (ldc * 5));
          float4 raw_5 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_5 = (accumulator_5 + raw_5);
          __vstore(v_5, (__global float4*)(out + (row_offset_5 + n)), lane_mask);
        }
        if (columns_1 > 4) {
          bool4 lane_mask = __tail_mask<4>(min((columns_1 - 4), 4));
          float4 accumulator = acc1;
          int n_1 = (n + 4);
          float4 raw = __vload((__global float4*)(extras_0 + n_1), lane_mask);
          float4 v = (accumulator + raw);
          __vstore(v, (__global float4*)(out + (row_offset + n_1)), lane_mask);
          float4 accumulator_1 = acc3;
          int row_offset_1 = (row_offset + ldc);
          int n_2 = (n + 4);
          float4 raw_1 = __vload((__global float4*)(extras_0 + n_2), lane_mask);
          float4 v_1 = (accumulator_1 + raw_1);
          __vstore(v_1, (__global float4*)(out + (row_offset_1 + n_2)), lane_mask);
          float4 accumulator_2 = acc5;
          int row_offset_2 = (row_offset + (ldc * 2));
          int n_3 = (n + 4);
          float4 raw_2 = __vload((__global float4*)(extras_0 + n_3), lane_mask);
          float4 v_2 = (accumulator_2 + raw_2);
          __vstore(v_2, (__global float4*)(out + (row_offset_2 + n_3)), lane_mask);
          float4 accumulator_3 = acc7;
          int row_offset_3 = (row_offset + (ldc * 3));
          int n_4 = (n + 4);
          float4 raw_3 = __vload((__global float4*)(extras_0 + n_4), lane_mask);
          float4 v_3 = (accumulator_3 + raw_3);
          __vstore(v_3, (__global float4*)(out + (row_offset_3 + n_4)), lane_mask);
          float4 accumulator_4 = acc9;
          int row_offset_4 = (row_offset + (ldc * 4));
          int n_5 = (n + 4);
          float4 raw_4 = __vload((__global float4*)(extras_0 + n_5), lane_mask);
          float4 v_4 = (accumulator_4 + raw_4);
          __vstore(v_4, (__global float4*)(out + (row_offset_4 + n_5)), lane_mask);
          float4 accumulator_5 = acc11;
          int row_offset_5 = (row_offset + (ldc * 5));
          int n_6 = (n + 4);
          float4 raw_5 = __vload((__global float4*)(extras_0 + n_6), lane_mask);
          float4 v_5 = (accumulator_5 + raw_5);
          __vstore(v_5, (__global float4*)(out + (row_offset_5 + n_6)), lane_mask);
        }
      }
      m = (m + 6);
    }
    while ((m + 4) <= end){
      __global float* a_1 = (left + (m * lda));
      int row_offset = (((batch * rows) + m) * ldc);
      int columns_1 = (columns - n);
      float4 acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc2 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc3 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc4 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc5 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc6 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc7 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 bv0 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 bv1 = (float4)0x0p+0f/*0.000000e+00*/;
      acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      acc2 = (float4)0x0p+0f/*0.000000e+00*/;
      acc3 = (float4)0x0p+0f/*0.000000e+00*/;
      acc4 = (float4)0x0p+0f/*0.000000e+00*/;
      acc5 = (float4)0x0p+0f/*0.000000e+00*/;
      acc6 = (float4)0x0p+0f/*0.000000e+00*/;
      acc7 = (float4)0x0p+0f/*0.000000e+00*/;
      for (int k = 0; k < depth; k += 1) {
        bv0 = ((__global float4*)(right + (k * 8)))[0];
        bv1 = ((__global float4*)(right + ((k * 8) + 4)))[0];
        float left_1 = a_1[k];
        acc0 = (acc0 + ((float4)left_1 * bv0));
        acc1 = (acc1 + ((float4)left_1 * bv1));
        float left_2 = a_1[(lda + k)];
        acc2 = (acc2 + ((float4)left_2 * bv0));
        acc3 = (acc3 + ((float4)left_2 * bv1));
        float left_3 = a_1[((lda * 2) + k)];
        acc4 = (acc4 + ((float4)left_3 * bv0));
        acc5 = (acc5 + ((float4)left_3 * bv1));
        float left_4 = a_1[((lda * 3) + k)];
        acc6 = (acc6 + ((float4)left_4 * bv0));
        acc7 = (acc7 + ((float4)left_4 * bv1));
      }
      if (columns_1 >= 8) {
        float4 accumulator = acc0;
        float4 raw = ((__global float4*)(extras_0 + n))[0];
        float4 v = (accumulator + raw);
        ((__global float4*)(out + (row_offset + n)))[0] = v;
        float4 accumulator_1 = acc1;
        int n_1 = (n + 4);
        float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
        float4 v_1 = (accumulator_1 + raw_1);
        ((__global float4*)(out + (row_offset + n_1)))[0] = v_1;
        float4 accumulator_2 = acc2;
        int row_offset_1 = (row_offset + ldc);
        float4 raw_2 = ((__global float4*)(extras_0 + n))[0];
        float4 v_2 = (accumulator_2 + raw_2);
        ((__global float4*)(out + (row_offset_1 + n)))[0] = v_2;
        float4 accumulator_3 = acc3;
        int row_offset_2 = (row_offset + ldc);
        int n_2 = (n + 4);
        float4 raw_3 = ((__global float4*)(extras_0 + n_2))[0];
        float4 v_3 = (accumulator_3 + raw_3);
        ((__global float4*)(out + (row_offset_2 + n_2)))[0] = v_3;
        float4 accumulator_4 = acc4;
        int row_offset_3 = (row_offset + (ldc * 2));
        float4 raw_4 = ((__global float4*)(extras_0 + n))[0];
        float4 v_4 = (accumulator_4 + raw_4);
        ((__global float4*)(out + (row_offset_3 + n)))[0] = v_4;
        float4 accumulator_5 = acc5;
        int row_offset_4 = (row_offset + (ldc * 2));
        int n_3 = (n + 4);
        float4 raw_5 = ((__global float4*)(extras_0 + n_3))[0];
        float4 v_5 = (accumulator_5 + raw_5);
        ((__global float4*)(out + (row_offset_4 + n_3)))[0] = v_5;
        float4 accumulator_6 = acc6;
        int row_offset_5 = (row_offset + (ldc * 3));
        float4 raw_6 = ((__global float4*)(extras_0 + n))[0];
        float4 v_6 = (accumulator_6 + raw_6);
        ((__global float4*)(out + (row_offset_5 + n)))[0] = v_6;
        float4 accumulator_7 = acc7;
        int row_offset_6 = (row_offset + (ldc * 3));
        int n_4 = (n + 4);
        float4 raw_7 = ((__global float4*)(extras_0 + n_4))[0];
        float4 v_7 = (accumulator_7 + raw_7);
        ((__global float4*)(out + (row_offset_6 + n_4)))[0] = v_7;
      } else {
        if (columns_1 > 0) {
          bool4 lane_mask = __tail_mask<4>(min(columns_1, 4));
          float4 accumulator = acc0;
          float4 raw = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v = (accumulator + raw);
          __vstore(v, (__global float4*)(out + (row_offset + n)), lane_mask);
          float4 accumulator_1 = acc2;
          int row_offset_1 = (row_offset + ldc);
          float4 raw_1 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_1 = (accumulator_1 + raw_1);
          __vstore(v_1, (__global float4*)(out + (row_offset_1 + n)), lane_mask);
          float4 accumulator_2 = acc4;
          int row_offset_2 = (row_offset + (ldc * 2));
          float4 raw_2 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_2 = (accumulator_2 + raw_2);
          __vstore(v_2, (__global float4*)(out + (row_offset_2 + n)), lane_mask);
          float4 accumulator_3 = acc6;
          int row_offset_3 = (row_offset + (ldc * 3));
          float4 raw_3 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_3 = (accumulator_3 + raw_3);
          __vstore(v_3, (__global float4*)(out + (row_offset_3 + n)), lane_mask);
        }
        if (columns_1 > 4) {
          bool4 lane_mask = __tail_mask<4>(min((columns_1 - 4), 4));
          float4 accumulator = acc1;
          int n_1 = (n + 4);
          float4 raw = __vload((__global float4*)(extras_0 + n_1), lane_mask);
          float4 v = (accumulator + raw);
          __vstore(v, (__global float4*)(out + (row_offset + n_1)), lane_mask);
          float4 accumulator_1 = acc3;
          int row_offset_1 = (row_offset + ldc);
          int n_2 = (n + 4);
          float4 raw_1 = __vload((__global float4*)(extras_0 + n_2), lane_mask);
          float4 v_1 = (accumulator_1 + raw_1);
          __vstore(v_1, (__global float4*)(out + (row_offset_1 + n_2)), lane_mask);
          float4 accumulator_2 = acc5;
          int row_offset_2 = (row_offset + (ldc * 2));
          int n_3 = (n + 4);
          float4 raw_2 = __vload((__global float4*)(extras_0 + n_3), lane_mask);
          float4 v_2 = (accumulator_2 + raw_2);
          __vstore(v_2, (__global float4*)(out + (row_offset_2 + n_3)), lane_mask);
          float4 accumulator_3 = acc7;
          int row_offset_3 = (row_offset + (ldc * 3));
          int n_4 = (n + 4);
          float4 raw_3 = __vload((__global float4*)(extras_0 + n_4), lane_mask);
          float4 v_3 = (accumulator_3 + raw_3);
          __vstore(v_3, (__global float4*)(out + (row_offset_3 + n_4)), lane_mask);
        }
      }
      m = (m + 4);
    }
    while ((m + 2) <= end){
      __global float* a_1 = (left + (m * lda));
      int row_offset = (((batch * rows) + m) * ldc);
      int columns_1 = (columns - n);
      float4 acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc2 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc3 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 bv0 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 bv1 = (float4)0x0p+0f/*0.000000e+00*/;
      acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      acc2 = (float4)0x0p+0f/*0.000000e+00*/;
      acc3 = (float4)0x0p+0f/*0.000000e+00*/;
      for (int k = 0; k < depth; k += 1) {
        bv0 = ((__global float4*)(right + (k * 8)))[0];
        bv1 = ((__global float4*)(right + ((k * 8) + 4)))[0];
        float left_1 = a_1[k];
        acc0 = (acc0 + ((float4)left_1 * bv0));
        acc1 = (acc1 + ((float4)left_1 * bv1));
        float left_2 = a_1[(lda + k)];
        acc2 = (acc2 + ((float4)left_2 * bv0));
        acc3 = (acc3 + ((float4)left_2 * bv1));
      }
      if (columns_1 >= 8) {
        float4 accumulator = acc0;
        float4 raw = ((__global float4*)(extras_0 + n))[0];
        float4 v = (accumulator + raw);
        ((__global float4*)(out + (row_offset + n)))[0] = v;
        float4 accumulator_1 = acc1;
        int n_1 = (n + 4);
        float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
        float4 v_1 = (accumulator_1 + raw_1);
        ((__global float4*)(out + (row_offset + n_1)))[0] = v_1;
        float4 accumulator_2 = acc2;
        int row_offset_1 = (row_offset + ldc);
        float4 raw_2 = ((__global float4*)(extras_0 + n))[0];
        float4 v_2 = (accumulator_2 + raw_2);
        ((__global float4*)(out + (row_offset_1 + n)))[0] = v_2;
        float4 accumulator_3 = acc3;
        int row_offset_2 = (row_offset + ldc);
        int n_2 = (n + 4);
        float4 raw_3 = ((__global float4*)(extras_0 + n_2))[0];
        float4 v_3 = (accumulator_3 + raw_3);
        ((__global float4*)(out + (row_offset_2 + n_2)))[0] = v_3;
      } else {
        if (columns_1 > 0) {
          bool4 lane_mask = __tail_mask<4>(min(columns_1, 4));
          float4 accumulator = acc0;
          float4 raw = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v = (accumulator + raw);
          __vstore(v, (__global float4*)(out + (row_offset + n)), lane_mask);
          float4 accumulator_1 = acc2;
          int row_offset_1 = (row_offset + ldc);
          float4 raw_1 = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v_1 = (accumulator_1 + raw_1);
          __vstore(v_1, (__global float4*)(out + (row_offset_1 + n)), lane_mask);
        }
        if (columns_1 > 4) {
          bool4 lane_mask = __tail_mask<4>(min((columns_1 - 4), 4));
          float4 accumulator = acc1;
          int n_1 = (n + 4);
          float4 raw = __vload((__global float4*)(extras_0 + n_1), lane_mask);
          float4 v = (accumulator + raw);
          __vstore(v, (__global float4*)(out + (row_offset + n_1)), lane_mask);
          float4 accumulator_1 = acc3;
          int row_offset_1 = (row_offset + ldc);
          int n_2 = (n + 4);
          float4 raw_1 = __vload((__global float4*)(extras_0 + n_2), lane_mask);
          float4 v_1 = (accumulator_1 + raw_1);
          __vstore(v_1, (__global float4*)(out + (row_offset_1 + n_2)), lane_mask);
        }
      }
      m = (m + 2);
    }
    while ((m + 1) <= end){
      __global float* a_1 = (left + (m * lda));
      int row_offset = (((batch * rows) + m) * ldc);
      int columns_1 = (columns - n);
      float4 acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 bv0 = (float4)0x0p+0f/*0.000000e+00*/;
      float4 bv1 = (float4)0x0p+0f/*0.000000e+00*/;
      acc0 = (float4)0x0p+0f/*0.000000e+00*/;
      acc1 = (float4)0x0p+0f/*0.000000e+00*/;
      for (int k = 0; k < depth; k += 1) {
        bv0 = ((__global float4*)(right + (k * 8)))[0];
        bv1 = ((__global float4*)(right + ((k * 8) + 4)))[0];
        float left_1 = a_1[k];
        acc0 = (acc0 + ((float4)left_1 * bv0));
        acc1 = (acc1 + ((float4)left_1 * bv1));
      }
      if (columns_1 >= 8) {
        float4 accumulator = acc0;
        float4 raw = ((__global float4*)(extras_0 + n))[0];
        float4 v = (accumulator + raw);
        ((__global float4*)(out + (row_offset + n)))[0] = v;
        float4 accumulator_1 = acc1;
        int n_1 = (n + 4);
        float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
        float4 v_1 = (accumulator_1 + raw_1);
        ((__global float4*)(out + (row_offset + n_1)))[0] = v_1;
      } else {
        if (columns_1 > 0) {
          bool4 lane_mask = __tail_mask<4>(min(columns_1, 4));
          float4 accumulator = acc0;
          float4 raw = __vload((__global float4*)(extras_0 + n), lane_mask);
          float4 v = (accumulator + raw);
          __vstore(v, (__global float4*)(out + (row_offset + n)), lane_mask);
        }
        if (columns_1 > 4) {
          bool4 lane_mask = __tail_mask<4>(min((columns_1 - 4), 4));
          float4 accumulator = acc1;
          int n_1 = (n + 4);
          float4 raw = __vload((__global float4*)(extras_0 + n_1), lane_mask);
          float4 v = (accumulator + raw);
          __vstore(v, (__global float4*)(out + (row_offset + n_1)), lane_mask);
        }
      }
      m = (m + 1);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
