/* SPDX-License-Identifier: GPL-2.0-only */
/* What an instruction does to control flow, as libipt sees it. Sole user of Zydis. Pure. */
#ifndef PTBPF_IMAGE_INSN_H
#define PTBPF_IMAGE_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum insn_class {
	INSN_OTHER,   /* falls through */
	INSN_JCC,     /* conditional, direct: Jcc, JrCXZ, LOOPcc */
	INSN_JMP,     /* direct */
	INSN_CALL,    /* direct */
	INSN_JMP_IND, /* through register or memory */
	INSN_CALL_IND,
	INSN_RET, /* near */
	INSN_FAR, /* SYSCALL SYSENTER INT INT3 IRET far CALL/JMP/RET. UD2 only faults: OTHER */
	INSN_XBEGIN,
	INSN_XEND,
	INSN_INVALID,
};

struct insn {
	enum insn_class class;
	uint8_t length;
	bool is_rep_string; /* one instruction for PT, many single steps */
	bool touches_tf;    /* PUSHF POPF IRET, loads of SS: single-stepping or #DB order differs */
	bool writes_memory;
	uint64_t target; /* direct branches; XBEGIN: the abort handler */
};

/* Decodes one instruction at address @ip from up to 15 bytes. 0; -EINVAL invalid; -ENODATA cut off.
 */
int insn_decode(const uint8_t *bytes, size_t size, uint64_t ip, unsigned int mode_bits,
		struct insn *insn);

#endif
