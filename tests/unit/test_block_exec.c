// SPDX-License-Identifier: GPL-2.0-only
/*
 * block_exec() against the processor: random instructions, stepped one by one in a child. Whatever
 * block_exec() calls known, in registers, flags, vectors and memory, must be so.
 * links: record/soft/block_alu record/soft/block_exec record/soft/block_mem record/soft/block_vec
 * links: image/insn image/insn_ops
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "image/insn.h"
#include "record/soft/block_exec.h"
#include "unit.h"

#define CODE 0x10000000ull
#define DATA 0x20000000ull
#define SIZE 8192
#define ROUNDS 9000
#define LENGTH 8 /* instructions in a row */

struct lab {
	pid_t pid;
	int mem;
	uint64_t random;
	struct block_mem *known;
	struct block_reader reader;
	struct block_state state;
	uint64_t op_count[256];
	uint64_t steps;
	char text[64]; /* the last instruction, in hex */
};

static uint64_t rnd(struct lab *lab, uint64_t below)
{
	lab->random = lab->random * 6364136223846793005ull + 1442695040888963407ull;
	return (lab->random >> 32) % below;
}

static size_t read_memory(void *ctx, uint64_t addr, void *buf, size_t size)
{
	const struct lab *lab = ctx;
	ssize_t n = pread(lab->mem, buf, size, (off_t)addr);

	return n < 0 ? 0 : (size_t)n;
}

