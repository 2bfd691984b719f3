// dlopen and dlmopen as a program sees them. A request for the library we stand in for is answered;
// every other request goes on to the C library by a jump, with the caller's return address in
// place: the loader looks at it to find the caller's RPATH, namespace and $ORIGIN.

  .macro ENTRY name, decide, next
  .text
  .globl \name
  .type \name, @function
  .balign 16
\name:
  endbr64
  pushq %rdi
  pushq %rsi
  pushq %rdx
  call \decide
  movq %rdx, %rcx
  popq %rdx
  popq %rsi
  popq %rdi
  testl %ecx, %ecx
  jnz 1f
  jmp *\next(%rip)
1:
  ret
  .size \name, . - \name
  .endm

  ENTRY dlopen, vram_decide_dlopen, vram_next_dlopen
  ENTRY dlmopen, vram_decide_dlmopen, vram_next_dlmopen
  .section .note.GNU-stack, "", @progbits
