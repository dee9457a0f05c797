// The row lists that make up the table.
#pragma once

#include <vector>

#include "codegen/intrinsics/intrinsic_table.h"

namespace aipu::tir {

void add_arithmetic_rows(std::vector<Intrinsic>& rows);
void add_bitwise_rows(std::vector<Intrinsic>& rows);
void add_compare_rows(std::vector<Intrinsic>& rows);
void add_convert_rows(std::vector<Intrinsic>& rows);
void add_math_rows(std::vector<Intrinsic>& rows);
void add_memory_rows(std::vector<Intrinsic>& rows);
void add_permute_rows(std::vector<Intrinsic>& rows);
void add_reduce_rows(std::vector<Intrinsic>& rows);
void add_sync_rows(std::vector<Intrinsic>& rows);
void add_widening_rows(std::vector<Intrinsic>& rows);
void add_dma_rows(std::vector<Intrinsic>& rows);

}  // namespace aipu::tir