static void start_child(struct lab *lab)
{
	char path[64];
	int status;

	lab->pid = fork();
	CHECK(lab->pid >= 0);
	if (lab->pid == 0) {
		mmap((void *)CODE, SIZE, PROT_READ | PROT_EXEC,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		mmap((void *)DATA, SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(0);
	}
	CHECK(waitpid(lab->pid, &status, 0) == lab->pid && WIFSTOPPED(status));
	CHECK(ptrace(PTRACE_SETOPTIONS, lab->pid, 0, PTRACE_O_EXITKILL) == 0);
	snprintf(path, sizeof(path), "/proc/%d/mem", lab->pid);
	lab->mem = open(path, O_RDWR | O_CLOEXEC);
	CHECK(lab->mem >= 0);
}

static uint64_t random_value(struct lab *lab)
{
	static const uint64_t odd[] = { 0,          1,          2,         UINT64_MAX, 0x80,
					0x7f,       0xff,       0x8000,    0x7fff,     0x80000000,
					0x7fffffff, 0xffffffff, INT64_MAX, 1ull << 63, 31,
					32,         63,         64,        8,          16 };
	uint64_t value = rnd(lab, 1ull << 32) << 32 | rnd(lab, 1ull << 32);

	switch (rnd(lab, 4)) {
	case 0:
		return odd[rnd(lab, sizeof(odd) / sizeof(*odd))];
	case 1:
		return value & 0xff;
	case 2:
		return value << rnd(lab, 64);
	default:
		return value;
	}
}

/* A ModRM with its operand: a register, or memory in the data area by several forms. */
static size_t random_modrm(struct lab *lab, uint8_t *code, unsigned int reg)
{
	int32_t disp = (int32_t)(DATA + 64 * rnd(lab, 60) + rnd(lab, 9));

	reg = reg < 8 ? reg : (unsigned int)rnd(lab, 8);
	switch (rnd(lab, 4)) {
	case 0: /* [disp32] */
		code[0] = (uint8_t)(reg << 3 | 4);
		code[1] = 0x25;
		memcpy(code + 2, &disp, 4);
		return 6;
	case 1: /* [r14 + disp8], with REX.B; else [rsi + disp8] */
		code[0] = (uint8_t)(0x46 | reg << 3);
		code[1] = (uint8_t)rnd(lab, 128);
		return 2;
	default:
		code[0] = (uint8_t)(0xc0 | reg << 3 | rnd(lab, 8));
		return 1;
	}
}

struct form {
	uint8_t map;      /* 0: one byte, 1: 0f */
	uint8_t first, n; /* opcodes */
	int8_t imm;       /* bytes; -1: like the operand size, at most 4 */
	uint8_t reg;      /* ModRM.reg, 8: any; 9: no ModRM */
	uint8_t prefix;   /* mandatory, or 0 */
	bool no_sizes;    /* no operand size prefix */
};

static const struct form forms[] = {
	{ 0, 0x00, 4, 0, 8, 0, false },   { 0, 0x04, 1, 1, 9, 0, false },
	{ 0, 0x05, 1, -1, 9, 0, false },  { 0, 0x08, 4, 0, 8, 0, false },
	{ 0, 0x10, 4, 0, 8, 0, false },   { 0, 0x18, 4, 0, 8, 0, false },
	{ 0, 0x20, 4, 0, 8, 0, false },   { 0, 0x28, 4, 0, 8, 0, false },
	{ 0, 0x30, 4, 0, 8, 0, false },   { 0, 0x38, 4, 0, 8, 0, false },
	{ 0, 0x3c, 1, 1, 9, 0, false },   { 0, 0x3d, 1, -1, 9, 0, false },
	{ 0, 0x50, 8, 0, 9, 0, false },   { 0, 0x58, 8, 0, 9, 0, false },
	{ 0, 0x63, 1, 0, 8, 0, true },    { 0, 0x68, 1, 4, 9, 0, true },
	{ 0, 0x69, 1, -1, 8, 0, false },  { 0, 0x6a, 1, 1, 9, 0, true },
	{ 0, 0x6b, 1, 1, 8, 0, false },   { 0, 0x80, 1, 1, 8, 0, false },
	{ 0, 0x81, 1, -1, 8, 0, false },  { 0, 0x83, 1, 1, 8, 0, false },
	{ 0, 0x84, 4, 0, 8, 0, false },   { 0, 0x88, 4, 0, 8, 0, false },
	{ 0, 0x8d, 1, 0, 8, 0, false },   { 0, 0x90, 8, 0, 9, 0, false },
	{ 0, 0x98, 2, 0, 9, 0, false },   { 0, 0xa8, 1, 1, 9, 0, false },
	{ 0, 0xa9, 1, -1, 9, 0, false },  { 0, 0xb0, 8, 1, 9, 0, false },
	{ 0, 0xc0, 2, 1, 8, 0, false },   { 0, 0xc6, 1, 1, 0, 0, false },
	{ 0, 0xc7, 1, -1, 0, 0, false },  { 0, 0xd0, 4, 0, 8, 0, false },
	{ 0, 0xf5, 1, 0, 9, 0, true },    { 0, 0xf6, 1, 1, 0, 0, false },
	{ 0, 0xf7, 1, -1, 0, 0, false },  { 0, 0xf6, 2, 0, 2, 0, false },
	{ 0, 0xf6, 2, 0, 3, 0, false },   { 0, 0xf6, 2, 0, 4, 0, false },
	{ 0, 0xf6, 2, 0, 5, 0, false },   { 0, 0xf6, 2, 0, 6, 0, false },
	{ 0, 0xf6, 2, 0, 7, 0, false },   { 0, 0xf8, 2, 0, 9, 0, true },
	{ 0, 0xfe, 2, 0, 0, 0, false },   { 0, 0xfe, 2, 0, 1, 0, false },
	{ 0, 0xff, 1, 0, 6, 0, false },   { 1, 0x40, 16, 0, 8, 0, false },
	{ 1, 0x90, 16, 0, 0, 0, false },  { 1, 0xa2, 1, 0, 9, 0, true },
	{ 1, 0xa3, 1, 0, 8, 0, false },   { 1, 0xa4, 1, 1, 8, 0, false },
	{ 1, 0xab, 1, 0, 8, 0, false },   { 1, 0xac, 1, 1, 8, 0, false },
	{ 1, 0xaf, 1, 0, 8, 0, false },   { 1, 0xb0, 2, 0, 8, 0, false },
	{ 1, 0xb3, 1, 0, 8, 0, false },   { 1, 0xb6, 2, 0, 8, 0, false },
	{ 1, 0xb8, 1, 0, 8, 0xf3, true }, { 1, 0xba, 1, 1, 4, 0, false },
	{ 1, 0xba, 1, 1, 5, 0, false },   { 1, 0xba, 1, 1, 6, 0, false },
	{ 1, 0xba, 1, 1, 7, 0, false },   { 1, 0xbb, 1, 0, 8, 0, false },
	{ 1, 0xbc, 2, 0, 8, 0, false },   { 1, 0xbc, 2, 0, 8, 0xf3, true },
	{ 1, 0xbe, 2, 0, 8, 0, false },   { 1, 0xc0, 2, 0, 8, 0, false },
	{ 1, 0xc7, 1, 0, 1, 0, true },    { 1, 0xc8, 8, 0, 9, 0, false },
	{ 1, 0x10, 2, 0, 8, 0, true },    { 1, 0x16, 2, 0, 8, 0, true },
	{ 1, 0x28, 2, 0, 8, 0, true },    { 1, 0x57, 1, 0, 8, 0, true },
	{ 1, 0x6c, 1, 0, 8, 0x66, true }, { 1, 0x6e, 1, 0, 8, 0x66, true },
	{ 1, 0x6f, 1, 0, 8, 0x66, true }, { 1, 0x6f, 1, 0, 8, 0xf3, true },
	{ 1, 0x7e, 1, 0, 8, 0x66, true }, { 1, 0x7e, 1, 0, 8, 0xf3, true },
	{ 1, 0x7f, 1, 0, 8, 0xf3, true }, { 1, 0xd6, 1, 0, 8, 0x66, true },
	{ 1, 0xef, 1, 0, 8, 0x66, true }, { 1, 0xd7, 1, 0, 8, 0x66, true },
	{ 1, 0x2e, 1, 0, 8, 0, true },    { 1, 0x2c, 1, 0, 8, 0xf2, true },
	{ 0, 0xa4, 2, 0, 9, 0, false },   { 0, 0xaa, 2, 0, 9, 0, false },
	{ 0, 0xa6, 2, 0, 9, 0, false },   { 0, 0xc9, 1, 0, 9, 0, true },
};

/* Others whole: most are not computed, so it counts what they make unknown. */
static const char *const fixed[] = {
	"d7",                /* xlat */
	"9f",                /* lahf */
	"9e",                /* sahf */
	"c8 10 00 00",       /* enter 16, 0 */
	"0f 31",             /* rdtsc */
	"0f 01 f9",          /* rdtscp */
	"f3 0f c7 f8",       /* rdpid eax */
	"0f 02 c1",          /* lar eax, ecx */
	"0f 03 c1",          /* lsl eax, ecx */
	"8f 46 10",          /* pop [rsi + 16] */
	"8f 44 24 08",       /* pop [rsp + 8] */
	"ff 74 24 08",       /* push [rsp + 8] */
	"54",                /* push rsp */
	"5c 54",             /* pop rsp, push rsp: often a fault */
	"0f a0",             /* push fs */
	"8c d8",             /* mov eax, ds */
	"8c 5e 10",          /* mov [rsi + 16], ds */
	"df e0",             /* fnstsw ax */
	"d9 e8 df f0",       /* fld1, fcomip */
	"dd 5e 08",          /* fstp qword [rsi + 8] */
	"db 7e 20",          /* fstp tbyte [rsi + 32] */
	"d9 76 20",          /* fnstenv [rsi + 32] */
	"66 0f 3a 61 c1 0c", /* pcmpestri */
	"66 0f 3a 60 c1 4c", /* pcmpestrm */
	"66 0f 3a 63 c1 0c", /* pcmpistri */
	"66 0f 3a 62 c1 4c", /* pcmpistrm */
	"66 0f 38 17 c1",    /* ptest */
	"f2 48 0f 38 f1 c3", /* crc32 */
	"0f 38 f0 46 08",    /* movbe */
	"0f 38 f1 46 08",
	"66 0f 38 f6 c3", /* adcx */
	"f3 0f 38 f6 c3", /* adox */
	"c4 e2 f3 f6 d3", /* mulx */
	"c4 e2 f2 f5 d3", /* pext */
	"c4 e2 78 f2 c3", /* andn */
	"c4 e2 71 f7 c3", /* shlx */
	"c4 e2 78 f3 cb", /* blsr */
	"f3 48 0f b8 c3", /* popcnt */
	"c5 f8 77",       /* vzeroupper */
	"c5 fc 77",       /* vzeroall */
	"c5 fe 6f 46 10", /* vmovdqu ymm0, [rsi + 16] */
	"c5 fe 7f 47 20",
	"c5 fa 6f 4e 10",       /* vmovdqu xmm1, [rsi + 16] */
	"c5 fe 7f 4f 20",       /* vmovdqu [rdi + 32], ymm1 */
	"62 f1 fe 48 6f 46 01", /* vmovdqu64 zmm0, [rsi + 64] */
	"62 f1 fe 48 7f 47 01",
	"62 f1 fe 49 7f 47 01", /* masked */
	"62 e1 fe 28 6f 46 01", /* vmovdqu64 ymm16, [rsi + 32] */
	"62 e1 fe 28 7f 47 01",
	"c4 e1 f9 6e c8", /* vmovq xmm1, rax */
	"c4 e1 f9 7e c8", /* vmovq rax, xmm1 */
	"c5 f1 ef c9",    /* vpxor xmm1, xmm1, xmm1 */
	"c5 f1 ef ca",
	"c5 f9 6f c1", /* vmovdqa xmm0, xmm1 */
	"0f 16 46 08", /* movhps xmm0, [rsi + 8] */
	"0f 17 47 08",
	"66 0f 6c c1",                /* punpcklqdq xmm0, xmm1 */
	"66 48 0f 6e c3",             /* movq xmm0, rbx */
	"66 48 0f 7e c2",             /* movq rdx, xmm0 */
	"66 0f d6 47 18",             /* movq [rdi + 24], xmm0 */
	"0f 11 47 30",                /* movups [rdi + 48], xmm0 */
	"f3 0f 10 46 04",             /* movss xmm0, [rsi + 4] */
	"f2 0f 10 46 08",             /* movsd xmm0, [rsi + 8] */
	"f2 0f 2a c1",                /* cvtsi2sd */
	"66 0f ef c0",                /* pxor xmm0, xmm0 */
	"0f 50 c1",                   /* movmskps */
	"66 0f c5 c1 03",             /* pextrw */
	"66 0f f7 c1",                /* maskmovdqu */
	"62 f2 7e 48 28 c0",          /* vpmovm2b */
	"c5 fb 92 c8",                /* kmovd k1, eax */
	"c5 fb 93 d1",                /* kmovd edx, k1 */
	"c5 f8 98 c9",                /* kortestw */
	"62 f1 7d 48 74 46 01",       /* vpcmpeqb k0, zmm0, [rsi + 64] */
	"f0 0f c1 46 08",             /* lock xadd */
	"f0 48 0f b1 4e 08",          /* lock cmpxchg */
	"f0 48 0f c7 4e 10",          /* lock cmpxchg16b: unaligned mostly */
	"48 0f c3 46 08",             /* movnti */
	"67 8b 46 04",                /* mov eax, [esi + 4] */
	"64 48 8b 04 25 00 00 00 00", /* mov rax, fs:[0] */
	"64 8b 04 25 28 00 00 00",
	"f3 a4",          /* rep movsb: rcx may be large, a fault */
	"e8 00 00 00 00", /* a call to the next */
};

static size_t fixed_insn(struct lab *lab, uint8_t *code)
{
	const char *hex = fixed[rnd(lab, sizeof(fixed) / sizeof(*fixed))];
	unsigned int byte;
	size_t n = 0;
	int used;

	for (; sscanf(hex, " %2x%n", &byte, &used) == 1; hex += used)
		code[n++] = (uint8_t)byte;
	return n;
}

/* One instruction; rsp, rbp, rsi, rdi and r14 often stay as they are, as they point to data. */
static size_t random_insn(struct lab *lab, uint8_t *code)
{
	const struct form *form = &forms[rnd(lab, sizeof(forms) / sizeof(*forms))];
	bool small = !form->no_sizes && rnd(lab, 5) == 0, wide = rnd(lab, 2);
	size_t n = 0;
	int imm = form->imm;

	if (small)
		code[n++] = 0x66;
	if (form->prefix)
		code[n++] = form->prefix;
	if (wide || rnd(lab, 2))
		code[n++] = (uint8_t)(0x40 | (wide ? 8 : 0) | rnd(lab, 8) % 6);
	if (form->map)
		code[n++] = 0x0f;
	code[n++] = (uint8_t)(form->first + rnd(lab, form->n));
	if (form->reg != 9)
		n += random_modrm(lab, code + n, form->reg);
	if (imm < 0)
		imm = small && !(wide) ? 2 : 4;
	for (int i = 0; i < imm; i++)
		code[n++] = (uint8_t)rnd(lab, 256);
	return n;
}

static void random_start(struct lab *lab, struct user_regs_struct *regs)
{
	unsigned long long *values[] = { &regs->rax, &regs->rcx, &regs->rdx, &regs->rbx,
					 &regs->r8,  &regs->r9,  &regs->r10, &regs->r11,
					 &regs->r12, &regs->r13, &regs->r15 };
	uint64_t data[SIZE / 8];

	CHECK(ptrace(PTRACE_GETREGS, lab->pid, 0, regs) == 0);
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		*values[i] = random_value(lab);
	regs->rsp = DATA + SIZE / 2 + 8 * rnd(lab, 10);
	regs->rbp = DATA + SIZE / 2 + 512;
	regs->rsi = DATA + 1024 + rnd(lab, 32);
	regs->rdi = DATA + 2048 + rnd(lab, 32);
	regs->r14 = DATA + 3072 + rnd(lab, 32);
	regs->rip = CODE;
	regs->orig_rax = (uint64_t)-1;
	regs->eflags = 0x202 | (rnd(lab, 4096) & (BLOCK_ARITH));
	for (size_t i = 0; i < SIZE / 8; i++)
		data[i] = random_value(lab);
	CHECK(pwrite(lab->mem, data, SIZE, DATA) == SIZE);
	CHECK(ptrace(PTRACE_SETREGS, lab->pid, 0, regs) == 0);
}

/* Takes knowledge away, to see that what follows from less is right as well. */
static void forget_some(struct lab *lab)
{
	for (size_t i = 0; i < 16; i++) {
		uint64_t keep = rnd(lab, 2) ? UINT64_MAX : 0xffull << 8 * rnd(lab, 8);

		if (i >= 4 && i <= 7) /* the pointers */
			continue;
		if (rnd(lab, 3))
			continue;
		lab->state.known[i] &= ~keep;
		lab->state.gpr[i] &= lab->state.known[i];
	}
	if (rnd(lab, 2)) {
		lab->state.flags_known &= (uint32_t)rnd(lab, 4096);
		lab->state.flags &= lab->state.flags_known;
	}
}

static void check_vectors(struct lab *lab)
{
	struct user_fpregs_struct now;

	CHECK(ptrace(PTRACE_GETFPREGS, lab->pid, 0, &now) == 0);
	for (size_t v = 0; v < 16; v++) {
		const uint8_t *bytes = (const uint8_t *)now.xmm_space + 16 * v;

		for (size_t i = 0; i < 16; i++)
			CHECK(!(lab->state.vec_known[v] >> i & 1) ||
			      lab->state.vec[v].bytes[i] == bytes[i]);
	}
}

static void check_memory(struct lab *lab)
{
	uint64_t data[SIZE / 8];

	CHECK(pread(lab->mem, data, SIZE, DATA) == SIZE);
	for (size_t i = 0; i < SIZE / 8; i++) {
		struct block_value value = block_mem_load(lab->known, DATA + 8 * i, 8);

		if ((value.value ^ data[i]) & value.known)
			fprintf(stderr, "0x%llx: 0x%llx of 0x%llx, not 0x%llx after %s\n",
				(unsigned long long)(DATA + 8 * i), (unsigned long long)value.value,
				(unsigned long long)value.known, (unsigned long long)data[i],
				lab->text);
		CHECK(!((value.value ^ data[i]) & value.known));
	}
}

/* False: the instruction faulted, or is none of ours. */
static bool step(struct lab *lab, struct user_regs_struct *regs)
{
	struct insn_ops ops;
	struct block_event event;
	struct block_site site;
	struct insn insn;
	uint8_t code[16];
	uint64_t next;
	int status;

	CHECK(read_memory(lab, regs->rip, code, 15) == 15);
	if (insn_decode(code, 15, regs->rip, 64, &insn) ||
	    insn_ops_decode(code, 15, regs->rip, 64, &ops))
		return false;
	site = (struct block_site){ &ops, regs->rip, insn.length };
	if (ops.op == INSN_OP_OPAQUE ||
	    block_exec(&lab->state, lab->known, &site, &next, &event) > BLOCK_FLOW_EVENT)
		return false;
	CHECK(ptrace(PTRACE_SINGLESTEP, lab->pid, 0, 0) == 0);
	CHECK(waitpid(lab->pid, &status, 0) == lab->pid && WIFSTOPPED(status));
	if (WSTOPSIG(status) != SIGTRAP)
		return false;
	CHECK(ptrace(PTRACE_GETREGS, lab->pid, 0, regs) == 0);
	/* The flags of a rep string, and rip, are right at its end only. */
	for (int i = 0; ops.op == INSN_OP_REP && regs->rip == site.addr; i++) {
		if (i == 50)
			return false;
		CHECK(ptrace(PTRACE_SINGLESTEP, lab->pid, 0, 0) == 0);
		CHECK(waitpid(lab->pid, &status, 0) == lab->pid && WIFSTOPPED(status));
		if (WSTOPSIG(status) != SIGTRAP)
			return false;
		CHECK(ptrace(PTRACE_GETREGS, lab->pid, 0, regs) == 0);
	}
	CHECK_EQ(regs->rip, next);
	for (unsigned int i = 0; i < insn.length; i++)
		sprintf(lab->text + 3 * i, " %02x", code[i]);
	if (!block_state_matches(&lab->state, regs)) {
		fprintf(stderr, "op %u flags 0x%x known 0x%x now 0x%llx:%s\n", ops.op,
			lab->state.flags, lab->state.flags_known, regs->eflags, lab->text);
		CHECK(!"registers");
	}
	lab->op_count[ops.op]++;
	lab->steps++;
	return true;
}

static const struct block_region data_region = { DATA, SIZE, BLOCK_PRIVATE };

static void run(bool forget)
{
	static struct lab lab;
	size_t kinds = 0;

	lab.random = forget ? 7 : 3;
	lab.reader = (struct block_reader){ read_memory, read_memory, &lab };
	start_child(&lab);
	CHECK(block_mem_new(&lab.known) == 0);
	CHECK(block_mem_set_regions(lab.known, &data_region, 1) == 0);
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t code[16 * LENGTH + 16];
		struct user_regs_struct regs;
		size_t n = 0;

		memset(code, 0x90, sizeof(code));
		for (int i = 0; i < LENGTH; i++)
			n += rnd(&lab, 3) ? random_insn(&lab, code + n) :
					    fixed_insn(&lab, code + n);
		CHECK(pwrite(lab.mem, code, sizeof(code), CODE) == sizeof(code));
		random_start(&lab, &regs);
		block_mem_begin(lab.known, &lab.reader, true);
		block_mem_load(lab.known, DATA, 8); /* as it is before the first store */
		block_mem_load(lab.known, DATA + 4096, 8);
		block_state_init(&lab.state, &regs);
		if (forget)
			forget_some(&lab);
		for (int i = 0; i < LENGTH && step(&lab, &regs); i++) {
			check_memory(&lab);
			check_vectors(&lab);
		}
	}
	kill(lab.pid, SIGKILL);
	for (size_t i = 0; i < 256; i++)
		kinds += lab.op_count[i] > 20;
	fprintf(stderr, "%llu instructions of %zu kinds\n", (unsigned long long)lab.steps, kinds);
	CHECK(lab.steps > ROUNDS && kinds > 45);
	block_mem_free(lab.known);
}

TEST(exact_with_all_known)
{
	run(false);
}

TEST(sound_with_some_unknown)
{
	run(true);
}

UNIT_MAIN("unit/block_exec")
