#include <compass/dsl.h>

__kernel void k003_gemm__Gemm(__global float* restrict a, __global float* restrict b, __global float* restrict out, __global float* restrict extras_0, int batches, int rows, int columns, int depth, int lda, int a_step, int ldc, int a_batch_outer, int a_batch_inner, int b_batch_outer, int b_batch_inner, int inner_batches, int block_tiles, int a_zero);
_CLC_NOINLINE void k003_gemm__Gemm_gemm_tile_1(__global float* a, long lda, long a_step, int a_zero, __global float* b, int depth, __global float* extras_0, __global float* out, int row_offset, int ldc, int n, int columns);
_CLC_NOINLINE void k003_gemm__Gemm_gemm_tile_2(__global float* a, long lda, long a_step, int a_zero, __global float* b, int depth, __global float* extras_0, __global float* out, int row_offset, int ldc, int n, int columns);
_CLC_NOINLINE void k003_gemm__Gemm_gemm_tile_3(__global float* a, long lda, long a_step, int a_zero, __global float* b, int depth, __global float* extras_0, __global float* out, int row_offset, int ldc, int n, int columns);
_CLC_NOINLINE void k003_gemm__Gemm_gemm_tile_4(__global float* a, long lda, long a_step, int a_zero, __global float* b, int depth, __global float* extras_0, __global float* out, int row_offset, int ldc, int n, int columns);

