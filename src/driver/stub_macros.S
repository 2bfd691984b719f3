// A stub is one indirect jump. Its slot first leads to a piece that remembers the stub's number and
// goes to vram_stub_bind, which asks the real library for the function, stores its address in the
// slot and continues there. Arguments are never touched, so a stub fits every signature.

.macro STUB name, index
  .text
  .globl \name
  .type \name, @function
  .balign 16
\name:
  endbr64
  jmp *vram_stub_slots + 8 * \index(%rip)
  .size \name, . - \name
.Lbind_\index:
  pushq $\index
  jmp vram_stub_bind
  .section .data.vram_slots, "aw", @progbits
  .if \index == 0
  .balign 64
  .hidden vram_stub_slots
  .globl vram_stub_slots
vram_stub_slots:
  .endif
  .quad .Lbind_\index
  .section .rodata.vram_names, "a", @progbits
.Lname_\index:
  .asciz "\name"
  .section .rodata.vram_name_offsets, "a", @progbits
  .if \index == 0
  .balign 4
  .hidden vram_stub_name_offsets
  .globl vram_stub_name_offsets
vram_stub_name_offsets:
  .endif
  .long .Lname_\index - vram_stub_name_offsets
.endm

.macro STUBS_END count
  .section .rodata.vram_count, "a", @progbits
  .balign 4
  .hidden vram_stub_count
  .globl vram_stub_count
vram_stub_count:
  .long \count
  .section .note.GNU-stack, "", @progbits
.endm
