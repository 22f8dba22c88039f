// What tensor memory and tensor cores share.
#pragma once
#include "inside.h"

namespace px_machine {

enum { LANES = 128, COLUMNS = 512 };
enum : unsigned { UNSET = 0xffa5ffa5u };  // no number as f32, f16 or bf16

unsigned& cell_at(int rank, int lane, int column, const char* what, int line);  // checked: allocated
// Checked: no load of these cells is under way.
void overwrites(int rank, int lane, int lanes, int column, int columns, const char* what, int line);
void one_group(int group, const char* what, int line);
void leader_issues(int group, const char* what, int line);
void is_alive(int rank, const char* what, int line);
void work_later(std::function<void()> work, int line);  // at once or when its commit lands

// A shared-memory descriptor, field by field.
struct Matrix { unsigned address, leading, stride, width, mask, shift, swizzle; };
Matrix matrix_of(unsigned long long descriptor, const char* what, int line);
unsigned along_k(const Matrix& m, int row, int byte);   // the address of a byte of a row, K-major

}  // namespace px_machine