__kernel void k003_gemm__Gemm(__global float* restrict a, __global float* restrict b, __global float* restrict out, __global float* restrict extras_0, int batches, int rows, int columns, int depth, int lda, int a_step, int ldc, int a_batch_outer, int a_batch_inner, int b_batch_outer, int b_batch_inner, int inner_batches, int block_tiles, int a_zero) {
  int tid = get_local_id(0);
  int tec_count = get_local_size(0);
  int panels = ((columns + 11) / 12);
  int tiles = ((rows + 3) / 4);
  int per_block = max(((((tec_count * 8) + max((batches * panels), 1)) - 1) / max((batches * panels), 1)), 1);
  int blocks = max((((tiles + block_tiles) - 1) / block_tiles), min(per_block, tiles));
  int units = ((batches * blocks) * panels);
  int share = (((units + tec_count) - 1) / tec_count);
  int first = (tid * share);
  int last = min((first + share), units);
  bool by_panel = ((columns > rows) && (batches == 1));
  int panel = (first % max(panels, 1));
  int block = ((first / max(panels, 1)) % max(blocks, 1));
  if (by_panel) {
    panel = (first / max(blocks, 1));
    block = (first % max(blocks, 1));
  }
  int batch = (first / max((panels * blocks), 1));
  int tile_share = (tiles / max(blocks, 1));
  int tile_rest = (tiles % max(blocks, 1));
  int row_share = (rows / max(tiles, 1));
  int row_rest = (rows % max(tiles, 1));
  for (int unit = first; unit < first+(last - first); unit += 1) {
    int tile_first = ((block * tile_share) + min(block, tile_rest));
    int tile_last = (tile_first + tile_share);
    if (block < tile_rest) {
      tile_last = (tile_last + 1);
    }
    int n = (panel * 12);
    __global float* left = a;
    __global float* right = (b + (panel * (depth * 12)));
    if (batches > 1) {
      left = (left + (((batch / inner_batches) * a_batch_outer) + ((batch % inner_batches) * a_batch_inner)));
      right = (right + (((batch / inner_batches) * b_batch_outer) + ((batch % inner_batches) * b_batch_inner)));
    }
    int m = ((tile_first * row_share) + min(tile_first, row_rest));
    for (int t = tile_first; t < tile_first+(tile_last - tile_first); t += 1) {
      int end = (m + row_share);
      if (t < row_rest) {
        end = (end + 1);
      }
      while (((m + 4) <= end)){
        k003_gemm__Gemm_gemm_tile_4((left + (m * lda)), (long)lda, (long)a_step, a_zero, right, depth, extras_0, out, (((batch * rows) + m) * ldc), ldc, n, (columns - n));
        m = (m + 4);
      }
      while (((m + 3) <= end)){
        k003_gemm__Gemm_gemm_tile_3((left + (m * lda)), (long)lda, (long)a_step, a_zero, right, depth, extras_0, out, (((batch * rows) + m) * ldc), ldc, n, (columns - n));
        m = (m + 3);
      }
      while (((m + 2) <= end)){
        k003_gemm__Gemm_gemm_tile_2((left + (m * lda)), (long)lda, (long)a_step, a_zero, right, depth, extras_0, out, (((batch * rows) + m) * ldc), ldc, n, (columns - n));
        m = (m + 2);
      }
      while (((m + 1) <= end)){
        k003_gemm__Gemm_gemm_tile_1((left + (m * lda)), (long)lda, (long)a_step, a_zero, right, depth, extras_0, out, (((batch * rows) + m) * ldc), ldc, n, (columns - n));
        m = (m + 1);
      }
    }
    if (by_panel) {
      block = (block + 1);
      if (block == blocks) {
        block = 0;
        panel = (panel + 1);
      }
    } else {
      panel = (panel + 1);
      if (panel == panels) {
        panel = 0;
        block = (block + 1);
        if (block == blocks) {
          block = 0;
          batch = (batch + 1);
        }
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

_CLC_NOINLINE void k003_gemm__Gemm_gemm_tile_1(__global float* a, long lda, long a_step, int a_zero, __global float* b, int depth, __global float* extras_0, __global float* out, int row_offset, int ldc, int n, int columns) {
  float4 acc0 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc1 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc2 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 bv0 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 bv1 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 bv2 = (float4)0x0p+0f/*0.000000e+00*/;
  acc0 = (float4)0x0p+0f/*0.000000e+00*/;
  acc1 = (float4)0x0p+0f/*0.000000e+00*/;
  acc2 = (float4)0x0p+0f/*0.000000e+00*/;
  for (int k = 0; k < depth; k += 1) {
    bv0 = ((__global float4*)(b + (k * 12)))[0];
    bv1 = ((__global float4*)(b + ((k * 12) + 4)))[0];
    bv2 = ((__global float4*)(b + ((k * 12) + 8)))[0];
    long at = (long)k;
    float left = a[at];
    float4 acc = acc0;
    float4 vector = bv0;
    acc0 = (acc + ((float4)left * vector));
    float4 acc_1 = acc1;
    float4 vector_1 = bv1;
    acc1 = (acc_1 + ((float4)left * vector_1));
    float4 acc_2 = acc2;
    float4 vector_2 = bv2;
    acc2 = (acc_2 + ((float4)left * vector_2));
  }
  if (columns >= 12) {
    float4 raw = ((__global float4*)(extras_0 + n))[0];
    float4 accumulator = acc0;
    float4 v = (accumulator + raw);
    ((__global float4*)(out + (row_offset + n)))[0] = v;
    int n_1 = (n + 4);
    float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
    float4 accumulator_1 = acc1;
    int n_2 = (n + 4);
    float4 v_1 = (accumulator_1 + raw_1);
    ((__global float4*)(out + (row_offset + n_2)))[0] = v_1;
    int n_3 = (n + 8);
    float4 raw_2 = ((__global float4*)(extras_0 + n_3))[0];
    float4 accumulator_2 = acc2;
    int n_4 = (n + 8);
    float4 v_2 = (accumulator_2 + raw_2);
    ((__global float4*)(out + (row_offset + n_4)))[0] = v_2;
  } else {
    float rows[12];
    ((float4*)rows)[0] = acc0;
    ((float4*)(rows + 4))[0] = acc1;
    ((float4*)(rows + 8))[0] = acc2;
    if (columns > 0) {
      bool4 lane_mask = __tail_mask_4(min(columns, 4));
      float4 raw_3 = __vload((__global float4*)(extras_0 + n), lane_mask);
      for (int row = 0; row < 1; row += 1) {
        float4 accumulator_3 = ((float4*)(rows + (row * 12)))[0];
        int row_offset_1 = (row_offset + (row * ldc));
        float4 v_3 = (accumulator_3 + raw_3);
        __vstore(v_3, (__global float4*)(out + (row_offset_1 + n)), lane_mask);
      }
    }
    if (columns > 4) {
      bool4 lane_mask_1 = __tail_mask_4(min((columns - 4), 4));
      int n_5 = (n + 4);
      float4 raw_4 = __vload((__global float4*)(extras_0 + n_5), lane_mask_1);
      for (int row_1 = 0; row_1 < 1; row_1 += 1) {
        float4 accumulator_4 = ((float4*)(rows + (((row_1 * 3) + 1) * 4)))[0];
        int row_offset_2 = (row_offset + (row_1 * ldc));
        int n_6 = (n + 4);
        float4 v_4 = (accumulator_4 + raw_4);
        __vstore(v_4, (__global float4*)(out + (row_offset_2 + n_6)), lane_mask_1);
      }
    }
    if (columns > 8) {
      bool4 lane_mask_2 = __tail_mask_4(min((columns - 8), 4));
      int n_7 = (n + 8);
      float4 raw_5 = __vload((__global float4*)(extras_0 + n_7), lane_mask_2);
      for (int row_2 = 0; row_2 < 1; row_2 += 1) {
        float4 accumulator_5 = ((float4*)(rows + (((row_2 * 3) + 2) * 4)))[0];
        int row_offset_3 = (row_offset + (row_2 * ldc));
        int n_8 = (n + 8);
        float4 v_5 = (accumulator_5 + raw_5);
        __vstore(v_5, (__global float4*)(out + (row_offset_3 + n_8)), lane_mask_2);
      }
    }
  }
}

_CLC_NOINLINE void k003_gemm__Gemm_gemm_tile_2(__global float* a, long lda, long a_step, int a_zero, __global float* b, int depth, __global float* extras_0, __global float* out, int row_offset, int ldc, int n, int columns) {
  float4 acc0 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc1 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc2 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc3 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc4 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc5 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 bv0 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 bv1 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 bv2 = (float4)0x0p+0f/*0.000000e+00*/;
  acc0 = (float4)0x0p+0f/*0.000000e+00*/;
  acc1 = (float4)0x0p+0f/*0.000000e+00*/;
  acc2 = (float4)0x0p+0f/*0.000000e+00*/;
  acc3 = (float4)0x0p+0f/*0.000000e+00*/;
  acc4 = (float4)0x0p+0f/*0.000000e+00*/;
  acc5 = (float4)0x0p+0f/*0.000000e+00*/;
  for (int k = 0; k < depth; k += 1) {
    bv0 = ((__global float4*)(b + (k * 12)))[0];
    bv1 = ((__global float4*)(b + ((k * 12) + 4)))[0];
    bv2 = ((__global float4*)(b + ((k * 12) + 8)))[0];
    long at = (long)k;
    float left = a[at];
    float4 acc = acc0;
    float4 vector = bv0;
    acc0 = (acc + ((float4)left * vector));
    float4 acc_1 = acc1;
    float4 vector_1 = bv1;
    acc1 = (acc_1 + ((float4)left * vector_1));
    float4 acc_2 = acc2;
    float4 vector_2 = bv2;
    acc2 = (acc_2 + ((float4)left * vector_2));
    long at_1 = (long)k;
    float left_1 = a[(long)(lda + at_1)];
    float4 acc_3 = acc3;
    float4 vector_3 = bv0;
    acc3 = (acc_3 + ((float4)left_1 * vector_3));
    float4 acc_4 = acc4;
    float4 vector_4 = bv1;
    acc4 = (acc_4 + ((float4)left_1 * vector_4));
    float4 acc_5 = acc5;
    float4 vector_5 = bv2;
    acc5 = (acc_5 + ((float4)left_1 * vector_5));
  }
  if (columns >= 12) {
    float4 raw = ((__global float4*)(extras_0 + n))[0];
    float4 accumulator = acc0;
    float4 v = (accumulator + raw);
    ((__global float4*)(out + (row_offset + n)))[0] = v;
    float4 accumulator_1 = acc3;
    int row_offset_1 = (row_offset + ldc);
    float4 v_1 = (accumulator_1 + raw);
    ((__global float4*)(out + (row_offset_1 + n)))[0] = v_1;
    int n_1 = (n + 4);
    float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
    float4 accumulator_2 = acc1;
    int n_2 = (n + 4);
    float4 v_2 = (accumulator_2 + raw_1);
    ((__global float4*)(out + (row_offset + n_2)))[0] = v_2;
    float4 accumulator_3 = acc4;
    int row_offset_2 = (row_offset + ldc);
    int n_3 = (n + 4);
    float4 v_3 = (accumulator_3 + raw_1);
    ((__global float4*)(out + (row_offset_2 + n_3)))[0] = v_3;
    int n_4 = (n + 8);
    float4 raw_2 = ((__global float4*)(extras_0 + n_4))[0];
    float4 accumulator_4 = acc2;
    int n_5 = (n + 8);
    float4 v_4 = (accumulator_4 + raw_2);
    ((__global float4*)(out + (row_offset + n_5)))[0] = v_4;
    float4 accumulator_5 = acc5;
    int row_offset_3 = (row_offset + ldc);
    int n_6 = (n + 8);
    float4 v_5 = (accumulator_5 + raw_2);
    ((__global float4*)(out + (row_offset_3 + n_6)))[0] = v_5;
  } else {
    float rows[24];
    ((float4*)rows)[0] = acc0;
    ((float4*)(rows + 4))[0] = acc1;
    ((float4*)(rows + 8))[0] = acc2;
    ((float4*)(rows + 12))[0] = acc3;
    ((float4*)(rows + 16))[0] = acc4;
    ((float4*)(rows + 20))[0] = acc5;
    if (columns > 0) {
      bool4 lane_mask = __tail_mask_4(min(columns, 4));
      float4 raw_3 = __vload((__global float4*)(extras_0 + n), lane_mask);
      for (int row = 0; row < 2; row += 1) {
        float4 accumulator_6 = ((float4*)(rows + (row * 12)))[0];
        int row_offset_4 = (row_offset + (row * ldc));
        float4 v_6 = (accumulator_6 + raw_3);
        __vstore(v_6, (__global float4*)(out + (row_offset_4 + n)), lane_mask);
      }
    }
    if (columns > 4) {
      bool4 lane_mask_1 = __tail_mask_4(min((columns - 4), 4));
      int n_7 = (n + 4);
      float4 raw_4 = __vload((__global float4*)(extras_0 + n_7), lane_mask_1);
      for (int row_1 = 0; row_1 < 2; row_1 += 1) {
        float4 accumulator_7 = ((float4*)(rows + (((row_1 * 3) + 1) * 4)))[0];
        int row_offset_5 = (row_offset + (row_1 * ldc));
        int n_8 = (n + 4);
        float4 v_7 = (accumulator_7 + raw_4);
        __vstore(v_7, (__global float4*)(out + (row_offset_5 + n_8)), lane_mask_1);
      }
    }
    if (columns > 8) {
      bool4 lane_mask_2 = __tail_mask_4(min((columns - 8), 4));
      int n_9 = (n + 8);
      float4 raw_5 = __vload((__global float4*)(extras_0 + n_9), lane_mask_2);
      for (int row_2 = 0; row_2 < 2; row_2 += 1) {
        float4 accumulator_8 = ((float4*)(rows + (((row_2 * 3) + 2) * 4)))[0];
        int row_offset_6 = (row_offset + (row_2 * ldc));
        int n_10 = (n + 8);
        float4 v_8 = (accumulator_8 + raw_5);
        __vstore(v_8, (__global float4*)(out + (row_offset_6 + n_10)), lane_mask_2);
      }
    }
  }
}

_CLC_NOINLINE void k003_gemm__Gemm_gemm_tile_3(__global float* a, long lda, long a_step, int a_zero, __global float* b, int depth, __global float* extras_0, __global float* out, int row_offset, int ldc, int n, int columns) {
  float4 acc0 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc1 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc2 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc3 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc4 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc5 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc6 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc7 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 acc8 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 bv0 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 bv1 = (float4)0x0p+0f/*0.000000e+00*/;
  float4 bv2 = (float4)0x0p+0f/*0.000000e+00*/;
  acc0 = (float4)0x0p+0f/*0.000000e+00*/;
  acc1 = (float4)0x0p+0f/*0.000000e+00*/;
  acc2 = (float4)0x0p+0f/*0.000000e+00*/;
  acc3 = (float4)0x0p+0f/*0.000000e+00*/;
  acc4 = (float4)0x0p+0f/*0.000000e+00*/;
  acc5 = (float4)0x0p+0f/*0.000000e+00*/;
  acc6 = (float4)0x0p+0f/*0.000000e+00*/;
  acc7 = (float4)0x0p+0f/*0.000000e+00*/;
  acc8 = (float4)0x0p+0f/*0.000000e+00*/;
  for (int k = 0; k < depth; k += 1) {
    bv0 = ((__global float4*)(b + (k * 12)))[0];
    bv1 = ((__global float4*)(b + ((k * 12) + 4)))[0];
    bv2 = ((__global float4*)(b + ((k * 12) + 8)))[0];
    long at = (long)k;
    float left = a[at];
    float4 acc = acc0;
    float4 vector = bv0;
    acc0 = (acc + ((float4)left * vector));
    float4 acc_1 = acc1;
    float4 vector_1 = bv1;
    acc1 = (acc_1 + ((float4)left * vector_1));
    float4 acc_2 = acc2;
    float4 vector_2 = bv2;
    acc2 = (acc_2 + ((float4)left * vector_2));
    long at_1 = (long)k;
    float left_1 = a[(long)(lda + at_1)];
    float4 acc_3 = acc3;
    float4 vector_3 = bv0;
    acc3 = (acc_3 + ((float4)left_1 * vector_3));
    float4 acc_4 = acc4;
    float4 vector_4 = bv1;
    acc4 = (acc_4 + ((float4)left_1 * vector_4));
    float4 acc_5 = acc5;
    float4 vector_5 = bv2;
    acc5 = (acc_5 + ((float4)left_1 * vector_5));
    long at_2 = (long)k;
    float left_2 = a[(long)((long)(lda * (long)2) + at_2)];
    float4 acc_6 = acc6;
    float4 vector_6 = bv0;
    acc6 = (acc_6 + ((float4)left_2 * vector_6));
    float4 acc_7 = acc7;
    float4 vector_7 = bv1;
    acc7 = (acc_7 + ((float4)left_2 * vector_7));
    float4 acc_8 = acc8;
    float4 vector_8 = bv2;
    acc8 = (acc_8 + ((float4)left_2 * vector_8));
  }
  if (columns >= 12) {
    float4 raw = ((__global float4*)(extras_0 + n))[0];
    float4 accumulator = acc0;
    float4 v = (accumulator + raw);
    ((__global float4*)(out + (row_offset + n)))[0] = v;
    float4 accumulator_1 = acc3;
    int row_offset_1 = (row_offset + ldc);
    float4 v_1 = (accumulator_1 + raw);
    ((__global float4*)(out + (row_offset_1 + n)))[0] = v_1;
    float4 accumulator_2 = acc6;
    int row_offset_2 = (row_offset + (ldc * 2));
    float4 v_2 = (accumulator_2 + raw);
    ((__global float4*)(out + (row_offset_2 + n)))[0] = v_2;
    int n_1 = (n + 4);
    float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
    float4 accumulator_3 = acc1;
    int n_2 = (n + 4);
    float4 v_3 = (accumulator_3 + raw_1);
    ((__global float4*)(out + (row_offset + n_2)))[0] = v_3;
    float4 accumulator_4 = acc4;
    int row_offset_3 = (row_offset + ldc);
    int n_3 = (n + 4);
    float4 v_4 = (accumulator_4 + raw_1);
    ((__global float4*)(out + (row_offset_3 + n_3)))[0] = v_4;
    float4 accumulator_5 = acc7;
    int row_offset_4 = (row_offset + (ldc * 2));
    int n_4 = (n + 4);
    float4 v_5 = (accumulator_5 + raw_1);
    ((__global float4*)(out + (row_offset_4 + n_4)))[0] = v_5;
    int n_5 = (n + 8);
    float4 raw_2 = ((__global float4*)(extras_0 + n_5))[0];
    float4 accumulator_6 = acc2;
    int n_6 = (n + 8);
    float4 v_6 = (accumulator_6 + raw_2);
    ((__global float4*)(out + (row_offset + n_6)))[0] = v_6;
    float4 accumulator_7 = acc5;
    int row_offset_5 = (row_offset + ldc);
    int n_7 = (n + 8);
    float4 v_7 = (accumulator_7 + raw_2);
    ((__global float4*)(out + (row_offset_5 + n_7)))[0] = v_7;
    float4 accumulator_8 = acc8;
    int row_offset_6 = (row_offset + (ldc * 2));
    int n_8 = (n + 8);
    float4 v_8 = (accumulator_8 + raw_2);
    ((__global float4*)(out + (row_offset_6 + n_8)))[0] = v_8;
  } else {
    float rows[36];
    ((float4*)rows)[0] = acc0;
    ((float4*)(rows + 4))[0] = acc1;
    ((float4*)(rows + 8))[0] = acc2;
    ((float4*)(rows + 12))[0] = acc3;
    ((float4*)(rows + 16))[0] = acc4;
    ((float4*)(rows + 20))[0] = acc5;
    ((float4*)(rows + 24))[0] = acc6;
    ((float4*)(rows + 28))[0] = acc7;
    ((float4*)(rows + 32))[0] = acc8;
    if (columns > 0) {
      bool4 lane_mask = __tail_mask_4(min(columns, 4));
      float4 raw_3 = __vload((__global float4*)(extras_0 + n), lane_mask);
      for (int row = 0; row < 3; row += 1) {
        float4 accumulator_9 = ((float4*)(rows + (row * 12)))[0];
        int row_offset_7 = (row_offset + (row * ldc));
        float4 v_9 = (accumulator_9 + raw_3);
        __vstore(v_9, (__global float4*)(out + (row_offset_7 + n)), lane_mask);
      }
    }
    if (columns > 4) {
      bool4 lane_mask_1 = __tail_mask_4(min((columns - 4), 4));
      int n_9 = (n + 4);
      float4 raw_4 = __vload((__global float4*)(extras_0 + n_9), lane_mask_1);
      for (int row_1 = 0; row_1 < 3; row_1 += 1) {
        float4 accumulator_10 = ((float4*)(rows + (((row_1 * 3) + 1) * 4)))[0];
        int row_offset_8 = (row_offset + (row_1 * ldc));
        int n_10 = (n + 4);
        float4 v_10 = (accumulator_10 + raw_4);
        __vstore(v_10, (__global float4*)(out + (row_offset_8 + n_10)), lane_mask_1);
      }
    }
    if (columns > 8) {
      bool4 lane_mask_2 = __tail_mask_4(min((columns - 8), 4));
      int n_11 = (n + 8);
      float4 raw_5 = __vload((__global float4*)(extras_0 + n_11), lane_mask_2);
      for (int row_2 = 0; row_2 < 3; row_2 += 1) {
        float4 accumulator_11 = ((float4*)(rows + (((row_2 * 3) + 2) * 4)))[0];
        int row_offset_9 = (row_offset + (row_2 * ldc));
        int n_12 = (n + 8);
        float4 v_11 = (accumulator_11 + raw_5);
        __vstore(v_11, (__global float4*)(out + (row_offset_9 + n_12)), lane_mask_2);
      }
    }
  }
}

_CLC_NOINLINE void k003_gemm__Gemm_gemm_tile_4(__global float* a, long lda, long a_step, int a_zero, __global float* b, int depth, __global float* extras_0, __global float* out, int row_offset, int ldc, int n, int columns) {
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
  float4 bv2 = (float4)0x0p+0f/*0.000000e+00*/;
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
    bv0 = ((__global float4*)(b + (k * 12)))[0];
    bv1 = ((__global float4*)(b + ((k * 12) + 4)))[0];
    bv2 = ((__global float4*)(b + ((k * 12) + 8)))[0];
    long at = (long)k;
    float left = a[at];
    float4 acc = acc0;
    float4 vector = bv0;
    acc0 = (acc + ((float4)left * vector));
    float4 acc_1 = acc1;
    float4 vector_1 = bv1;
    acc1 = (acc_1 + ((float4)left * vector_1));
    float4 acc_2 = acc2;
    float4 vector_2 = bv2;
    acc2 = (acc_2 + ((float4)left * vector_2));
    long at_1 = (long)k;
    float left_1 = a[(long)(lda + at_1)];
    float4 acc_3 = acc3;
    float4 vector_3 = bv0;
    acc3 = (acc_3 + ((float4)left_1 * vector_3));
    float4 acc_4 = acc4;
    float4 vector_4 = bv1;
    acc4 = (acc_4 + ((float4)left_1 * vector_4));
    float4 acc_5 = acc5;
    float4 vector_5 = bv2;
    acc5 = (acc_5 + ((float4)left_1 * vector_5));
    long at_2 = (long)k;
    float left_2 = a[(long)((long)(lda * (long)2) + at_2)];
    float4 acc_6 = acc6;
    float4 vector_6 = bv0;
    acc6 = (acc_6 + ((float4)left_2 * vector_6));
    float4 acc_7 = acc7;
    float4 vector_7 = bv1;
    acc7 = (acc_7 + ((float4)left_2 * vector_7));
    float4 acc_8 = acc8;
    float4 vector_8 = bv2;
    acc8 = (acc_8 + ((float4)left_2 * vector_8));
    long at_3 = (long)k;
    float left_3 = a[(long)((long)(lda * (long)3) + at_3)];
    float4 acc_9 = acc9;
    float4 vector_9 = bv0;
    acc9 = (acc_9 + ((float4)left_3 * vector_9));
    float4 acc_10 = acc10;
    float4 vector_10 = bv1;
    acc10 = (acc_10 + ((float4)left_3 * vector_10));
    float4 acc_11 = acc11;
    float4 vector_11 = bv2;
    acc11 = (acc_11 + ((float4)left_3 * vector_11));
  }
  if (columns >= 12) {
    float4 raw = ((__global float4*)(extras_0 + n))[0];
    float4 accumulator = acc0;
    float4 v = (accumulator + raw);
    ((__global float4*)(out + (row_offset + n)))[0] = v;
    float4 accumulator_1 = acc3;
    int row_offset_1 = (row_offset + ldc);
    float4 v_1 = (accumulator_1 + raw);
    ((__global float4*)(out + (row_offset_1 + n)))[0] = v_1;
    float4 accumulator_2 = acc6;
    int row_offset_2 = (row_offset + (ldc * 2));
    float4 v_2 = (accumulator_2 + raw);
    ((__global float4*)(out + (row_offset_2 + n)))[0] = v_2;
    float4 accumulator_3 = acc9;
    int row_offset_3 = (row_offset + (ldc * 3));
    float4 v_3 = (accumulator_3 + raw);
    ((__global float4*)(out + (row_offset_3 + n)))[0] = v_3;
    int n_1 = (n + 4);
    float4 raw_1 = ((__global float4*)(extras_0 + n_1))[0];
    float4 accumulator_4 = acc1;
    int n_2 = (n + 4);
    float4 v_4 = (accumulator_4 + raw_1);
    ((__global float4*)(out + (row_offset + n_2)))[0] = v_4;
    float4 accumulator_5 = acc4;
    int row_offset_4 = (row_offset + ldc);
    int n_3 = (n + 4);
    float4 v_5 = (accumulator_5 + raw_1);
    ((__global float4*)(out + (row_offset_4 + n_3)))[0] = v_5;
    float4 accumulator_6 = acc7;
    int row_offset_5 = (row_offset + (ldc * 2));
    int n_4 = (n + 4);
    float4 v_6 = (accumulator_6 + raw_1);
    ((__global float4*)(out + (row_offset_5 + n_4)))[0] = v_6;
    float4 accumulator_7 = acc10;
    int row_offset_6 = (row_offset + (ldc * 3));
    int n_5 = (n + 4);
    float4 v_7 = (accumulator_7 + raw_1);
    ((__global float4*)(out + (row_offset_6 + n_5)))[0] = v_7;
    int n_6 = (n + 8);
    float4 raw_2 = ((__global float4*)(extras_0 + n_6))[0];
    float4 accumulator_8 = acc2;
    int n_7 = (n + 8);
    float4 v_8 = (accumulator_8 + raw_2);
    ((__global float4*)(out + (row_offset + n_7)))[0] = v_8;
    float4 accumulator_9 = acc5;
    int row_offset_7 = (row_offset + ldc);
    int n_8 = (n + 8);
    float4 v_9 = (accumulator_9 + raw_2);
    ((__global float4*)(out + (row_offset_7 + n_8)))[0] = v_9;
    float4 accumulator_10 = acc8;
    int row_offset_8 = (row_offset + (ldc * 2));
    int n_9 = (n + 8);
    float4 v_10 = (accumulator_10 + raw_2);
    ((__global float4*)(out + (row_offset_8 + n_9)))[0] = v_10;
    float4 accumulator_11 = acc11;
    int row_offset_9 = (row_offset + (ldc * 3));
    int n_10 = (n + 8);
    float4 v_11 = (accumulator_11 + raw_2);
    ((__global float4*)(out + (row_offset_9 + n_10)))[0] = v_11;
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
      float4 raw_3 = __vload((__global float4*)(extras_0 + n), lane_mask);
      for (int row = 0; row < 4; row += 1) {
        float4 accumulator_12 = ((float4*)(rows + (row * 12)))[0];
        int row_offset_10 = (row_offset + (row * ldc));
        float4 v_12 = (accumulator_12 + raw_3);
        __vstore(v_12, (__global float4*)(out + (row_offset_10 + n)), lane_mask);
      }
    }
    if (columns > 4) {
      bool4 lane_mask_1 = __tail_mask_4(min((columns - 4), 4));
      int n_11 = (n + 4);
      float4 raw_4 = __vload((__global float4*)(extras_0 + n_11), lane_mask_1);
      for (int row_1 = 0; row_1 < 4; row_1 += 1) {
        float4 accumulator_13 = ((float4*)(rows + (((row_1 * 3) + 1) * 4)))[0];
        int row_offset_11 = (row_offset + (row_1 * ldc));
        int n_12 = (n + 4);
        float4 v_13 = (accumulator_13 + raw_4);
        __vstore(v_13, (__global float4*)(out + (row_offset_11 + n_12)), lane_mask_1);
      }
    }
    if (columns > 8) {
      bool4 lane_mask_2 = __tail_mask_4(min((columns - 8), 4));
      int n_13 = (n + 8);
      float4 raw_5 = __vload((__global float4*)(extras_0 + n_13), lane_mask_2);
      for (int row_2 = 0; row_2 < 4; row_2 += 1) {
        float4 accumulator_14 = ((float4*)(rows + (((row_2 * 3) + 2) * 4)))[0];
        int row_offset_12 = (row_offset + (row_2 * ldc));
        int n_14 = (n + 8);
        float4 v_14 = (accumulator_14 + raw_5);
        __vstore(v_14, (__global float4*)(out + (row_offset_12 + n_14)), lane_mask_2);
      }
    }
  }
}
