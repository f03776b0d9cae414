// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: record/trigger record/trigger_condition base/duration
 */
#include "record/trigger.h"

#include <errno.h>

#include "record/trigger_condition.h"
#include "unit.h"

static char why[1024];

static struct trigger parsed(const char *text)
{
	struct trigger trigger;
	const int err = trigger_parse(text, &trigger, why, sizeof(why));

	if (err)
		fprintf(stderr, "%s: %d: %s\n", text, err, why);
	CHECK_EQ(err, 0);
	CHECK_STR(trigger.spec, text);
	return trigger;
}

/* The refusal's message, which names the whole text. */
static const char *refused(const char *text)
{
	struct trigger trigger;

	CHECK_EQ(trigger_parse(text, &trigger, why, sizeof(why)), -EINVAL);
	CHECK(!trigger.spec && !trigger.object && !trigger.function);
	CHECK(strstr(why, text));
	return why;
}

#define CHECK_REFUSED(text, part)                                              \
	do {                                                                   \
		if (!strstr(refused(text), (part))) {                          \
			fprintf(stderr, "no \"%s\" in \"%s\"\n", (part), why); \
			CHECK(0);                                              \
		}                                                              \
	} while (0)

TEST(functions_are_taken_apart)
{
	static const struct {
		const char *text, *object, *function;
		uint64_t offset;
	} cases[] = {
		{ "main", NULL, "main", 0 },
		{ "sym:main", NULL, "main", 0 },
		{ "sym:main+16", NULL, "main", 16 },
		{ "main+0x1f", NULL, "main", 0x1f },
		{ "sym:libc.so.6!abort", "libc.so.6", "abort", 0 },
		{ "/usr/lib/x.so!f+0X4", "/usr/lib/x.so", "f", 4 },
		{ "sym:libstdc++.so.6!__cxa_throw", "libstdc++.so.6", "__cxa_throw", 0 },
		{ "lib*!handle_*", "lib*", "handle_*", 0 },
		{ "ns::f", NULL, "ns::f", 0 },
		{ "std::sort", NULL, "std::sort", 0 },
		{ "sym:sym::exit", NULL, "sym::exit", 0 },
		{ "exit::now", NULL, "exit::now", 0 },
		{ "sym:exit", NULL, "exit", 0 },
		{ "sym:ns::f(int, char)", NULL, "ns::f(int, char)", 0 },
		{ "sym:ns::f(int, char)+8", NULL, "ns::f(int, char)", 8 },
		{ "f<A<int>, (B)1>(std::map<int, char>)", NULL,
		  "f<A<int>, (B)1>(std::map<int, char>)", 0 },
		{ "sym:ns::operator,(A const&, B const&)", NULL,
		  "ns::operator,(A const&, B const&)", 0 },
		{ "sym:ns::operator<(A, B)", NULL, "ns::operator<(A, B)", 0 },
		{ "sym:operator<< <char>(A, B)", NULL, "operator<< <char>(A, B)", 0 },
		{ "sym:A::operator!=(A, B)", NULL, "A::operator!=(A, B)", 0 },
		{ "sym:A::operator!()", NULL, "A::operator!()", 0 },
		{ "sym:x.so!A::operator->(int, int)", "x.so", "A::operator->(int, int)", 0 },
		{ "sym:A::operator+(A, B)+0x10", NULL, "A::operator+(A, B)", 16 },
		{ "sym:A::operator()(int, int)", NULL, "A::operator()(int, int)", 0 },
		{ "sym:my_operator!f", "my_operator", "f", 0 },
		{ "sym:f()::{lambda(int, char)#1}::operator()(int, char) const", NULL,
		  "f()::{lambda(int, char)#1}::operator()(int, char) const", 0 },
		{ "sym:<fn(u8) -> u8 as core::ops::Fn<(u8, u8)>>::call", NULL,
		  "<fn(u8) -> u8 as core::ops::Fn<(u8, u8)>>::call", 0 },
		{ "sym:(anonymous namespace)::g(int, int)", NULL,
		  "(anonymous namespace)::g(int, int)", 0 },
		{ "sym:caml+plus", NULL, "caml+plus", 0 },
		{ "sym:Pair<int, arg0>::f()", NULL, "Pair<int, arg0>::f()", 0 },
		{ "sym: main ", NULL, "main", 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct trigger trigger = parsed(cases[i].text);

		CHECK_EQ(trigger.kind, TRIGGER_SYM);
		CHECK_STR(trigger.function, cases[i].function);
		CHECK_EQ(trigger.offset, cases[i].offset);
		CHECK(!trigger.object == !cases[i].object);
		if (cases[i].object)
			CHECK_STR(trigger.object, cases[i].object);
		CHECK_EQ(trigger.config.n_conditions, 0);
		CHECK_EQ(trigger.config.flags, 0);
		trigger_fini(&trigger);
	}
}

TEST(names_keep_their_commas_and_conditions_follow)
{
	static const char *const names[] = {
		"ns::f(int, char)",
		"f<int, 5>",
		"ns::operator,(A const&, B const&)",
		"operator<(A, B)",
		"operator<<(std::ostream&, A const&)",
		"A::operator()(int, int) const",
		"f()::{lambda(int, char)#1}",
		"f<*",
		"plain",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct trigger trigger;
		char text[256];

		snprintf(text, sizeof(text), "sym:%s,arg0>5, tid = 7", names[i]);
		trigger = parsed(text);
		CHECK_STR(trigger.function, names[i]);
		CHECK_EQ(trigger.config.n_conditions, 1);
		CHECK_EQ(trigger.config.conditions[0].op, PTBPF_OP_GT);
		CHECK_EQ(trigger.config.conditions[0].value, 5);
		CHECK_EQ(trigger.config.flags, PTBPF_TRIGGER_HAS_TID);
		CHECK_EQ(trigger.config.tid, 7);
		trigger_fini(&trigger);
	}
}

TEST(other_kinds_that_are_evaluated)
{
	struct trigger trigger = parsed("addr:libc.so.6+0x29d90,arg1=1");

	CHECK_EQ(trigger.kind, TRIGGER_ADDR);
	CHECK_STR(trigger.object, "libc.so.6");
	CHECK_EQ(trigger.offset, 0x29d90);
	CHECK_EQ(trigger.config.n_conditions, 1);
	CHECK(!trigger.function);
	trigger_fini(&trigger);
	trigger = parsed("addr:/lib/libstdc++.so+4096");
	CHECK_STR(trigger.object, "/lib/libstdc++.so");
	CHECK_EQ(trigger.offset, 4096);
	trigger_fini(&trigger);
	trigger = parsed("exit");
	CHECK_EQ(trigger.kind, TRIGGER_EXIT);
	trigger_fini(&trigger);
	trigger = parsed("manual");
	CHECK_EQ(trigger.kind, TRIGGER_MANUAL);
	trigger_fini(&trigger);
	trigger = parsed("exit:");
	CHECK_EQ(trigger.kind, TRIGGER_EXIT);
	trigger_fini(&trigger);
}

TEST(argument_conditions)
{
	static const struct {
		const char *text;
		uint32_t arg, op;
		uint64_t value;
	} cases[] = {
		{ "arg0==5", 0, PTBPF_OP_EQ, 5 },
		{ "arg1=5", 1, PTBPF_OP_EQ, 5 },
		{ "arg2 != 0x10", 2, PTBPF_OP_NE, 16 },
		{ "arg3<7", 3, PTBPF_OP_LT, 7 },
		{ "arg4<=7", 4, PTBPF_OP_LE, 7 },
		{ "arg5>7", 5, PTBPF_OP_GT, 7 },
		{ "arg0>=7", 0, PTBPF_OP_GE, 7 },
		{ "arg0==-1", 0, PTBPF_OP_EQ | PTBPF_OP_SIGNED, UINT64_MAX },
		{ "arg0>-0x10", 0, PTBPF_OP_GT | PTBPF_OP_SIGNED, (uint64_t)-16 },
		{ "arg0<0", 0, PTBPF_OP_LT | PTBPF_OP_SIGNED, 0 },
		{ "arg0>=0", 0, PTBPF_OP_GE | PTBPF_OP_SIGNED, 0 },
		{ "arg0>0", 0, PTBPF_OP_GT, 0 },
		{ "arg0==0xffffffffffffffff", 0, PTBPF_OP_EQ, UINT64_MAX },
		{ "arg0==-9223372036854775808", 0, PTBPF_OP_EQ | PTBPF_OP_SIGNED, 1ull << 63 },
		{ "arg0==010", 0, PTBPF_OP_EQ, 10 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct trigger trigger;
		char text[128];

		snprintf(text, sizeof(text), "f,%s", cases[i].text);
		trigger = parsed(text);
		CHECK_EQ(trigger.config.n_conditions, 1);
		CHECK_EQ(trigger.config.conditions[0].arg, cases[i].arg);
		CHECK_EQ(trigger.config.conditions[0].op, cases[i].op);
		CHECK_EQ(trigger.config.conditions[0].value, cases[i].value);
		trigger_fini(&trigger);
	}
}

TEST(all_conditions_together)
{
	struct trigger trigger = parsed("f,arg0>1,arg0<9,arg1!=3,arg5=-2,tid=12,comm=worker 7,"
					"after=10,every=3,rate=5/250ms,sample=12.5%");
	const struct ptbpf_trigger *const config = &trigger.config;

	CHECK_EQ(config->n_conditions, 4);
	CHECK_EQ(config->conditions[3].arg, 5);
	CHECK_EQ(config->conditions[3].value, -2);
	CHECK_EQ(config->flags,
		 PTBPF_TRIGGER_HAS_TID | PTBPF_TRIGGER_HAS_COMM | PTBPF_TRIGGER_HAS_SAMPLE);
	CHECK_EQ(config->tid, 12);
	CHECK_STR(config->comm, "worker 7");
	CHECK_EQ(config->after, 10);
	CHECK_EQ(config->every, 3);
	CHECK_EQ(config->rate_count, 5);
	CHECK_EQ(config->rate_ns, 250000000);
	CHECK_EQ(config->sample_ppm, 125000);
	trigger_fini(&trigger);
}

TEST(spellings_of_rate_and_sample)
{
	struct trigger trigger = parsed("f,rate=10/s,sample=0.5");

	CHECK_EQ(trigger.config.rate_count, 10);
	CHECK_EQ(trigger.config.rate_ns, 1000000000);
	CHECK_EQ(trigger.config.sample_ppm, 500000);
	trigger_fini(&trigger);
	trigger = parsed("f,rate=1/2m,sample=100%");
	CHECK_EQ(trigger.config.rate_ns, 120000000000ll);
	CHECK_EQ(trigger.config.sample_ppm, 1000000);
	trigger_fini(&trigger);
}

TEST(refusals_say_what_would_be_right)
{
	CHECK_REFUSED("", "sym:FUNC");
	CHECK_REFUSED("  ", "sym:FUNC");
	CHECK_REFUSED("sym:", "names no function");
	CHECK_REFUSED("sym:,arg0>1", "names no function");
	CHECK_REFUSED("sym:!f", "no object before '!'");
	CHECK_REFUSED("sym:x!", "names no function");
	CHECK_REFUSED("symbol:main", "'symbol' is not a kind of trigger");
	CHECK_REFUSED("sym:f+0xzz", "is no offset");
	CHECK_REFUSED("sym:f+0x", "is no offset");
	CHECK_REFUSED("sym:f+", "is no offset");
	CHECK_REFUSED("sym:f+99999999999999999999", "is no offset");
	CHECK_REFUSED("addr:libc.so.6", "addr:OBJECT+0xOFF");
	CHECK_REFUSED("addr:+0x10", "addr:OBJECT+0xOFF");
	CHECK_REFUSED("addr:libc+x", "addr:OBJECT+0xOFF");
	CHECK_REFUSED("exit,arg0>1", "sym:exit");
	CHECK_REFUSED("manual:now", "takes nothing");
	CHECK_REFUSED("f,arg6>1", "arg0 to arg5");
	CHECK_REFUSED("f,arg10>1", "arg0 to arg5");
	CHECK_REFUSED("f,arg0", "not a condition");
	CHECK_REFUSED("f,", "not a condition");
	CHECK_REFUSED("f,colour=red", "'colour' is not a condition");
	CHECK_REFUSED("f,arg0>", "compare with a number");
	CHECK_REFUSED("f,arg0>x", "compare with a number");
	CHECK_REFUSED("f,arg0>5x", "compare with a number");
	CHECK_REFUSED("f,arg0>--5", "compare with a number");
	CHECK_REFUSED("f,arg0>18446744073709551616", "64 bits");
	CHECK_REFUSED("f,arg0>-9223372036854775809", "64 bits");
	CHECK_REFUSED("f,arg0>1,arg0>2,arg0>3,arg0>4,arg0>5", "at most 4");
	CHECK_REFUSED("f,tid=0", "not a thread id");
	CHECK_REFUSED("f,tid=x", "not a thread id");
	CHECK_REFUSED("f,tid=-1", "not a thread id");
	CHECK_REFUSED("f,tid=4294967296", "not a thread id");
	CHECK_REFUSED("f,tid>5", "only tid=");
	CHECK_REFUSED("f,tid=5,tid=6", "given twice");
	CHECK_REFUSED("f,comm=", "needs a thread's name");
	CHECK_REFUSED("f,comm=a_name_of_19_bytes_", "write comm=a_name_of_19_by");
	CHECK_REFUSED("f,every=0", "from 1 on");
	CHECK_REFUSED("f,after=-1", "from 0 on");
	CHECK_REFUSED("f,rate=5", "rate=N/TIME");
	CHECK_REFUSED("f,rate=5/0s", "rate=N/TIME");
	CHECK_REFUSED("f,rate=5/-1s", "rate=N/TIME");
	CHECK_REFUSED("f,rate=5/10", "rate=N/TIME");
	CHECK_REFUSED("f,rate=0/1s", "from 1 to");
	CHECK_REFUSED("f,rate=5000/1s", "from 1 to");
	CHECK_REFUSED("f,sample=2", "probability");
	CHECK_REFUSED("f,sample=-0.1", "probability");
	CHECK_REFUSED("f,sample=nan", "probability");
	CHECK_REFUSED("f,sample=0.5x", "probability");
	CHECK_REFUSED("f,sample=0", "never fire");
	CHECK_REFUSED("f,sample=101%", "probability");
}

TEST(kinds_of_later_versions_are_named)
{
	static const char *const texts[] = {
		"ret:f",       "lat:f>500us",  "usdt:p:n", "exc:c++:my::Err+",
		"signal:SEGV", "crash",        "crash:",   "tp:sched:sched_switch",
		"offcpu>10ms", "offcpu:>10ms",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct trigger trigger;
		char kind[16];

		CHECK_EQ(trigger_parse(texts[i], &trigger, why, sizeof(why)), -EOPNOTSUPP);
		CHECK(!trigger.spec);
		CHECK(strstr(why, texts[i]));
		snprintf(kind, sizeof(kind), "%.*s:", (int)strcspn(texts[i], ":>"), texts[i]);
		CHECK(strstr(why, kind));
		CHECK(strstr(why, "not evaluated by this version"));
	}
}

TEST(kinds_have_names)
{
	CHECK_STR(trigger_kind_name(TRIGGER_SYM), "sym");
	CHECK_STR(trigger_kind_name(TRIGGER_OFFCPU), "offcpu");
	CHECK_STR(trigger_kind_name((enum trigger_kind)99), "unknown");
}

TEST(a_small_buffer_for_the_message_is_enough)
{
	struct trigger trigger;
	char small[8];

	CHECK_EQ(trigger_parse("f,arg9>1", &trigger, small, sizeof(small)), -EINVAL);
	CHECK_EQ(strlen(small), sizeof(small) - 1);
	CHECK_EQ(trigger_parse("f,arg9>1", &trigger, small, 0), -EINVAL);
}

TEST(hostile_texts_do_no_harm)
{
	static const char signs[] = "sym:addr!+,()<>[]{}=-0x9 operator*?exit\xff\x01&|";
	unsigned int seed = 1;

	for (int i = 0; i < 200000; i++) {
		struct trigger trigger;
		char text[40];
		size_t n = (size_t)rand_r(&seed) % (sizeof(text) - 1);

		for (size_t k = 0; k < n; k++)
			text[k] = signs[(size_t)rand_r(&seed) % (sizeof(signs) - 1)];
		text[n] = '\0';
		if (!trigger_parse(text, &trigger, why, sizeof(why))) {
			CHECK(trigger.kind != TRIGGER_SYM || trigger.function[0]);
			trigger_fini(&trigger);
		} else {
			CHECK(why[0]);
		}
	}
}

TEST(conditions_hold_as_in_the_kernel)
{
	const uint64_t minus_one_int = 0xffffffff;
	struct ptbpf_condition c = { .op = PTBPF_OP_LT | PTBPF_OP_SIGNED, .value = 0 };

	CHECK(condition_holds(&c, minus_one_int));
	CHECK(condition_holds(&c, (uint64_t)-5));
	CHECK(!condition_holds(&c, 0));
	CHECK(!condition_holds(&c, 0x100000000));
	c.op = PTBPF_OP_LT;
	c.value = 10;
	CHECK(!condition_holds(&c, minus_one_int));
	CHECK(condition_holds(&c, 9));
	c.op = PTBPF_OP_GE;
	CHECK(condition_holds(&c, 10) && !condition_holds(&c, 9));
	c.op = PTBPF_OP_NE;
	CHECK(condition_holds(&c, 9) && !condition_holds(&c, 10));
	c.op = 77;
	CHECK(!condition_holds(&c, 10));
}

UNIT_MAIN("unit/trigger")
