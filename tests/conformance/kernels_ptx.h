// The kernels of device.cpp as PTX text, for a program that no CUDA compiler is needed for. fill: byte i becomes
// PatternByte(salt, i). move: copies bytes. delay: spins for so many nanoseconds.
#pragma once

namespace conformance {

inline constexpr char kKernelsPtx[] = R"(
.version 7.4
.target sm_75
.address_size 64

.visible .entry fill(.param .u64 memory, .param .u64 bytes, .param .u32 salt)
{
  .reg .pred %done;
  .reg .b32 %salt, %x, %y, %z;
  .reg .b64 %memory, %bytes, %i, %step, %at;
  ld.param.u64 %memory, [memory];
  cvta.to.global.u64 %memory, %memory;
  ld.param.u64 %bytes, [bytes];
  ld.param.u32 %salt, [salt];
  mul.lo.u32 %salt, %salt, 0x85EBCA6B;
  mov.u32 %x, %ctaid.x;
  mov.u32 %y, %ntid.x;
  mov.u32 %z, %tid.x;
  mul.wide.u32 %i, %x, %y;
  cvt.u64.u32 %at, %z;
  add.u64 %i, %i, %at;
  mov.u32 %x, %nctaid.x;
  mul.wide.u32 %step, %x, %y;
next:
  setp.ge.u64 %done, %i, %bytes;
  @%done bra end;
  cvt.u32.u64 %x, %i;
  xor.b32 %x, %x, %salt;
  mul.lo.u32 %x, %x, 0x9E3779B1;
  shr.u32 %x, %x, 24;
  add.u64 %at, %memory, %i;
  st.global.u8 [%at], %x;
  add.u64 %i, %i, %step;
  bra next;
end:
  ret;
}

.visible .entry move(.param .u64 to, .param .u64 from, .param .u64 bytes)
{
  .reg .pred %done;
  .reg .b32 %x, %y, %z;
  .reg .b64 %to, %from, %bytes, %i, %step, %at;
  ld.param.u64 %to, [to];
  cvta.to.global.u64 %to, %to;
  ld.param.u64 %from, [from];
  cvta.to.global.u64 %from, %from;
  ld.param.u64 %bytes, [bytes];
  mov.u32 %x, %ctaid.x;
  mov.u32 %y, %ntid.x;
  mov.u32 %z, %tid.x;
  mul.wide.u32 %i, %x, %y;
  cvt.u64.u32 %at, %z;
  add.u64 %i, %i, %at;
  mov.u32 %x, %nctaid.x;
  mul.wide.u32 %step, %x, %y;
next:
  setp.ge.u64 %done, %i, %bytes;
  @%done bra end;
  add.u64 %at, %from, %i;
  ld.global.u8 %x, [%at];
  add.u64 %at, %to, %i;
  st.global.u8 [%at], %x;
  add.u64 %i, %i, %step;
  bra next;
end:
  ret;
}

.visible .entry delay(.param .u64 nanoseconds)
{
  .reg .pred %more;
  .reg .b64 %start, %now, %length;
  ld.param.u64 %length, [nanoseconds];
  mov.u64 %start, %globaltimer;
next:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %start;
  setp.lt.u64 %more, %now, %length;
  @%more bra next;
  ret;
}
)";

}  // namespace conformance
