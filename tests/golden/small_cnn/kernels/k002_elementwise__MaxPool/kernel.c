#include <compass/dsl.h>

__kernel void k002_elementwise__MaxPool(__global uint* restrict ins_0, __global uint* restrict out, int dims_0, int dims_1, int dims_2, int strides_0, int strides_1, int strides_2, int strides_3, int strides_4, int strides_5);

__kernel void k002_elementwise__MaxPool(__global uint* restrict ins_0, __global uint* restrict out, int dims_0, int dims_1, int dims_2, int strides_0, int strides_1, int strides_2, int strides_3, int strides_4, int strides_5) {
  int tid = get_local_id(0);
  int tec_count = get_local_size(0);
  int blocks = ((dims_2 + 4095) / 4096);
  int rows = 1;
  rows = (rows * dims_0);
  rows = (rows * dims_1);
  int units = (rows * blocks);
  int share = (((units + tec_count) - 1) / tec_count);
  int first = (tid * share);
  int last = min((first + share), units);
  int position0 = 0;
  int position1 = 0;
  for (int unit = first; unit < last; unit += 1) {
    position0 = 0;
    position1 = 0;
    int rest = (unit / blocks);
    int index = (rest % dims_1);
    rest = (rest / dims_1);
    position0 = (position0 + (index * strides_1));
    position1 = (position1 + (index * strides_4));
    int index_1 = (rest % dims_0);
    rest = (rest / dims_0);
    position0 = (position0 + (index_1 * strides_0));
    position1 = (position1 + (index_1 * strides_3));
    int begin = ((unit % blocks) * 4096);
    int end = min((begin + 4096), dims_2);
    int full = (begin + (((end - begin) / 4) * 4));
    __global uint* sources_0 = (ins_0 + position0);
    __global uint* target = (out + position1);
    for (int j = begin; j < full; j += 4) {
      uint4 raw = __vload_stride((__global uint4*)(sources_0 + (j * strides_2)), (strides_2 * 4), ALL_TRUE);
      ((__global uint4*)(target + j))[0] = raw;
    }
    if (full < end) {
      bool4 lane_mask = __tail_mask<4>((end - full));
      uint4 raw = __vload_stride((__global uint4*)(sources_0 + (full * strides_2)), (strides_2 * 4), lane_mask);
      __vstore(raw, (__global uint4*)(target + full), lane_mask);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
