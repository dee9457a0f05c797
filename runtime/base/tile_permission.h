// Leave of Linux to use the tile registers of AMX, which a process has to ask for.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

namespace aipu {

#if defined(__x86_64__)
// For all threads, those that run already too. False: this kernel does not know the tiles, or refuses.
inline bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

}  // namespace aipu
